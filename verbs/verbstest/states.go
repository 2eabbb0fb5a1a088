package verbstest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ringcli/verbs"
)

func testStates(t *testing.T, h Harness) {
	t.Run("Walk", func(t *testing.T) { testWalk(t, h) })
	t.Run("Missing", func(t *testing.T) { testMissing(t, h) })
	t.Run("WrongOrder", func(t *testing.T) { testWrongOrder(t, h) })
	t.Run("BadValues", func(t *testing.T) { testBadValues(t, h) })
	t.Run("Posting", func(t *testing.T) { testPostingByState(t, h) })
	t.Run("ReceiveInRTR", func(t *testing.T) { testReceiveInRTR(t, h) })
	t.Run("ResetAndReuse", func(t *testing.T) { testResetAndReuse(t, h) })
	t.Run("AccessChange", func(t *testing.T) { testAccessChange(t, h) })
	t.Run("SQD", func(t *testing.T) { testSQD(t, h) })
}

var steps = []struct {
	from, to verbs.QPState
	mask     verbs.AttrMask
}{
	{verbs.StateReset, verbs.StateInit, maskInit},
	{verbs.StateInit, verbs.StateRTR, maskRTR},
	{verbs.StateRTR, verbs.StateRTS, maskRTS},
}

// Every step shows in Query, and so do the attributes it set.
func testWalk(t *testing.T, h Harness) {
	l := connect(t, h, func(c *config) {
		c.StopAt = verbs.StateReset
		c.A.SQPSN, c.A.RQPSN = 0xabcdef, 0x123456
		c.A.MaxRDAtomic, c.A.MaxDestRDAtomic = 3, 2
		c.A.MinRNRTimer, c.A.Timeout, c.A.RetryCnt, c.A.RNRRetry = 13, 15, 5, 4
		c.A.Access = verbs.AccessRemoteRead | verbs.AccessRemoteWrite
	})
	for _, s := range steps {
		if got := l.a.state(t); got != s.from {
			t.Fatalf("the state is %s, want %s", got, s.from)
		}
		l.modify(l.a, s.to, s.mask)
	}
	got, init, err := l.a.qp.Query()
	l.ok(err, "query")
	want := l.a.attr
	if h.hasA(RoundsDepths) {
		want.MaxRDAtomic = 4 // from 3; 2 is a power of two
	}
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"state", got.State, verbs.StateRTS}, {"path_mtu", got.PathMTU, want.PathMTU},
		{"dest_qp_num", got.DestQPN, want.DestQPN}, {"sq_psn", got.SQPSN, want.SQPSN}, {"rq_psn", got.RQPSN, want.RQPSN},
		{"qp_access_flags", got.Access &^ verbs.AccessLocalWrite, want.Access}, {"port_num", got.PortNum, want.PortNum},
		{"max_rd_atomic", got.MaxRDAtomic, want.MaxRDAtomic}, {"max_dest_rd_atomic", got.MaxDestRDAtomic, want.MaxDestRDAtomic},
		{"min_rnr_timer", got.MinRNRTimer, want.MinRNRTimer}, {"timeout", got.Timeout, want.Timeout},
		{"retry_cnt", got.RetryCnt, want.RetryCnt}, {"rnr_retry", got.RNRRetry, want.RNRRetry},
		{"dgid", got.AH.GRH.DGID, want.AH.GRH.DGID}, {"sgid_index", got.AH.GRH.SGIDIndex, want.AH.GRH.SGIDIndex},
		{"send queue", init.SendCQ, l.a.send.cq}, {"receive queue", init.RecvCQ, l.a.recv.cq},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, c.got, c.want)
		}
	}
	for _, to := range []verbs.QPState{verbs.StateErr, verbs.StateErr, verbs.StateReset, verbs.StateReset} {
		l.modify(l.a, to, 0)
		if got := l.a.state(t); got != to {
			t.Errorf("the state is %s, want %s", got, to)
		}
	}
}

