package lab

import (
	"fmt"

	"ringcli/cli/command"
	"ringcli/cli/endpoint"
	"ringcli/verbs"
	"ringcli/verbs/route"
)

// create makes the queue pair: few requests are outstanding at a time.
func (p *pair) create(v *Values) error {
	if err := p.Create(4, 4); err != nil {
		return err
	}
	return p.stateValues(v, verbs.StateReset)
}

func (p *pair) toInit(v *Values) error {
	if err := p.ToInit(access); err != nil {
		return err
	}
	return p.stateValues(v, verbs.StateInit)
}

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
	if err := p.ToRTR(endpoint.Remote{
		Remote: route.Remote{GID: peer.GID, LID: peer.LID, LinkLayer: peer.LinkLayer, UDPPort: peer.UDPPort, UDPSocket: peer.UDPSocket},
		QPN:    command.Or(p.wrong.DestQPN, peer.QPN), PSN: command.Or(p.wrong.PSN, peer.PSN), MTU: min(own, theirs),
	}); err != nil {
		return err
	}
	return p.stateValues(v, verbs.StateRTR)
}

func (p *pair) toRTS(v *Values) error {
	if err := p.ToRTS(); err != nil {
		return err
	}
	return p.stateValues(v, verbs.StateRTS)
}

// stateValues are what the queue pair itself says in a state, which it must be in.
func (p *pair) stateValues(v *Values, want verbs.QPState) error {
	a, init, err := p.QP.Query()
	if err != nil {
		return fmt.Errorf("query QP %s: %w", hex24(p.QP.Num()), err)
	}
	v.add("qp_num", "%s", hex24(p.QP.Num()))
	v.add("state", "%s", a.State)
	switch want {
	case verbs.StateReset:
		v.add("qp_type", "%s", init.Type)
		v.add("max_send_wr", "%d", init.Cap.MaxSendWR)
		v.add("max_recv_wr", "%d", init.Cap.MaxRecvWR)
	case verbs.StateInit:
		v.add("port_num", "%d", a.PortNum)
		v.add("pkey_index", "%d", a.PKeyIndex)
		v.add("qp_access_flags", "%#x", uint32(a.Access))
	case verbs.StateRTR:
		v.add("dest_qp_num", "%s", hex24(a.DestQPN))
		v.add("rq_psn", "%s", hex24(a.RQPSN))
		v.add("path_mtu", "%s", a.PathMTU)
		if a.AH.IsGlobal {
			v.add("dgid", "%s", a.AH.GRH.DGID)
			v.add("sgid_index", "%d", a.AH.GRH.SGIDIndex)
		} else {
			v.add("dlid", "%d", a.AH.DLID)
		}
		v.add("min_rnr_timer", "%d", a.MinRNRTimer)
		v.add("max_dest_rd_atomic", "%d", a.MaxDestRDAtomic)
	case verbs.StateRTS:
		v.add("sq_psn", "%s", hex24(a.SQPSN))
		v.add("timeout", "%d", a.Timeout)
		v.add("retry_cnt", "%d", a.RetryCnt)
		v.add("rnr_retry", "%d", a.RNRRetry)
		v.add("max_rd_atomic", "%d", a.MaxRDAtomic)
	}
	if a.State != want {
		return fmt.Errorf("QP %s is in %s, expected %s", hex24(p.QP.Num()), a.State, want)
	}
	return nil
}

// hex24 writes a QPN or a PSN as libibverbs' examples do.
func hex24(n uint32) string { return fmt.Sprintf("0x%06x", n) }
