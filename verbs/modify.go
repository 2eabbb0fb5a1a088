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

// ModifyError says why a queue pair refused a change. It wraps ErrInvalid, and the
// errno of the system if that is who refused.
type ModifyError struct {
	QPN        uint32
	From, To   QPState
	Missing    AttrMask // required and not in the mask
	Unexpected AttrMask // in the mask and not allowed
	Reason     string   // set if the transition or a value is at fault
	Attr       QPAttr   // what was asked for
	Mask       AttrMask // which of it
	Offender   AttrMask // the attribute at fault, if it is known
	Errno      error    // a syscall.Errno; nil if the provider refused by itself
}

// Error is one line: what is wrong, then every attribute that was asked for, the
// offender >>> marked <<<.
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
	if e.Errno != nil {
		why = append(why, "the system says: "+e.Errno.Error())
	}
	asked := ""
	if e.Mask != 0 {
		asked = " (asked for " + e.asked() + ")"
	}
	return fmt.Sprintf("modify QP 0x%06x %s→%s: %s%s", e.QPN, e.From, e.To, strings.Join(why, "; "), asked)
}

// asked lists the attributes of the mask with their values.
func (e *ModifyError) asked() string {
	var all []string
	for bit := AttrMask(1); bit != 0 && bit <= e.Mask; bit <<= 1 {
		if e.Mask&bit == 0 {
			continue
		}
		text := bit.String() + " " + e.Attr.value(bit)
		if (e.Offender|e.Unexpected)&bit != 0 {
			text = ">>> " + text + " <<<"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// value is an attribute as text.
func (a *QPAttr) value(bit AttrMask) string {
	switch bit {
	case AttrState:
		return a.State.String()
	case AttrCurState:
		return a.CurState.String()
	case AttrAccess:
		return "{" + a.Access.String() + "}"
	case AttrPKeyIndex:
		return fmt.Sprint(a.PKeyIndex)
	case AttrPort:
		return fmt.Sprint(a.PortNum)
	case AttrAV:
		return a.AH.String()
	case AttrPathMTU:
		if a.PathMTU.Bytes() == 0 {
			return fmt.Sprintf("code %d", uint32(a.PathMTU))
		}
		return a.PathMTU.String()
	case AttrTimeout:
		return fmt.Sprint(a.Timeout)
	case AttrRetryCnt:
		return fmt.Sprint(a.RetryCnt)
	case AttrRNRRetry:
		return fmt.Sprint(a.RNRRetry)
	case AttrRQPSN:
		return fmt.Sprintf("%#x", a.RQPSN)
	case AttrMaxRDAtomic:
		return fmt.Sprint(a.MaxRDAtomic)
	case AttrMinRNRTimer:
		return fmt.Sprint(a.MinRNRTimer)
	case AttrSQPSN:
		return fmt.Sprintf("%#x", a.SQPSN)
	case AttrMaxDestRDAtomic:
		return fmt.Sprint(a.MaxDestRDAtomic)
	case AttrCap:
		return fmt.Sprintf("%+v", a.Cap)
	case AttrDestQPN:
		return fmt.Sprintf("0x%06x", a.DestQPN)
	}
	return "?"
}

// String lists what the address vector holds: of a GRH, only if it has one.
func (a AHAttr) String() string {
	text := fmt.Sprintf("{port_num %d dlid %d sl %d is_global ", a.PortNum, a.DLID, a.SL)
	if !a.IsGlobal {
		return text + "0}"
	}
	g := &a.GRH
	return fmt.Sprintf("%s1 dgid %s sgid_index %d hop_limit %d traffic_class %d flow_label %d}",
		text, g.DGID, g.SGIDIndex, g.HopLimit, g.TrafficClass, g.FlowLabel)
}

// Unwrap makes errors.Is hold for ErrInvalid and for the errno.
func (e *ModifyError) Unwrap() []error {
	if e.Errno == nil {
		return []error{ErrInvalid}
	}
	return []error{ErrInvalid, e.Errno}
}

// ModifyPath is what limits a queue pair's attributes. What is nil is not known,
// and limits nothing.
type ModifyPath struct {
	Device *DeviceAttr
	Port   *PortAttr
	GID    *GIDEntry // the row that ah_attr.grh.sgid_index names
}

// CheckModify tells whether an RC queue pair in state cur takes the change, as a
// device's driver does before it touches the hardware: order of states, required
// and allowed attributes, ranges of values. The path, which may be nil, limits
// those that depend on the device. A refusal is a *ModifyError.
func CheckModify(qpn uint32, cur QPState, attr *QPAttr, mask AttrMask, path *ModifyPath) error {
	to := cur
	if mask&AttrState != 0 {
		to = attr.State
	}
	e := &ModifyError{QPN: qpn, From: cur, To: to, Attr: *attr, Mask: mask}
	if mask&AttrCurState != 0 && attr.CurState != cur {
		e.Offender = AttrCurState
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
		e.Reason, e.Offender = "no such transition for RC; "+nextStep(cur), AttrState
		return e
	}
	e.Missing = rule.required &^ rest
	e.Unexpected = rest &^ (rule.required | rule.optional)
	if e.Missing|e.Unexpected != 0 {
		return e
	}
	if e.Offender, e.Reason = badValue(attr, rest, path); e.Reason != "" {
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

// badValue returns the first attribute out of range and a sentence about it.
func badValue(a *QPAttr, mask AttrMask, path *ModifyPath) (AttrMask, string) {
	const max24 = 1<<24 - 1
	all := AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic
	for _, c := range []struct {
		attr AttrMask
		bad  bool
		text string
	}{
		{AttrAccess, a.Access&^all != 0, fmt.Sprintf("qp_access_flags %s: unknown bits", a.Access)},
		{AttrPathMTU, a.PathMTU.Bytes() == 0, fmt.Sprintf("path_mtu code %d: expected 1 (256) to 5 (4096)", uint32(a.PathMTU))},
		{AttrDestQPN, a.DestQPN > max24, fmt.Sprintf("dest_qp_num %#x: more than 24 bits", a.DestQPN)},
		{AttrRQPSN, a.RQPSN > max24, fmt.Sprintf("rq_psn %#x: more than 24 bits", a.RQPSN)},
		{AttrSQPSN, a.SQPSN > max24, fmt.Sprintf("sq_psn %#x: more than 24 bits", a.SQPSN)},
		{AttrMinRNRTimer, a.MinRNRTimer > 31, fmt.Sprintf("min_rnr_timer %d: expected 0 to 31", a.MinRNRTimer)},
		{AttrTimeout, a.Timeout > 31, fmt.Sprintf("timeout %d: expected 0 to 31", a.Timeout)},
		{AttrRetryCnt, a.RetryCnt > 7, fmt.Sprintf("retry_cnt %d: expected 0 to 7", a.RetryCnt)},
		{AttrRNRRetry, a.RNRRetry > 7, fmt.Sprintf("rnr_retry %d: expected 0 to 7", a.RNRRetry)},
		{AttrAV, a.AH.PortNum < 1, fmt.Sprintf("ah_attr.port_num %d: ports count from 1", a.AH.PortNum)},
		{AttrPort, a.PortNum < 1, fmt.Sprintf("port_num %d: ports count from 1", a.PortNum)},
		{AttrAV, a.AH.SL > 15, fmt.Sprintf("ah_attr.sl %d: expected 0 to 15", a.AH.SL)},
		{AttrAV, a.AH.IsGlobal && a.AH.GRH.DGID.IsZero(), "ah_attr.grh.dgid is zero: the peer's GID is missing"},
		// struct ibv_global_route has 8 bits for it, though some tables are longer.
		{AttrAV, a.AH.IsGlobal && (a.AH.GRH.SGIDIndex < 0 || a.AH.GRH.SGIDIndex > 255), fmt.Sprintf("ah_attr.grh.sgid_index %d: expected 0 to 255", a.AH.GRH.SGIDIndex)},
		{AttrAV, a.AH.IsGlobal && a.AH.GRH.FlowLabel >= 1<<20, fmt.Sprintf("ah_attr.grh.flow_label %#x: more than 20 bits", a.AH.GRH.FlowLabel)},
	} {
		if mask&c.attr != 0 && c.bad {
			return c.attr, c.text
		}
	}
	if path == nil {
		return 0, ""
	}
	if attr, text := path.device(a, mask); attr != 0 {
		return attr, text
	}
	return path.port(a, mask)
}

// device looks at what the device limits.
func (p *ModifyPath) device(a *QPAttr, mask AttrMask) (AttrMask, string) {
	d := p.Device
	switch {
	case d == nil:
	case mask&AttrPort != 0 && a.PortNum > d.PhysPorts:
		return AttrPort, fmt.Sprintf("port_num %d: the device has %s", a.PortNum, ports(d.PhysPorts))
	case mask&AttrAV != 0 && a.AH.PortNum > d.PhysPorts:
		return AttrAV, fmt.Sprintf("ah_attr.port_num %d: the device has %s", a.AH.PortNum, ports(d.PhysPorts))
	case mask&AttrMaxDestRDAtomic != 0 && int(a.MaxDestRDAtomic) > d.MaxQPRDAtomic:
		return AttrMaxDestRDAtomic, fmt.Sprintf("max_dest_rd_atomic %d: the device has %d", a.MaxDestRDAtomic, d.MaxQPRDAtomic)
	case mask&AttrMaxRDAtomic != 0 && int(a.MaxRDAtomic) > d.MaxQPInitRDAtomic:
		return AttrMaxRDAtomic, fmt.Sprintf("max_rd_atomic %d: the device has %d", a.MaxRDAtomic, d.MaxQPInitRDAtomic)
	}
	return 0, ""
}

// port looks at what the port limits.
func (p *ModifyPath) port(a *QPAttr, mask AttrMask) (AttrMask, string) {
	port, g := p.Port, p.GID
	switch {
	case port == nil:
	case mask&AttrPKeyIndex != 0 && int(a.PKeyIndex) >= port.PKeyTableSz:
		return AttrPKeyIndex, fmt.Sprintf("pkey_index %d: the P_Key table ends at %d", a.PKeyIndex, port.PKeyTableSz-1)
	case mask&AttrPathMTU != 0 && a.PathMTU > port.ActiveMTU:
		return AttrPathMTU, fmt.Sprintf("path_mtu %s is above the port's active MTU %s", a.PathMTU, port.ActiveMTU)
	case mask&AttrAV == 0:
	case port.LinkLayer == LinkEthernet && !a.AH.IsGlobal:
		return AttrAV, "ah_attr.is_global 0: RoCE needs a GRH"
	case port.LinkLayer == LinkInfiniBand && a.AH.DLID == 0: // a router's, if it is global
		return AttrAV, "ah_attr.dlid 0: the peer's LID is missing; has a subnet manager (opensm) set its port up?"
	case port.LinkLayer == LinkInfiniBand && a.AH.DLID >= 0xc000:
		return AttrAV, fmt.Sprintf("ah_attr.dlid %#x: a multicast LID (from 0xc000): an RC queue pair has one peer", a.AH.DLID)
	case a.AH.IsGlobal && (a.AH.GRH.SGIDIndex < 0 || a.AH.GRH.SGIDIndex >= port.GIDTableSz && port.GIDTableSz > 0):
		return AttrAV, fmt.Sprintf("ah_attr.grh.sgid_index %d: not in the GID table, which ends at %d", a.AH.GRH.SGIDIndex, port.GIDTableSz-1)
	case a.AH.IsGlobal && g != nil && g.GID.IsZero():
		return AttrAV, fmt.Sprintf("ah_attr.grh.sgid_index %d: that row of the GID table is empty", a.AH.GRH.SGIDIndex)
	}
	return 0, ""
}

func ports(n int) string {
	if n == 1 {
		return "port 1 only"
	}
	return fmt.Sprintf("ports 1 to %d", n)
}