// refusal checks that Modify says no, with an error that has this text, and
// leaves the state alone.
func (r *rig) refusal(e *end, attr verbs.QPAttr, mask verbs.AttrMask, text string) {
	r.t.Helper()
	before := e.state(r.t)
	err := e.qp.Modify(attr, mask)
	what := fmt.Sprintf("%s→%s with %s", before, attr.State, mask)
	if err == nil || !errors.Is(err, verbs.ErrInvalid) {
		r.t.Errorf("%s: got %v, want an invalid argument", what, err)
		return
	}
	if !strings.Contains(err.Error(), text) {
		r.t.Errorf("%s: the error %q does not speak of %q", what, err, text)
	}
	if after := e.state(r.t); after != before {
		r.t.Errorf("%s was refused, but the state is now %s", what, after)
	}
}

// Each attribute that a step needs and doesn't get is named.
func testMissing(t *testing.T, h Harness) {
	l := connect(t, h, func(c *config) { c.StopAt = verbs.StateReset })
	for _, s := range steps {
		attr := l.a.attr
		attr.State = s.to
		for bit := verbs.AttrMask(2); bit != 0; bit <<= 1 {
			switch {
			case s.mask&bit != 0:
				l.refusal(l.a, attr, s.mask&^bit, bit.String())
				var e *verbs.ModifyError
				if err := l.a.qp.Modify(attr, s.mask&^bit); !errors.As(err, &e) || e.Missing != bit {
					t.Errorf("%s without %s: got %v, want a *ModifyError with it as Missing", s.to, bit, err)
				}
			case bit == verbs.AttrCap || bit == verbs.AttrSQPSN || bit == verbs.AttrPathMTU || bit == verbs.AttrRQPSN:
				l.refusal(l.a, attr, s.mask|bit, bit.String())
			}
		}
		l.modify(l.a, s.to, s.mask)
	}
}

func testWrongOrder(t *testing.T, h Harness) {
	masks := map[verbs.QPState]verbs.AttrMask{
		verbs.StateInit: maskInit, verbs.StateRTR: maskRTR, verbs.StateRTS: maskRTS, verbs.StateSQD: verbs.AttrState,
		verbs.StateErr: verbs.AttrState, verbs.StateSQE: verbs.AttrState,
	}
	wrong := map[verbs.QPState][]verbs.QPState{
		verbs.StateReset: {verbs.StateRTR, verbs.StateRTS, verbs.StateSQD, verbs.StateSQE},
		verbs.StateInit:  {verbs.StateRTS, verbs.StateSQD, verbs.StateSQE},
		verbs.StateRTR:   {verbs.StateInit, verbs.StateRTR, verbs.StateSQD, verbs.StateSQE},
		verbs.StateRTS:   {verbs.StateInit, verbs.StateRTR, verbs.StateSQE},
		verbs.StateErr:   {verbs.StateInit, verbs.StateRTR, verbs.StateRTS, verbs.StateSQD},
	}
	l := connect(t, h, func(c *config) { c.StopAt = verbs.StateReset })
	check := func() {
		t.Helper()
		for _, to := range wrong[l.a.state(t)] {
			attr := l.a.attr
			attr.State = to
			l.refusal(l.a, attr, masks[to], "")
		}
	}
	check()
	for _, s := range steps {
		l.modify(l.a, s.to, s.mask)
		check()
	}
	l.modify(l.a, verbs.StateErr, 0)
	check()
}

