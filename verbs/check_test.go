package verbs_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	. "ringcli/verbs"
)

func TestCheckSend(t *testing.T) {
	limits := QPCap{MaxSendWR: 4, MaxSendSGE: 2, MaxInlineData: 16}
	piece := func(lengths ...uint32) (sgl []SGE) {
		for _, n := range lengths {
			sgl = append(sgl, SGE{Length: n})
		}
		return sgl
	}
	for name, c := range map[string]struct {
		state  QPState
		queued int
		wr     WorkRequest
		err    error
		want   string
	}{
		"send":            {StateRTS, 3, WorkRequest{Opcode: OpSend, SGL: piece(8, 9)}, nil, ""},
		"in SQD":          {StateSQD, 0, WorkRequest{Opcode: OpRead}, nil, ""},
		"in ERR":          {StateErr, 0, WorkRequest{Opcode: OpWrite}, nil, ""},
		"the longest":     {StateRTS, 0, WorkRequest{Opcode: OpSend, SGL: piece(MaxMessage-1, 1)}, nil, ""},
		"inline":          {StateRTS, 0, WorkRequest{Opcode: OpSend, Flags: FlagInline, SGL: piece(16)}, nil, ""},
		"atomic":          {StateRTS, 0, WorkRequest{Opcode: OpFetchAdd, SGL: piece(8)}, nil, ""},
		"in RTR":          {StateRTR, 0, WorkRequest{Opcode: OpSend}, ErrState, "post send in state RTR"},
		"full":            {StateRTS, 4, WorkRequest{Opcode: OpSend}, ErrNoMemory, "send queue of 4 work requests"},
		"pieces":          {StateRTS, 0, WorkRequest{Opcode: OpSend, SGL: piece(1, 1, 1)}, ErrInvalid, "3 SGEs"},
		"opcode":          {StateRTS, 0, WorkRequest{Opcode: OpFetchAdd + 1}, ErrInvalid, "unknown to RC"},
		"too long":        {StateRTS, 0, WorkRequest{Opcode: OpSend, SGL: piece(MaxMessage, 1)}, ErrInvalid, "at most 2^31"},
		"atomic of 4":     {StateRTS, 0, WorkRequest{Opcode: OpCompSwap, SGL: piece(4)}, ErrInvalid, "returns 8 in one"},
		"atomic in two":   {StateRTS, 0, WorkRequest{Opcode: OpCompSwap, SGL: piece(4, 4)}, ErrInvalid, "returns 8 in one"},
		"inline READ":     {StateRTS, 0, WorkRequest{Opcode: OpRead, Flags: FlagInline}, ErrInvalid, "only SEND and WRITE"},
		"inline atomic":   {StateRTS, 0, WorkRequest{Opcode: OpFetchAdd, Flags: FlagInline, SGL: piece(8)}, ErrInvalid, "only SEND and WRITE"},
		"too long inline": {StateRTS, 0, WorkRequest{Opcode: OpSend, Flags: FlagInline, SGL: piece(17)}, ErrInvalid, "created for 16"},
	} {
		_, err := CheckSend(0x11, c.state, &limits, c.queued, &c.wr)
		if !errors.Is(err, c.err) || err != nil && !strings.HasPrefix(err.Error(), "QP 0x000011: ") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %v with %q", name, err, c.err, c.want)
		}
	}
	wr := WorkRequest{Opcode: OpSend, Flags: FlagInline, SGL: piece(8, 8)}
	if allocs := testing.AllocsPerRun(100, func() {
		if n, err := CheckSend(0x11, StateRTS, &limits, 0, &wr); n != 16 || err != nil {
			t.Errorf("got %d, %v, want 16 bytes", n, err)
		}
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestCheckRecv(t *testing.T) {
	limits := QPCap{MaxRecvWR: 4, MaxRecvSGE: 1}
	for _, c := range []struct {
		state  QPState
		queued int
		wr     WorkRequest
		err    error
	}{
		{StateInit, 3, WorkRequest{SGL: make([]SGE, 1)}, nil},
		{StateReset, 0, WorkRequest{}, ErrState},
		{StateRTS, 4, WorkRequest{}, ErrNoMemory},
		{StateRTS, 0, WorkRequest{SGL: make([]SGE, 2)}, ErrInvalid},
	} {
		if err := CheckRecv(0x11, c.state, &limits, c.queued, &c.wr); !errors.Is(err, c.err) {
			t.Errorf("%s, %d queued, %d pieces: got %v, want %v", c.state, c.queued, len(c.wr.SGL), err, c.err)
		}
	}
}

func TestCheckQP(t *testing.T) {
	limits := DeviceAttr{MaxQPWR: 8, MaxSGE: 2, MaxInline: 16}
	most := QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInlineData: 16}
	for i, c := range []struct {
		edit func(*QPInitAttr)
		want string
	}{
		{func(*QPInitAttr) {}, ""},
		{func(a *QPInitAttr) { a.Type = 4 }, "only RC is supported"},
		{func(a *QPInitAttr) { a.Cap.MaxSendWR++ }, "at most 8 each"},
		{func(a *QPInitAttr) { a.Cap.MaxRecvWR = -1 }, "at most 8 each"},
		{func(a *QPInitAttr) { a.Cap.MaxSendSGE = -1 }, "at most 2 each"},
		{func(a *QPInitAttr) { a.Cap.MaxRecvSGE++ }, "at most 2 each"},
		{func(a *QPInitAttr) { a.Cap.MaxInlineData = -1 }, "-1 inline bytes"},
		{func(a *QPInitAttr) { a.Cap.MaxInlineData++ }, "at most 16"},
	} {
		a := QPInitAttr{Type: RC, Cap: most}
		c.edit(&a)
		if err := CheckQP(&a, &limits); c.want == "" != (err == nil) || err != nil && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%d: got %v, want %q", i, err, c.want)
		}
	}
	limits.MaxInline = 0 // the device does not say
	if err := CheckQP(&QPInitAttr{Type: RC, Cap: most}, &limits); err != nil {
		t.Errorf("inline data of a device that does not limit it: %v", err)
	}
}

// Each attribute is set by its own bit, and by no other.
func TestQPAttrSet(t *testing.T) {
	from := goodAttr(StateInit, StateRTR)
	from.PKeyIndex, from.Access = 3, AccessRemoteRead
	changed := map[string]bool{}
	for name, bit := range attributes {
		if bit == AttrCurState || bit == AttrCap {
			continue // the device's own
		}
		var to QPAttr
		to.Set(&from, bit)
		if reflect.DeepEqual(to, QPAttr{}) || to.State != 0 {
			t.Errorf("%s: %+v", name, to)
		}
		v := reflect.ValueOf(to)
		for i := range v.NumField() {
			if field := v.Type().Field(i).Name; !v.Field(i).IsZero() {
				if changed[field] {
					t.Errorf("%s changes %s, which another bit does", name, field)
				}
				changed[field] = true
			}
		}
	}
}
