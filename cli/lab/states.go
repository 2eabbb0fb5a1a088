package lab

import (
	"fmt"

	"ringcli/verbs"
	"ringcli/verbs/path"
)

// create makes the queue pair, which is in RESET.
func (p *pair) create() (err error) {
	p.qp, err = p.s.pd.CreateQP(verbs.QPInitAttr{
		SendCQ: p.s.cq, RecvCQ: p.s.cq, Type: verbs.RC,
		Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	return err
}

func (p *pair) toInit() error {
	return p.qp.Modify(verbs.QPAttr{State: verbs.StateInit, PKeyIndex: 0, PortNum: p.s.o.Port, Access: access},
		verbs.AttrState|verbs.AttrPKeyIndex|verbs.AttrPort|verbs.AttrAccess)
}

// toRTR tells the queue pair who its peer is, by what the peer said of itself but
// for the values that are to be wrong.
func (p *pair) toRTR(peer ConnInfo, wrong Wrong) error {
	o := p.s.o
	ah, err := p.s.port.AddressVector(p.s.choice.Entry.Index, path.Remote{
		GID: peer.GID, LID: peer.LID, LinkLayer: peer.linkLayer(), UDPPort: peer.UDPPort, Soft: peer.Soft,
	}, path.Service{SL: o.SL, TrafficClass: o.TrafficClass})
	if err != nil {
		return err
	}
	own, err := p.mtu()
	if err != nil {
		return err
	}
	theirs, err := verbs.MTUFromBytes(peer.MTU)
	if err != nil {
		return fmt.Errorf("the peer's conn_info: %w", err)
	}
	return p.qp.Modify(verbs.QPAttr{
		State: verbs.StateRTR, AH: ah, PathMTU: min(own, theirs), DestQPN: or(wrong.DestQPN, peer.QPN), RQPSN: or(wrong.PSN, peer.PSN),
		MaxDestRDAtomic: 1, MinRNRTimer: o.MinRNRTimer,
	}, verbs.AttrState|verbs.AttrAV|verbs.AttrPathMTU|verbs.AttrDestQPN|verbs.AttrRQPSN|verbs.AttrMaxDestRDAtomic|verbs.AttrMinRNRTimer)
}

func or[T any](given *T, proper T) T {
	if given != nil {
		return *given
	}
	return proper
}

// mtu is the path MTU that this end proposes: what was asked for, else the port's.
func (p *pair) mtu() (verbs.MTU, error) {
	active := p.s.port.Attr.ActiveMTU
	if p.s.o.MTU > active {
		return 0, fmt.Errorf("path MTU %s: the port's active MTU is %s: expected no more than that", p.s.o.MTU, active)
	}
	if p.s.o.MTU == 0 {
		return active, nil
	}
	return p.s.o.MTU, nil
}

func (p *pair) toRTS() error {
	o := p.s.o
	return p.qp.Modify(verbs.QPAttr{
		State: verbs.StateRTS, SQPSN: p.psn, Timeout: o.QPTimeout, RetryCnt: o.RetryCnt, RNRRetry: o.RNRRetry, MaxRDAtomic: 1,
	}, verbs.AttrState|verbs.AttrSQPSN|verbs.AttrTimeout|verbs.AttrRetryCnt|verbs.AttrRNRRetry|verbs.AttrMaxRDAtomic)
}

// stateValues are what the queue pair itself says in a state, which it must be in.
func (p *pair) stateValues(v *Values, want verbs.QPState) error {
	a, init, err := p.qp.Query()
	if err != nil {
		return fmt.Errorf("query QP %s: %w", qpnText(p.qp.Num()), err)
	}
	v.add("qp_num", "%s", qpnText(p.qp.Num()))
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
		return fmt.Errorf("QP %s is in %s, expected %s", qpnText(p.qp.Num()), a.State, want)
	}
	return nil
}

// Numbers of 24 bits, as libibverbs' examples write them.
func qpnText(n uint32) string { return fmt.Sprintf("0x%06x", n) }
func psnText(n uint32) string { return qpnText(n) }