func testBadValues(t *testing.T, h Harness) {
	l := connect(t, h, func(c *config) { c.StopAt = verbs.StateReset })
	bad := map[verbs.QPState]map[string]func(*verbs.QPAttr){
		verbs.StateInit: {
			"port_num":        func(a *verbs.QPAttr) { a.PortNum = l.a.dev.PhysPorts + 1 },
			"pkey_index":      func(a *verbs.QPAttr) { a.PKeyIndex = 60000 },
			"qp_access_flags": func(a *verbs.QPAttr) { a.Access = 1 << 30 },
		},
		verbs.StateRTR: {
			"path_mtu":           func(a *verbs.QPAttr) { a.PathMTU = 7 },
			"dgid":               func(a *verbs.QPAttr) { a.AH.GRH.DGID = verbs.GID{} },
			"sgid_index":         func(a *verbs.QPAttr) { a.AH.GRH.SGIDIndex = l.a.port.GIDTableSz },
			"min_rnr_timer":      func(a *verbs.QPAttr) { a.MinRNRTimer = 32 },
			"max_dest_rd_atomic": func(a *verbs.QPAttr) { a.MaxDestRDAtomic = uint8(min(255, l.a.dev.MaxQPRDAtomic+1)) },
		},
		verbs.StateRTS: {
			"retry_cnt": func(a *verbs.QPAttr) { a.RetryCnt = 8 },
			"rnr_retry": func(a *verbs.QPAttr) { a.RNRRetry = 8 },
			"timeout":   func(a *verbs.QPAttr) { a.Timeout = 32 },
		},
	}
	if l.a.port.ActiveMTU < verbs.MTU4096 {
		bad[verbs.StateRTR]["active MTU"] = func(a *verbs.QPAttr) { a.PathMTU = l.a.port.ActiveMTU + 1 }
	}
	if l.a.dev.MaxQPRDAtomic >= 255 {
		delete(bad[verbs.StateRTR], "max_dest_rd_atomic")
	}
	for _, s := range steps {
		for text, edit := range bad[s.to] {
			attr := l.a.attr
			attr.State = s.to
			edit(&attr)
			l.refusal(l.a, attr, s.mask, text)
		}
		l.modify(l.a, s.to, s.mask)
	}
}

// Which requests a queue pair takes in which state.
func testPostingByState(t *testing.T, h Harness) {
	l := connect(t, h, func(c *config) { c.StopAt = verbs.StateReset })
	try := func(sends, receives bool) {
		t.Helper()
		state := l.a.state(t)
		n, err := l.a.qp.PostSend([]verbs.WorkRequest{send(1, l.a.sge(0, 8))})
		if sends && (err != nil || n != 1) || !sends && (n != 0 || !refused(err)) {
			t.Errorf("PostSend in %s: got %d, %v", state, n, err)
		}
		n, err = l.a.qp.PostRecv([]verbs.WorkRequest{{ID: 2, SGL: []verbs.SGE{l.a.sge(64, 8)}}})
		if receives && (err != nil || n != 1) || !receives && (n != 0 || !refused(err)) {
			t.Errorf("PostRecv in %s: got %d, %v", state, n, err)
		}
	}
	try(false, false)
	l.modify(l.a, verbs.StateInit, maskInit)
	try(false, true)
	l.modify(l.a, verbs.StateRTR, maskRTR)
	try(false, true)
	l.modify(l.a, verbs.StateErr, 0)
	l.a.recv.each(verbs.FlushError, 2, 3, "the receive posted in INIT")
	l.a.recv.each(verbs.FlushError, 2, 3, "the receive posted in RTR")
	try(true, true)
	l.a.send.one(1, verbs.FlushError, "a SEND posted in ERR")
	if !h.hasA(LateReceivesStay) {
		l.a.recv.one(2, verbs.FlushError, "a receive posted in ERR")
	}
}

