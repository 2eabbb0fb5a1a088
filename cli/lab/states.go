package lab

import (
	"fmt"

	"ringcli/cli/command"
	"ringcli/cli/endpoint"
	"ringcli/verbs"
	"ringcli/verbs/route"
)

// create makes the queue pair: few requests are outstanding at a time.
func (p *pair) create(v *Values) error { return p.reached(v, verbs.StateReset, p.Create(4, 4)) }

func (p *pair) toInit(v *Values) error { return p.reached(v, verbs.StateInit, p.ToInit(access)) }

// toRTR tells the queue pair who its peer is, by what the peer said of itself but
// for the values that are to be wrong.
func (p *pair) toRTR(v *Values) error {
	own, err := p.process.MTU()
	if err != nil {
		return err
	}
	peer := p.peer
	theirs, err := verbs.MTUFromBytes(peer.MTU)
	if err != nil {
		return fmt.Errorf("the peer's conn_info: %w", err)
	}
	return p.reached(v, verbs.StateRTR, p.ToRTR(endpoint.Remote{
		Remote: route.Remote{GID: peer.GID, LID: peer.LID, LinkLayer: peer.LinkLayer, UDPPort: peer.UDPPort, UDPSocket: peer.UDPSocket},
		QPN:    command.Or(p.wrong.DestQPN, peer.QPN), PSN: command.Or(p.wrong.PSN, peer.PSN), MTU: min(own, theirs),
	}))
}

func (p *pair) toRTS(v *Values) error { return p.reached(v, verbs.StateRTS, p.ToRTS()) }

// reached says what the queue pair itself says, unless the way to a state failed.
func (p *pair) reached(v *Values, state verbs.QPState, failed error) error {
	if failed != nil {
		return failed
	}
	return p.stateValues(v, state)
}

// stateValues are what the queue pair itself says in a state, which it must be in.
func (p *pair) stateValues(v *Values, want verbs.QPState) error {
	a, init, err := p.QP.Query()
	if err != nil {
		return fmt.Errorf("query QP %s: %w", verbs.Hex(p.QP.Num()), err)
	}
	v.add("qp_num", verbs.Hex(p.QP.Num()), "state", a.State)
	switch want {
	case verbs.StateReset:
		v.add("qp_type", init.Type, "max_send_wr", init.Cap.MaxSendWR, "max_recv_wr", init.Cap.MaxRecvWR)
	case verbs.StateInit:
		v.add("port_num", a.PortNum, "pkey_index", a.PKeyIndex, "qp_access_flags", hex(a.Access))
	case verbs.StateRTR:
		v.add("dest_qp_num", verbs.Hex(a.DestQPN), "rq_psn", verbs.Hex(a.RQPSN), "path_mtu", a.PathMTU)
		if a.AH.IsGlobal {
			v.add("dgid", a.AH.GRH.DGID, "sgid_index", a.AH.GRH.SGIDIndex)
		} else {
			v.add("dlid", a.AH.DLID)
		}
		v.add("min_rnr_timer", a.MinRNRTimer, "max_dest_rd_atomic", a.MaxDestRDAtomic)
	case verbs.StateRTS:
		v.add("sq_psn", verbs.Hex(a.SQPSN), "timeout", a.Timeout, "retry_cnt", a.RetryCnt, "rnr_retry", a.RNRRetry, "max_rd_atomic", a.MaxRDAtomic)
	}
	if a.State != want {
		return fmt.Errorf("QP %s is in %s, expected %s", verbs.Hex(p.QP.Num()), a.State, want)
	}
	return nil
}
