package verbs_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	. "ringcli/verbs"
)

// attributes by the field names of struct ibv_qp_attr, less qp_state.
var attributes = map[string]AttrMask{
	"cur_qp_state": AttrCurState, "qp_access_flags": AttrAccess, "pkey_index": AttrPKeyIndex, "port_num": AttrPort,
	"ah_attr": AttrAV, "path_mtu": AttrPathMTU, "timeout": AttrTimeout, "retry_cnt": AttrRetryCnt,
	"rnr_retry": AttrRNRRetry, "rq_psn": AttrRQPSN, "max_rd_atomic": AttrMaxRDAtomic, "min_rnr_timer": AttrMinRNRTimer,
	"sq_psn": AttrSQPSN, "max_dest_rd_atomic": AttrMaxDestRDAtomic, "cap": AttrCap, "dest_qp_num": AttrDestQPN,
}

// kernelTable is Linux drivers/infiniband/core/verbs.c, qp_state_table, its RC
// entries, less what has no attribute here (alternate paths, asynchronous
// notification) and less SQE→RTS, which lists nothing for RC.
var kernelTable = map[string]struct{ required, optional string }{
	"RESET→RESET": {}, "INIT→RESET": {}, "RTR→RESET": {}, "RTS→RESET": {}, "SQD→RESET": {}, "SQE→RESET": {}, "ERR→RESET": {},
	"INIT→ERR": {}, "RTR→ERR": {}, "RTS→ERR": {}, "SQD→ERR": {}, "SQE→ERR": {}, "ERR→ERR": {},
	"RESET→INIT": {required: "pkey_index port_num qp_access_flags"},
	"INIT→INIT":  {optional: "pkey_index port_num qp_access_flags"},
	"INIT→RTR": {
		required: "ah_attr path_mtu dest_qp_num rq_psn max_dest_rd_atomic min_rnr_timer",
		optional: "qp_access_flags pkey_index",
	},
	"RTR→RTS": {
		required: "timeout retry_cnt rnr_retry sq_psn max_rd_atomic",
		optional: "cur_qp_state qp_access_flags min_rnr_timer",
	},
	"RTS→RTS": {optional: "cur_qp_state qp_access_flags min_rnr_timer"},
	"RTS→SQD": {},
	"SQD→RTS": {optional: "cur_qp_state qp_access_flags min_rnr_timer"},
	"SQD→SQD": {
		optional: "port_num ah_attr timeout retry_cnt rnr_retry max_rd_atomic max_dest_rd_atomic qp_access_flags pkey_index min_rnr_timer",
	},
}

func maskOf(names string) (m AttrMask) {
	for _, n := range strings.Fields(names) {
		m |= attributes[n]
	}
	return m
}

// goodAttr has a valid value in every field.
func goodAttr(from, to QPState) QPAttr {
	return QPAttr{
		State: to, CurState: from, PathMTU: MTU1024, PortNum: 1, DestQPN: 17, RQPSN: 1, SQPSN: 2,
		MaxRDAtomic: 1, MaxDestRDAtomic: 1, MinRNRTimer: 12, Timeout: 14, RetryCnt: 6, RNRRetry: 7,
		AH: AHAttr{IsGlobal: true, PortNum: 1, GRH: GlobalRoute{DGID: GID{15: 1}}},
	}
}

var testPath = &ModifyPath{
	Device: &DeviceAttr{PhysPorts: 2, MaxQPRDAtomic: 16, MaxQPInitRDAtomic: 8},
	Port:   &PortAttr{LinkLayer: LinkEthernet, ActiveMTU: MTU1024, MaxMTU: MTU4096, PKeyTableSz: 1, GIDTableSz: 4},
}

func TestCheckModifyIsTheKernelsTable(t *testing.T) {
	for from := StateReset; from <= StateErr; from++ {
		for to := StateReset; to <= StateErr; to++ {
			name := fmt.Sprintf("%s→%s", from, to)
			row, valid := kernelTable[name]
			t.Run(name, func(t *testing.T) {
				checkTransition(t, from, to, valid, maskOf(row.required), maskOf(row.optional))
			})
		}
	}
}