// A queue pair in RTR already answers its peer.
func testReceiveInRTR(t *testing.T, h Harness) {
	l := connect(t, h, func(c *config) { c.StopAt = verbs.StateRTR })
	l.receives(l.b, 5, 6, l.b.sge(0, 100))
	l.modify(l.a, verbs.StateRTS, maskRTS)
	fill(l.a.buf.Bytes()[:100], 1)
	l.post(l.a, send(1, l.a.sge(0, 100)))
	l.b.recv.one(5, verbs.Success, "a SEND to a queue pair in RTR")
	l.a.send.one(1, verbs.Success, "a SEND to a queue pair in RTR")
	l.ok(verify(l.b.buf.Bytes()[:100], 1), "data")
	if got := l.b.state(t); got != verbs.StateRTR {
		t.Errorf("the receiver is in %s, want RTR", got)
	}
	l.post(l.a, l.b.remote(request(verbs.OpRead, 2, l.a.sge(200, 100)), 0))
	l.a.send.one(2, verbs.Success, "a READ from a queue pair in RTR")
	l.ok(verify(l.a.buf.Bytes()[200:300], 1), "data")
}

// RESET forgets all requests, silently, and the pair can start over.
func testResetAndReuse(t *testing.T, h Harness) {
	l := connect(t, h)
	for round := range uint64(3) {
		fill(l.a.buf.Bytes()[:5000], round)
		l.receives(l.b, 10, 14, l.b.sge(0, 5000))
		l.receives(l.a, 20, 24, l.a.sge(8000, 10))
		l.post(l.a, send(1, l.a.sge(0, 5000)))
		l.a.send.one(1, verbs.Success, "round %d", round)
		l.b.recv.one(10, verbs.Success, "round %d", round)
		l.ok(verify(l.b.buf.Bytes()[:5000], round), "round %d", round)
		if round == 1 { // once through ERR
			l.modify(l.a, verbs.StateErr, 0)
			l.a.recv.each(verbs.FlushError, 20, 24, "receives in ERR")
		}
		for _, e := range []*end{l.a, l.b} {
			l.modify(e, verbs.StateReset, 0)
			e.attr.SQPSN, e.attr.RQPSN = (e.attr.SQPSN+0x345678)&0xffffff, (e.attr.RQPSN+0x345678)&0xffffff
		}
		l.a.recv.none(2*time.Millisecond, "receives that RESET took away")
		l.b.recv.none(2*time.Millisecond, "receives that RESET took away")
		l.up(l.a, verbs.StateRTS)
		l.up(l.b, verbs.StateRTS)
	}
}

// Access flags may change while the queue pair runs.
func testAccessChange(t *testing.T, h Harness) {
	l := connect(t, h)
	write := l.b.remote(request(verbs.OpWrite, 1, l.a.sge(0, 64)), 0)
	l.post(l.a, write)
	l.a.send.one(1, verbs.Success, "a WRITE with the right")
	l.ok(l.b.qp.Modify(verbs.QPAttr{Access: verbs.AccessRemoteRead}, verbs.AttrAccess), "take away REMOTE_WRITE")
	l.post(l.a, write)
	l.a.send.one(1, verbs.RemoteInvalidRequest, "a WRITE without the right")
}

// In SQD requests queue up, and run once the queue pair is in RTS again.
func testSQD(t *testing.T, h Harness) {
	h.skip(t, NoSQD)
	l := connect(t, h)
	l.receives(l.b, 1, 4, l.b.sge(0, 100))
	l.receives(l.a, 1, 2, l.a.sge(500, 100))
	l.post(l.a, send(1, l.a.sge(0, 100)))
	l.a.send.one(1, verbs.Success, "before SQD")
	l.modify(l.a, verbs.StateSQD, 0)
	l.post(l.a, send(2, l.a.sge(0, 100)))
	l.post(l.b, send(9, l.b.sge(0, 100)))
	l.b.send.one(9, verbs.Success, "a SEND to a queue pair in SQD")
	l.a.recv.one(1, verbs.Success, "a SEND to a queue pair in SQD")
	l.a.send.none(20*time.Millisecond, "a SEND posted in SQD")
	l.modify(l.a, verbs.StateRTS, 0)
	l.a.send.one(2, verbs.Success, "back in RTS")
	l.b.recv.each(verbs.Success, 1, 3, "both SENDs")
}
