//go:build !nodl

package ibv

import "ringcli/verbs"

// set writes the attributes that the mask names.
func (c *cQPAttr) set(a *verbs.QPAttr, mask verbs.AttrMask) {
	*c = cQPAttr{
		qpState: uint32(a.State), curQPState: uint32(a.CurState), pathMTU: uint32(a.PathMTU), rqPSN: a.RQPSN, sqPSN: a.SQPSN,
		destQPNum: a.DestQPN, qpAccessFlags: uint32(a.Access), pkeyIndex: a.PKeyIndex, maxRDAtomic: a.MaxRDAtomic,
		maxDestRDAtomic: a.MaxDestRDAtomic, minRNRTimer: a.MinRNRTimer, portNum: uint8(a.PortNum), timeout: a.Timeout,
		retryCnt: a.RetryCnt, rnrRetry: a.RNRRetry,
	}
	if mask&verbs.AttrAV != 0 {
		c.ahAttr.set(&a.AH)
	}
}

// set writes an address vector: the LID of InfiniBand and, if it is global, as it
// always is on Ethernet, the GRH. On one subnet of InfiniBand the LID is enough.
func (c *cAHAttr) set(a *verbs.AHAttr) {
	*c = cAHAttr{dlid: a.DLID, sl: a.SL, portNum: uint8(a.PortNum)}
	if a.IsGlobal {
		c.isGlobal = 1
		c.grh = cGlobalRoute{
			dgid: a.GRH.DGID, flowLabel: a.GRH.FlowLabel, sgidIndex: uint8(a.GRH.SGIDIndex), hopLimit: a.GRH.HopLimit,
			trafficClass: a.GRH.TrafficClass,
		}
	}
}

func (c *cAHAttr) goForm() verbs.AHAttr {
	a := verbs.AHAttr{DLID: c.dlid, SL: c.sl, IsGlobal: c.isGlobal != 0, PortNum: int(c.portNum)}
	if a.IsGlobal {
		a.GRH = verbs.GlobalRoute{
			DGID: c.grh.dgid, FlowLabel: c.grh.flowLabel, SGIDIndex: int(c.grh.sgidIndex), HopLimit: c.grh.hopLimit,
			TrafficClass: c.grh.trafficClass,
		}
	}
	return a
}

func (c *cQPAttr) goForm() verbs.QPAttr {
	return verbs.QPAttr{
		State: verbs.QPState(c.qpState), CurState: verbs.QPState(c.curQPState), PathMTU: verbs.MTU(c.pathMTU), RQPSN: c.rqPSN,
		SQPSN: c.sqPSN, DestQPN: c.destQPNum, Access: verbs.Access(c.qpAccessFlags), Cap: c.cap.goForm(), AH: c.ahAttr.goForm(),
		PKeyIndex: c.pkeyIndex, PortNum: int(c.portNum), MaxRDAtomic: c.maxRDAtomic, MaxDestRDAtomic: c.maxDestRDAtomic,
		MinRNRTimer: c.minRNRTimer, Timeout: c.timeout, RetryCnt: c.retryCnt, RNRRetry: c.rnrRetry,
	}
}
