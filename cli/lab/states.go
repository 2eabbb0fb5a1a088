package lab

import (
	"fmt"

	"ringcli/cli/endpoint"
	"ringcli/verbs"
	"ringcli/verbs/route"
)

// create makes the queue pair: few requests are outstanding at a time.
func (p *pair) create() error { return p.Create(4, 4) }

func (p *pair) toInit() error { return p.ToInit(access) }

// toRTR tells the queue pair who its peer is, by what the peer said of itself but
// for the values that are to be wrong.
func (p *pair) toRTR(peer ConnInfo, wrong Wrong) error {
	own, err := p.process.MTU()
	if err != nil {
		return err
	}
	theirs, err := verbs.MTUFromBytes(peer.MTU)
	if err != nil {
		return fmt.Errorf("the peer's conn_info: %w", err)
	}
	return p.ToRTR(endpoint.Remote{
		Remote: route.Remote{GID: peer.GID, LID: peer.LID, LinkLayer: peer.LinkLayer, UDPPort: peer.UDPPort, UDPSocket: peer.UDPSocket},
		QPN:    or(wrong.DestQPN, peer.QPN), PSN: or(wrong.PSN, peer.PSN), MTU: min(own, theirs),
	})
}

func or[T any](given *T, proper T) T {
	if given != nil {
		return *given
	}
	return proper
}

// stateValues are what the queue pair itself says in a state, which it must be in.
func (p *pair) stateValues(v *Values, want verbs.QPState) error {
	a, init, err := p.QP.Query()
	if err != nil {
		return fmt.Errorf("query QP %s: %w", qpnText(p.QP.Num()), err)
	}
	v.add("qp_num", "%s", qpnText(p.QP.Num()))
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
		v.add("dest_qp_num", "%s", qpnText(a.DestQPN))
		v.add("rq_psn", "%s", psnText(a.RQPSN))
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
		v.add("sq_psn", "%s", psnText(a.SQPSN))
		v.add("timeout", "%d", a.Timeout)
		v.add("retry_cnt", "%d", a.RetryCnt)
		v.add("rnr_retry", "%d", a.RNRRetry)
		v.add("max_rd_atomic", "%d", a.MaxRDAtomic)
	}
	if a.State != want {
		return fmt.Errorf("QP %s is in %s, expected %s", qpnText(p.QP.Num()), a.State, want)
	}
	return nil
}

// Numbers of 24 bits, as libibverbs' examples write them.
func qpnText(n uint32) string { return fmt.Sprintf("0x%06x", n) }
func psnText(n uint32) string { return qpnText(n) }
