package verbs

import (
	"cmp"
	"fmt"
	"strings"
	"syscall"
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

// Advance takes a queue pair to the next of the states RESET, INIT, RTR and RTS,
// which attr names, with the attributes that this takes and no others.
func Advance(qp QP, attr QPAttr) error {
	return qp.Modify(attr, AttrState|rcTransitions[transition{attr.State - 1, attr.State}].required)
}

// ModifyError says why a queue pair refused a change. It wraps ErrInvalid, and the
// errno of the system if the system refused.
type ModifyError struct {
	QPN        uint32
	From, To   QPState
	Missing    AttrMask // required and not in the mask
	Unexpected AttrMask // in the mask and not allowed
	Reason     string   // set if the transition or a value is at fault
	Attr       QPAttr   // what was asked for
	Mask       AttrMask // which of it
	Offender   AttrMask // the attribute at fault, if it is known
	Field      string   // the same as libibverbs names it, or the field of it that is at fault, such as ah_attr.grh.dgid
	Value      string   // of the field, as it was asked for
	Errno      error    // a syscall.Errno; nil if the provider refused by itself
}

// Blame says which field of which attribute is at fault, and why: a sentence that
// goes on after the field and its value.
func (e *ModifyError) Blame(attr AttrMask, field string, value any, why string) *ModifyError {
	e.Offender, e.Field, e.Value = attr, field, fmt.Sprint(value)
	e.Reason = e.Field + " " + e.Value + why
	return e
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
	values := e.Attr.values()
	for bit := AttrMask(1); bit != 0 && bit <= e.Mask; bit <<= 1 {
		if e.Mask&bit == 0 {
			continue
		}
		text := bit.String() + " ?"
		if v, ok := values[bit]; ok {
			text = fmt.Sprintf("%s %v", bit, v)
		}
		if (e.Offender|e.Unexpected)&bit != 0 {
			text = ">>> " + text + " <<<"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// values are the attributes as an error writes them.
func (a *QPAttr) values() map[AttrMask]any {
	mtu := a.PathMTU.String()
	if a.PathMTU.Bytes() == 0 {
		mtu = fmt.Sprintf("code %d", uint32(a.PathMTU))
	}
	return map[AttrMask]any{
		AttrState:           a.State,
		AttrCurState:        a.CurState,
		AttrAccess:          "{" + a.Access.String() + "}",
		AttrPKeyIndex:       a.PKeyIndex,
		AttrPort:            a.PortNum,
		AttrAV:              a.AH,
		AttrPathMTU:         mtu,
		AttrTimeout:         a.Timeout,
		AttrRetryCnt:        a.RetryCnt,
		AttrRNRRetry:        a.RNRRetry,
		AttrRQPSN:           Hex(a.RQPSN),
		AttrMaxRDAtomic:     a.MaxRDAtomic,
		AttrMinRNRTimer:     a.MinRNRTimer,
		AttrSQPSN:           Hex(a.SQPSN),
		AttrMaxDestRDAtomic: a.MaxDestRDAtomic,
		AttrCap:             fmt.Sprintf("%+v", a.Cap),
		AttrDestQPN:         Hex(a.DestQPN),
	}
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
		return e.Blame(AttrCurState, "cur_qp_state", fmt.Sprintf("says %s", attr.CurState), "")
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
		e.Reason = fmt.Sprintf("no such transition for RC; from %s %s", cur, cmp.Or(nextSteps[cur], "go to RESET"))
		e.Offender = AttrState
		return e
	}
	e.Missing = rule.required &^ rest
	e.Unexpected = rest &^ (rule.required | rule.optional)
	if e.Missing|e.Unexpected != 0 {
		return e
	}
	if bad := badValue(attr, rest, path); bad != nil {
		return e.Blame(bad.attr, bad.field, bad.value, bad.why)
	}
	return nil
}

var nextSteps = map[QPState]string{
	StateReset: "the next state is INIT", StateInit: "the next state is RTR", StateRTR: "the next state is RTS",
	StateRTS: "go to SQD, ERR or RESET", StateSQD: "go to RTS, ERR or RESET",
}

// outOfRange is an attribute, or a field of it, that has a bad value.
type outOfRange struct {
	attr  AttrMask
	field string
	value any
	why   string // as Blame has it
}

// badValue returns the first attribute out of range, nil if none is.
func badValue(a *QPAttr, mask AttrMask, path *ModifyPath) *outOfRange {
	const max24 = 1<<24 - 1
	hex := func(v uint32) string { return fmt.Sprintf("%#x", v) }
	grh := &a.AH.GRH
	for _, c := range []struct {
		bad bool
		outOfRange
	}{
		{a.Access&^AccessAll != 0, outOfRange{AttrAccess, "qp_access_flags", a.Access, ": unknown bits"}},
		{a.PathMTU.Bytes() == 0, outOfRange{AttrPathMTU, "path_mtu", fmt.Sprintf("code %d", uint32(a.PathMTU)), ": expected 1 (256) to 5 (4096)"}},
		{a.DestQPN > max24, outOfRange{AttrDestQPN, "dest_qp_num", hex(a.DestQPN), ": more than 24 bits"}},
		{a.RQPSN > max24, outOfRange{AttrRQPSN, "rq_psn", hex(a.RQPSN), ": more than 24 bits"}},
		{a.SQPSN > max24, outOfRange{AttrSQPSN, "sq_psn", hex(a.SQPSN), ": more than 24 bits"}},
		{a.MinRNRTimer > 31, outOfRange{AttrMinRNRTimer, "min_rnr_timer", a.MinRNRTimer, ": expected 0 to 31"}},
		{a.Timeout > 31, outOfRange{AttrTimeout, "timeout", a.Timeout, ": expected 0 to 31"}},
		{a.RetryCnt > 7, outOfRange{AttrRetryCnt, "retry_cnt", a.RetryCnt, ": expected 0 to 7"}},
		{a.RNRRetry > 7, outOfRange{AttrRNRRetry, "rnr_retry", a.RNRRetry, ": expected 0 to 7"}},
		{a.AH.PortNum < 1, outOfRange{AttrAV, "ah_attr.port_num", a.AH.PortNum, ": ports count from 1"}},
		{a.PortNum < 1, outOfRange{AttrPort, "port_num", a.PortNum, ": ports count from 1"}},
		{a.AH.SL > 15, outOfRange{AttrAV, "ah_attr.sl", a.AH.SL, ": expected 0 to 15"}},
		{a.AH.IsGlobal && grh.DGID.IsZero(), outOfRange{AttrAV, "ah_attr.grh.dgid", "is zero", ": the peer's GID is missing"}},
		// struct ibv_global_route has 8 bits for it, though some tables are longer.
		{a.AH.IsGlobal && (grh.SGIDIndex < 0 || grh.SGIDIndex > 255), outOfRange{AttrAV, "ah_attr.grh.sgid_index", grh.SGIDIndex, ": expected 0 to 255"}},
		{a.AH.IsGlobal && grh.FlowLabel >= 1<<20, outOfRange{AttrAV, "ah_attr.grh.flow_label", hex(grh.FlowLabel), ": more than 20 bits"}},
	} {
		if mask&c.attr != 0 && c.bad {
			return &c.outOfRange
		}
	}
	if path == nil {
		return nil
	}
	if bad := path.device(a, mask); bad != nil {
		return bad
	}
	return path.port(a, mask)
}

// device looks at what the device limits.
func (p *ModifyPath) device(a *QPAttr, mask AttrMask) *outOfRange {
	d := p.Device
	switch {
	case d == nil:
	case mask&AttrPort != 0 && a.PortNum > d.PhysPorts:
		return &outOfRange{AttrPort, "port_num", a.PortNum, ": the device has " + ports(d.PhysPorts)}
	case mask&AttrAV != 0 && a.AH.PortNum > d.PhysPorts:
		return &outOfRange{AttrAV, "ah_attr.port_num", a.AH.PortNum, ": the device has " + ports(d.PhysPorts)}
	case mask&AttrMaxDestRDAtomic != 0 && int(a.MaxDestRDAtomic) > d.MaxQPRDAtomic:
		return &outOfRange{AttrMaxDestRDAtomic, "max_dest_rd_atomic", a.MaxDestRDAtomic, fmt.Sprintf(": the device has %d", d.MaxQPRDAtomic)}
	case mask&AttrMaxRDAtomic != 0 && int(a.MaxRDAtomic) > d.MaxQPInitRDAtomic:
		return &outOfRange{AttrMaxRDAtomic, "max_rd_atomic", a.MaxRDAtomic, fmt.Sprintf(": the device has %d", d.MaxQPInitRDAtomic)}
	}
	return nil
}

// port looks at what the port limits.
func (p *ModifyPath) port(a *QPAttr, mask AttrMask) *outOfRange {
	port, g, index := p.Port, p.GID, a.AH.GRH.SGIDIndex
	switch {
	case port == nil:
	case mask&AttrPKeyIndex != 0 && int(a.PKeyIndex) >= port.PKeyTableSz:
		return &outOfRange{AttrPKeyIndex, "pkey_index", a.PKeyIndex, fmt.Sprintf(": the P_Key table ends at %d", port.PKeyTableSz-1)}
	case mask&AttrPathMTU != 0 && a.PathMTU > port.ActiveMTU:
		return &outOfRange{AttrPathMTU, "path_mtu", a.PathMTU, fmt.Sprintf(" is above the port's active MTU %s", port.ActiveMTU)}
	case mask&AttrAV == 0:
	case port.LinkLayer == LinkEthernet && !a.AH.IsGlobal:
		return &outOfRange{AttrAV, "ah_attr.is_global", 0, ": RoCE needs a GRH"}
	case port.LinkLayer == LinkInfiniBand && a.AH.DLID == 0: // a router's, if it is global
		return &outOfRange{AttrAV, "ah_attr.dlid", 0, ": the peer's LID is missing; has a subnet manager (opensm) set its port up?"}
	case port.LinkLayer == LinkInfiniBand && a.AH.DLID >= 0xc000:
		return &outOfRange{AttrAV, "ah_attr.dlid", fmt.Sprintf("%#x", a.AH.DLID), ": a multicast LID (from 0xc000): an RC queue pair has one peer"}
	case a.AH.IsGlobal && (index < 0 || index >= port.GIDTableSz && port.GIDTableSz > 0):
		return &outOfRange{AttrAV, "ah_attr.grh.sgid_index", index, fmt.Sprintf(": not in the GID table, which ends at %d", port.GIDTableSz-1)}
	case a.AH.IsGlobal && g != nil && g.GID.IsZero():
		return &outOfRange{AttrAV, "ah_attr.grh.sgid_index", index, ": that row of the GID table is empty"}
	}
	return nil
}

func ports(n int) string {
	if n == 1 {
		return "port 1 only"
	}
	return fmt.Sprintf("ports 1 to %d", n)
}

// RefusedModify explains why the system refused a change that CheckModify lets
// pass: a *ModifyError with the errno and, as far as that tells, the offender. The
// kernel resolves the peer's address within the modify to RTR (Linux
// drivers/infiniband/core/addr.c), so most have to do with that.
func RefusedModify(qpn uint32, cur QPState, attr *QPAttr, mask AttrMask, path *ModifyPath, errno syscall.Errno) error {
	e := &ModifyError{QPN: qpn, From: cur, To: cur, Attr: *attr, Mask: mask, Errno: errno}
	if mask&AttrState != 0 {
		e.To = attr.State
	}
	if mask&AttrAV != 0 {
		if bad := attr.AH.refused(path, errno); bad != nil {
			return e.Blame(AttrAV, bad.field, bad.value, bad.why)
		}
	}
	switch errno {
	case syscall.EPERM, syscall.EACCES:
		e.Reason = "not permitted: it takes CAP_NET_RAW or access to /dev/infiniband"
	case syscall.ENODEV, syscall.EIO, syscall.ENXIO:
		e.Reason = "the device is gone, or in an error"
	case syscall.ENOMEM:
		e.Reason = "the device or the machine is out of memory"
	case syscall.EOPNOTSUPP:
		e.Reason = "the driver does not support it"
	case syscall.EINVAL:
		e.Reason = "the driver refuses one of the attributes and does not say which; dmesg may"
	default:
		e.Reason = "the driver refuses"
	}
	return e
}

// refused returns the field of an address vector that the errno points at, nil if
// it points elsewhere.
func (a *AHAttr) refused(path *ModifyPath, errno syscall.Errno) *outOfRange {
	if !a.IsGlobal {
		return nil
	}
	peer := a.GRH.DGID.Addr()
	own, dev := fmt.Sprint(a.GRH.SGIDIndex), "DEV"
	if path != nil && path.GID != nil {
		own = fmt.Sprintf("%s (%s)", own, path.GID.GID.Addr())
		if path.GID.NetDev != "" {
			dev = path.GID.NetDev
		}
	}
	from := "sgid_index " + own
	dgid := func(why string) *outOfRange { return &outOfRange{AttrAV, "ah_attr.grh.dgid", peer, why} }
	sgid := func(why string) *outOfRange { return &outOfRange{AttrAV, "ah_attr.grh.sgid_index", own, why} }
	switch errno {
	case syscall.ETIMEDOUT:
		return dgid(fmt.Sprintf(": nobody answers to %s: is the peer up, and on the same network? (ip neigh show %s; ping -I %s %s)", from, peer, dev, peer))
	case syscall.ENETUNREACH, syscall.EHOSTUNREACH:
		return dgid(fmt.Sprintf(": there is no route to it from %s: ip route get %s oif %s; another sgid_index may be right", from, peer, dev))
	case syscall.ENODEV, syscall.ENXIO:
		return sgid(": its network interface is not in this network namespace, or is down: ip link show " + dev)
	case syscall.EADDRNOTAVAIL:
		return sgid(": its address is no longer that of its interface: ip address show " + dev)
	case syscall.EINVAL:
		if path == nil || path.GID == nil {
			return nil
		}
		if g := path.GID; g.Type == GIDTypeRoCEv2 && g.GID.Addr().Is4() != peer.Is4() {
			return dgid(fmt.Sprintf(": it and %s are of different address families", from))
		}
		if peer.IsMulticast() {
			return dgid(": it is a multicast address: an RC queue pair has one peer")
		}
	}
	return nil
}

// Hex is a queue pair number or a packet sequence number, 24 bits, as texts and tables have it.
func Hex(n uint32) string { return fmt.Sprintf("0x%06x", n) }