func checkTransition(t *testing.T, from, to QPState, valid bool, required, optional AttrMask) {
	t.Helper()
	attr := goodAttr(from, to)
	check := func(mask AttrMask) *ModifyError {
		t.Helper()
		err := CheckModify(7, from, &attr, mask|AttrState, testPath)
		if err == nil {
			return nil
		}
		var e *ModifyError
		if !errors.As(err, &e) || !errors.Is(err, ErrInvalid) {
			t.Fatalf("mask %s: %v is no *ModifyError that wraps ErrInvalid", mask, err)
		}
		if e.QPN != 7 || e.From != from || e.To != to {
			t.Fatalf("mask %s: %+v names another queue pair or transition", mask, e)
		}
		return e
	}
	if !valid {
		if e := check(required); e == nil || e.Reason == "" {
			t.Fatalf("got %v, want a reason why there is no such transition", e)
		}
		return
	}
	if e := check(required); e != nil {
		t.Fatalf("all required attributes: %v", e)
	}
	if e := check(required | optional); e != nil {
		t.Fatalf("all required and optional attributes: %v", e)
	}
	for name, a := range attributes {
		switch {
		case required&a != 0:
			if e := check(required &^ a); e == nil || e.Missing != a || !strings.Contains(e.Error(), "missing "+name) {
				t.Errorf("without %s: got %v, want an error that says it is missing", name, e)
			}
		case optional&a != 0:
			if e := check(required | a); e != nil {
				t.Errorf("with optional %s: %v", name, e)
			}
		default:
			if e := check(required | a); e == nil || e.Unexpected != a || !strings.Contains(e.Error(), "not allowed here: "+name) {
				t.Errorf("with %s: got %v, want an error that says it is not allowed", name, e)
			}
		}
	}
	if required != 0 {
		if e := check(0); e == nil || e.Missing != required {
			t.Errorf("no attribute at all: got %v, want all of %s missing", e, required)
		}
	}
}

func TestCheckModifyWithoutStateStays(t *testing.T) {
	attr := goodAttr(StateRTS, StateErr) // State is not in the mask and must not count
	if err := CheckModify(7, StateRTS, &attr, AttrAccess, testPath); err != nil {
		t.Errorf("RTS, access flags alone: %v", err)
	}
	if err := CheckModify(7, StateRTR, &attr, AttrAccess, testPath); err == nil {
		t.Error("RTR, access flags alone: accepted, but RTR→RTR is no transition")
	}
	if err := CheckModify(7, StateReset, &attr, AttrPort, testPath); err == nil {
		t.Error("RESET, port_num alone: accepted, but RESET takes no attribute")
	}
}

func TestCheckModifyValues(t *testing.T) {
	toInit, toRTR, toRTS := [2]QPState{StateReset, StateInit}, [2]QPState{StateInit, StateRTR}, [2]QPState{StateRTR, StateRTS}
	for _, c := range []struct {
		step [2]QPState
		edit func(*QPAttr)
		want string // within the message
	}{
		{toInit, func(a *QPAttr) { a.PortNum = 0 }, "port_num 0: ports count from 1"},
		{toInit, func(a *QPAttr) { a.PortNum = 3 }, "port_num 3: the device has ports 1 to 2"},
		{toInit, func(a *QPAttr) { a.PKeyIndex = 1 }, "pkey_index 1"},
		{toInit, func(a *QPAttr) { a.Access = 0x40 }, "qp_access_flags 0x40"},
		{toRTR, func(a *QPAttr) { a.PathMTU = 0 }, "path_mtu code 0"},
		{toRTR, func(a *QPAttr) { a.PathMTU = 6 }, "path_mtu code 6"},
		{toRTR, func(a *QPAttr) { a.PathMTU = MTU2048 }, "path_mtu 2048 is above the port's active MTU 1024"},
		{toRTR, func(a *QPAttr) { a.DestQPN = 1 << 24 }, "dest_qp_num 0x1000000"},
		{toRTR, func(a *QPAttr) { a.RQPSN = 1 << 24 }, "rq_psn 0x1000000"},
		{toRTR, func(a *QPAttr) { a.MinRNRTimer = 32 }, "min_rnr_timer 32"},
		{toRTR, func(a *QPAttr) { a.AH.PortNum = 0 }, "ah_attr.port_num 0"},
		{toRTR, func(a *QPAttr) { a.AH.PortNum = 3 }, "ah_attr.port_num 3: the device has ports 1 to 2"},
		{toRTR, func(a *QPAttr) { a.AH.GRH.SGIDIndex = 4 }, "ah_attr.grh.sgid_index 4: not in the GID table, which ends at 3"},
		{toRTR, func(a *QPAttr) { a.AH.GRH.SGIDIndex = 256 }, "ah_attr.grh.sgid_index 256: expected 0 to 255"},
		{toRTR, func(a *QPAttr) { a.AH.GRH.FlowLabel = 1 << 20 }, "ah_attr.grh.flow_label 0x100000"},
		{toRTR, func(a *QPAttr) { a.AH.SL = 16 }, "ah_attr.sl 16"},
		{toRTR, func(a *QPAttr) { a.MaxDestRDAtomic = 17 }, "max_dest_rd_atomic 17: the device has 16"},
		{toRTS, func(a *QPAttr) { a.MaxRDAtomic = 9 }, "max_rd_atomic 9: the device has 8"},
		{toRTR, func(a *QPAttr) { a.AH.IsGlobal = false }, "is_global 0"},
		{toRTR, func(a *QPAttr) { a.AH.GRH.DGID = GID{} }, "dgid is zero"},
		{toRTS, func(a *QPAttr) { a.SQPSN = 1 << 24 }, "sq_psn 0x1000000"},
		{toRTS, func(a *QPAttr) { a.Timeout = 32 }, "timeout 32"},
		{toRTS, func(a *QPAttr) { a.RetryCnt = 8 }, "retry_cnt 8"},
		{toRTS, func(a *QPAttr) { a.RNRRetry = 8 }, "rnr_retry 8"},
		{toRTS, func(a *QPAttr) { a.CurState = StateInit }, "cur_qp_state says INIT"},
	} {
		from, to := c.step[0], c.step[1]
		attr := goodAttr(from, to)
		c.edit(&attr)
		mask := maskOf(kernelTable[fmt.Sprintf("%s→%s", from, to)].required) | AttrState
		if strings.HasPrefix(c.want, "cur_qp_state") {
			mask |= AttrCurState
		}
		err := CheckModify(7, from, &attr, mask, testPath)
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, ErrInvalid) {
			t.Errorf("%s→%s: got %v, want an invalid argument with %q", from, to, err, c.want)
			continue
		}
		var e *ModifyError
		if errors.As(err, &e); e.Field == "" || !strings.HasPrefix(e.Reason, e.Field+" "+e.Value) || !strings.Contains(c.want, e.Field[strings.LastIndex(e.Field, ".")+1:]) {
			t.Errorf("%s→%s: %q is blamed, with the value %q: want that of %q", from, to, e.Field, e.Value, c.want)
		}
	}
	infiniband := &ModifyPath{Port: &PortAttr{LinkLayer: LinkInfiniBand, ActiveMTU: MTU4096, PKeyTableSz: 1, GIDTableSz: 1}}
	for dlid, want := range map[uint16]string{0: "ah_attr.dlid 0: the peer's LID is missing", 0xc000: "ah_attr.dlid 0xc000: a multicast LID", 9: ""} {
		for _, global := range []bool{false, true} {
			attr := goodAttr(StateInit, StateRTR)
			attr.AH.DLID, attr.AH.IsGlobal, attr.AH.GRH.SGIDIndex = dlid, global, 0
			err := CheckModify(7, StateInit, &attr, maskOf(kernelTable["INIT→RTR"].required)|AttrState, infiniband)
			if want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("InfiniBand, dlid %#x, is_global %v: %v, want %q", dlid, global, err, want)
			}
		}
	}
	attr := goodAttr(StateInit, StateRTR)
	attr.PathMTU, attr.AH.IsGlobal = MTU4096, false
	mask := maskOf(kernelTable["INIT→RTR"].required) | AttrState
	if err := CheckModify(7, StateInit, &attr, mask, nil); err != nil {
		t.Errorf("without a port nothing limits the MTU or asks for a GRH: %v", err)
	}
}

