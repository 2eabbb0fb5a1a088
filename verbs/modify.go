package verbs

import (
	"fmt"
	"strings"
)

type transition struct{ from, to QPState }

type attrRule struct{ required, optional AttrMask }

// What Modify demands and allows for RC (InfiniBand specification 1.4, table 102
// in 11.2.5.2; Linux drivers/infiniband/core/verbs.c, qp_state_table). Rows to
// RESET and ERR take no attributes and stand in CheckModify. SQE has no row: only
// the other transports enter it.
var rcTransitions = map[transition]attrRule{
	{StateReset, StateInit}: {required: AttrPKeyIndex | AttrPort | AttrAccess},
	{StateInit, StateInit}:  {optional: AttrPKeyIndex | AttrPort | AttrAccess},
	{StateInit, StateRTR}: {
		required: AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN | AttrMaxDestRDAtomic | AttrMinRNRTimer,
		optional: AttrAccess | AttrPKeyIndex,
	},
	{StateRTR, StateRTS}: {
		required: AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrSQPSN | AttrMaxRDAtomic,
		optional: AttrCurState | AttrAccess | AttrMinRNRTimer,
	},
	{StateRTS, StateRTS}: {optional: AttrCurState | AttrAccess | AttrMinRNRTimer},
	{StateRTS, StateSQD}: {},
	{StateSQD, StateRTS}: {optional: AttrCurState | AttrAccess | AttrMinRNRTimer},
	{StateSQD, StateSQD}: {
		optional: AttrPort | AttrAV | AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrMaxRDAtomic |
			AttrMaxDestRDAtomic | AttrAccess | AttrPKeyIndex | AttrMinRNRTimer,
	},
}

// ModifyError says why a queue pair refused a change. It wraps ErrInvalid.
type ModifyError struct {
	QPN        uint32
	From, To   QPState
	Missing    AttrMask // required and not in the mask
	Unexpected AttrMask // in the mask and not allowed
	Reason     string   // set if the transition or a value is at fault
}

func (e *ModifyError) Error() string {
	var why []string
	if e.Reason != "" {
		why = append(why, e.Reason)
	}
	if e.Missing != 0 {
		why = append(why, "missing "+e.Missing.String())
	}
	if e.Unexpected != 0 {
		why = append(why, "not allowed here: "+e.Unexpected.String())
	}
	return fmt.Sprintf("modify QP 0x%06x %s→%s: %s", e.QPN, e.From, e.To, strings.Join(why, "; "))
}

// Unwrap makes errors.Is(err, ErrInvalid) hold.
func (e *ModifyError) Unwrap() error { return ErrInvalid }

// CheckModify tells whether an RC queue pair in state cur takes the change, as a
// device's driver does before it touches the hardware: order of states, required
// and allowed attributes, ranges of values. port limits path MTU and port_num.
func CheckModify(qpn uint32, cur QPState, attr *QPAttr, mask AttrMask, port *PortAttr) error {
	to := cur
	if mask&AttrState != 0 {
		to = attr.State
	}
	e := &ModifyError{QPN: qpn, From: cur, To: to}
	if mask&AttrCurState != 0 && attr.CurState != cur {
		e.Reason = fmt.Sprintf("cur_qp_state says %s", attr.CurState)
		return e
	}
	rest := mask &^ AttrState
	if to == StateReset || (to == StateErr && cur != StateReset) {
		if e.Unexpected = rest; e.Unexpected != 0 {
			return e
		}
		return nil
	}
	rule, ok := rcTransitions[transition{cur, to}]
	if !ok {
		e.Reason = "no such transition for RC; " + nextStep(cur)
		return e
	}
	e.Missing = rule.required &^ rest
	e.Unexpected = rest &^ (rule.required | rule.optional)
	if e.Missing|e.Unexpected != 0 {
		return e
	}
	if e.Reason = badValue(attr, rest, port); e.Reason != "" {
		return e
	}
	return nil
}

func nextStep(s QPState) string {
	switch s {
	case StateReset:
		return "from RESET the next state is INIT"
	case StateInit:
		return "from INIT the next state is RTR"
	case StateRTR:
		return "from RTR the next state is RTS"
	case StateRTS:
		return "from RTS go to SQD, ERR or RESET"
	case StateSQD:
		return "from SQD go to RTS, ERR or RESET"
	default:
		return fmt.Sprintf("from %s go to RESET", s)
	}
}

// badValue returns a sentence about the first attribute out of range.
func badValue(a *QPAttr, mask AttrMask, port *PortAttr) string {
	const max24 = 1<<24 - 1
	all := AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic
	for _, c := range []struct {
		attr AttrMask
		bad  bool
		text string
	}{
		{AttrPort, a.PortNum != 1, fmt.Sprintf("port_num %d: the device has port 1 only", a.PortNum)},
		{AttrPKeyIndex, a.PKeyIndex != 0, fmt.Sprintf("pkey_index %d: the P_Key table has one entry, 0", a.PKeyIndex)},
		{AttrAccess, a.Access&^all != 0, fmt.Sprintf("qp_access_flags %s: unknown bits", a.Access)},
		{AttrPathMTU, a.PathMTU.Bytes() == 0, fmt.Sprintf("path_mtu code %d: expected 1 (256) to 5 (4096)", uint32(a.PathMTU))},
		{AttrPathMTU, port != nil && a.PathMTU > port.ActiveMTU, activeMTU(a, port)},
		{AttrDestQPN, a.DestQPN > max24, fmt.Sprintf("dest_qp_num %#x: more than 24 bits", a.DestQPN)},
		{AttrRQPSN, a.RQPSN > max24, fmt.Sprintf("rq_psn %#x: more than 24 bits", a.RQPSN)},
		{AttrSQPSN, a.SQPSN > max24, fmt.Sprintf("sq_psn %#x: more than 24 bits", a.SQPSN)},
		{AttrMinRNRTimer, a.MinRNRTimer > 31, fmt.Sprintf("min_rnr_timer %d: expected 0 to 31", a.MinRNRTimer)},
		{AttrTimeout, a.Timeout > 31, fmt.Sprintf("timeout %d: expected 0 to 31", a.Timeout)},
		{AttrRetryCnt, a.RetryCnt > 7, fmt.Sprintf("retry_cnt %d: expected 0 to 7", a.RetryCnt)},
		{AttrRNRRetry, a.RNRRetry > 7, fmt.Sprintf("rnr_retry %d: expected 0 to 7", a.RNRRetry)},
		{AttrAV, a.AH.PortNum != 1, fmt.Sprintf("ah_attr.port_num %d: the device has port 1 only", a.AH.PortNum)},
		{AttrAV, port != nil && port.LinkLayer == LinkEthernet && !a.AH.IsGlobal, "ah_attr.is_global 0: RoCE needs a GRH"},
		{AttrAV, a.AH.IsGlobal && a.AH.GRH.DGID.IsZero(), "ah_attr.grh.dgid is zero: the peer's GID is missing"},
	} {
		if mask&c.attr != 0 && c.bad {
			return c.text
		}
	}
	return ""
}

func activeMTU(a *QPAttr, port *PortAttr) string {
	if port == nil {
		return ""
	}
	return fmt.Sprintf("path_mtu %s is above the port's active MTU %s", a.PathMTU, port.ActiveMTU)
}