func TestModifyErrorText(t *testing.T) {
	for _, c := range []struct {
		err  ModifyError
		want string
	}{
		{
			ModifyError{QPN: 0x11, From: StateInit, To: StateRTR, Missing: AttrDestQPN | AttrPathMTU},
			"modify QP 0x000011 INIT→RTR: missing path_mtu, dest_qp_num",
		},
		{
			ModifyError{QPN: 0x11, From: StateRTR, To: StateRTS, Missing: AttrSQPSN, Unexpected: AttrAV},
			"modify QP 0x000011 RTR→RTS: missing sq_psn; not allowed here: ah_attr",
		},
		{
			ModifyError{QPN: 0xfffffe, From: StateReset, To: StateRTS, Reason: "why"},
			"modify QP 0xfffffe RESET→RTS: why",
		},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}

// The line that people see: every attribute that was asked for, the offender marked.
func TestModifyErrorListsAttributes(t *testing.T) {
	attr := goodAttr(StateReset, StateRTR)
	err := CheckModify(17, StateReset, &attr, AttrState, testPath)
	want := "modify QP 0x000011 RESET→RTR: no such transition for RC; from RESET the next state is INIT (asked for >>> qp_state RTR <<<)"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	attr = goodAttr(StateInit, StateRTR)
	attr.PathMTU = MTU4096
	err = CheckModify(17, StateInit, &attr, maskOf(kernelTable["INIT→RTR"].required)|AttrState, testPath)
	want = "modify QP 0x000011 INIT→RTR: path_mtu 4096 is above the port's active MTU 1024 (asked for qp_state RTR, " +
		"ah_attr {port_num 1 dlid 0 sl 0 is_global 1 dgid ::1 sgid_index 0 hop_limit 0 traffic_class 0 flow_label 0}, " +
		">>> path_mtu 4096 <<<, rq_psn 0x000001, min_rnr_timer 12, max_dest_rd_atomic 1, dest_qp_num 0x000011)"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	err = CheckModify(17, StateInit, &attr, maskOf(kernelTable["INIT→RTR"].required)|AttrState|AttrCap, testPath)
	if err == nil || !strings.Contains(err.Error(), ">>> cap {") {
		t.Errorf("%v does not mark cap", err)
	}
}

// Each attribute has its value in the line.
func TestModifyErrorNamesEveryAttribute(t *testing.T) {
	attr := goodAttr(StateInit, StateRTR)
	for name, bit := range attributes {
		e := ModifyError{Attr: attr, Mask: bit, Offender: bit}
		if got := e.Error(); !strings.Contains(got, ">>> "+name+" ") || strings.Contains(got, "?") {
			t.Errorf("%s: %q does not give its value", name, got)
		}
	}
}
