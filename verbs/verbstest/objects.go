package verbstest

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"ringcli/verbs"
)

// What is made is made as asked for, what can't be is refused, parents outlive
// their children, and closing twice does no harm.
func testObjects(t *testing.T, h Harness) {
	t.Run("RegMR", func(t *testing.T) { testRegMR(t, h) })
	t.Run("StaleKeys", func(t *testing.T) { testStaleKeys(t, h) })
	t.Run("CreateCQ", func(t *testing.T) { testCreateCQ(t, h) })
	t.Run("CreateQP", func(t *testing.T) { testCreateQP(t, h) })
	t.Run("Parents", func(t *testing.T) { testParents(t, h) })
	t.Run("CloseTwice", func(t *testing.T) { testCloseTwice(t, h) })
	t.Run("UseAfterClose", func(t *testing.T) { testUseAfterClose(t, h) })
}

func testRegMR(t *testing.T, h Harness) {
	r := open(t, h, 4096, rightsAll)
	addr := r.a.buf.Addr()
	keys := map[uint32]bool{r.a.mr.RKey(): true}
	for _, access := range []verbs.Access{
		0, verbs.AccessLocalWrite, verbs.AccessRemoteRead, verbs.AccessLocalWrite | verbs.AccessRemoteWrite, rightsAll,
	} {
		mr, err := r.a.pd.RegMR(addr+1, 100, access)
		r.ok(err, "register with %s", access)
		r.closes("a region", mr)
		if mr.Addr() != addr+1 || mr.Length() != 100 || mr.Access() != access || mr.Kind() != verbs.MemoryHost {
			t.Errorf("got [%#x, %d bytes, %s, %s]", mr.Addr(), mr.Length(), mr.Access(), mr.Kind())
		}
		if keys[mr.RKey()] && access&^verbs.AccessLocalWrite != 0 { // without remote rights the rkey opens nothing
			t.Errorf("rkey %#x is another region's, too", mr.RKey())
		}
		keys[mr.RKey()] = true
	}
	for _, c := range []struct {
		name         string
		addr, length uint64
		access       verbs.Access
	}{
		{"REMOTE_WRITE without LOCAL_WRITE", addr, 100, verbs.AccessRemoteWrite},
		{"REMOTE_ATOMIC without LOCAL_WRITE", addr, 100, verbs.AccessRemoteAtomic},
		{"past the end of the address space", math.MaxUint64 - 100, 4096, rightsAll},
		{"longer than MaxMRSize", addr, math.MaxUint64, rightsAll},
	} {
		if mr, err := r.a.pd.RegMR(c.addr, c.length, c.access); err == nil {
			t.Errorf("%s: registered", c.name)
			_ = mr.Close()
		}
	}
}

// The keys of a closed region do not open the next one: a WRITE that a peer aims
// with an rkey of yesterday must not land in today's buffer.
func testStaleKeys(t *testing.T, h Harness) {
	h.skip(t, KeysRepeat)
	r := open(t, h, 4096, rightsAll)
	const remember = 8
	var last []uint32
	for range 2000 {
		mr, err := r.a.pd.RegMR(r.a.buf.Addr(), 4096, rightsAll)
		r.ok(err, "register")
		key := mr.RKey()
		r.ok(mr.Close(), "deregister")
		if slices.Contains(last, key) {
			t.Fatalf("rkey %#x is given out again within %d registrations", key, remember)
		}
		last = append(last[max(0, len(last)-remember+1):], key)
	}
}

func testCreateCQ(t *testing.T, h Harness) {
	r := open(t, h, 4096, rightsAll)
	for _, cqe := range []int{-1, 0, r.a.dev.MaxCQE + 1} {
		if cq, err := r.a.Context.CreateCQ(cqe, nil); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%d completions: got %v, want an invalid argument", cqe, err)
			if err == nil {
				_ = cq.Close()
			}
		}
	}
	cq, err := r.a.Context.CreateCQ(1, nil) // a queue without a channel
	r.ok(err, "create a queue without a channel")
	r.closes("the queue", cq)
	if n, err := cq.Poll(make([]verbs.Completion, 4)); n != 0 || err != nil {
		t.Errorf("polling an empty queue: got %d, %v", n, err)
	}
	if n, err := cq.Poll(nil); n != 0 || err != nil {
		t.Errorf("polling for no completion: got %d, %v", n, err)
	}
}

func testCreateQP(t *testing.T, h Harness) {
	r := open(t, h, 4096, rightsAll)
	cq := r.queue(r.a, "the queue", 16).cq
	good := verbs.QPInitAttr{
		SendCQ: cq, RecvCQ: cq, Type: verbs.RC,
		Cap: verbs.QPCap{MaxSendWR: 5, MaxRecvWR: 7, MaxSendSGE: 1, MaxRecvSGE: 1},
	}
	qp, err := r.a.pd.CreateQP(good)
	r.ok(err, "create a queue pair")
	r.closes("the queue pair", qp)
	attr, init, err := qp.Query()
	r.ok(err, "query the queue pair")
	if attr.State != verbs.StateReset || qp.PD() != r.a.pd || qp.Num() == 0 || qp.Num() >= 1<<24 {
		t.Errorf("a new queue pair is number %#x in %s", qp.Num(), attr.State)
	}
	if g := init.Cap; g.MaxSendWR < 5 || g.MaxRecvWR < 7 || g.MaxSendSGE < 1 || g.MaxRecvSGE < 1 || init.Type != verbs.RC || init.SigAll {
		t.Errorf("asked for %+v, got %+v", good, init)
	}
	for _, c := range []struct {
		name string
		edit func(*verbs.QPInitAttr)
	}{
		{"MaxSendWR beyond the device", func(i *verbs.QPInitAttr) { i.Cap.MaxSendWR = r.a.dev.MaxQPWR + 1 }},
		{"MaxRecvWR beyond the device", func(i *verbs.QPInitAttr) { i.Cap.MaxRecvWR = r.a.dev.MaxQPWR + 1 }},
		{"MaxSendSGE beyond the device", func(i *verbs.QPInitAttr) { i.Cap.MaxSendSGE = r.a.dev.MaxSGE + 1 }},
		{"MaxRecvSGE beyond the device", func(i *verbs.QPInitAttr) { i.Cap.MaxRecvSGE = r.a.dev.MaxSGE + 1 }},
		{"MaxInlineData beyond the device", func(i *verbs.QPInitAttr) { i.Cap.MaxInlineData = r.a.dev.MaxInline + 1<<20 }},
		{"no send queue", func(i *verbs.QPInitAttr) { i.SendCQ = nil }},
		{"no receive queue", func(i *verbs.QPInitAttr) { i.RecvCQ = nil }},
		{"an unknown transport", func(i *verbs.QPInitAttr) { i.Type = 99 }},
	} {
		bad := good
		c.edit(&bad)
		if qp, err := r.a.pd.CreateQP(bad); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%s: got %v, want an invalid argument", c.name, err)
			if err == nil {
				_ = qp.Close()
			}
		}
	}
}

func testParents(t *testing.T, h Harness) {
	l := connect(t, h)
	for name, parent := range map[string]interface{ Close() error }{
		"the context": l.a.Context, "the PD of a region and a queue pair": l.a.pd,
		"the queue of a queue pair": l.a.send.cq, "the channel of a queue": l.a.ch,
	} {
		if err := parent.Close(); !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("closing %s: got %v, want that it is still in use", name, err)
		}
	}
	l.receives(l.b, 1, 2, l.b.sge(0, 64))
	l.post(l.a, send(1, l.a.sge(0, 64)))
	l.a.send.one(1, verbs.Success, "a SEND after refused closes")
}

func testCloseTwice(t *testing.T, h Harness) {
	r := open(t, h, 4096, rightsAll)
	c := newConfig(t, h, nil)
	e := r.end(r.a, c, c.A)
	_, mr := r.region(r.a.pd, 4096, rightsAll)
	for _, o := range []struct {
		name string
		c    interface{ Close() error }
	}{
		{"queue pair", e.qp}, {"region", mr}, {"region of a side", r.a.mr}, {"completion queue", e.send.cq},
		{"completion queue", e.recv.cq}, {"channel", r.a.ch}, {"PD", r.a.pd}, {"context", r.a.Context},
	} {
		for i := range 2 { // and a third time when the test ends
			if err := o.c.Close(); err != nil {
				t.Errorf("close %s, time %d: %v", o.name, i+1, err)
			}
		}
	}
}

func testUseAfterClose(t *testing.T, h Harness) {
	h.skip(t, NoUseAfterClose)
	r := open(t, h, 4096, rightsAll)
	c := newConfig(t, h, nil)
	e := r.end(r.a, c, c.A)
	for _, o := range []interface{ Close() error }{e.qp, r.a.mr, e.send.cq, e.recv.cq, r.a.ch, r.a.pd, r.a.Context} {
		r.ok(o.Close(), "close")
	}
	for name, use := range map[string]func() error{
		"QP.Modify":   func() error { return e.qp.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState) },
		"QP.Query":    func() error { _, _, err := e.qp.Query(); return err },
		"QP.PostSend": func() error { _, err := e.qp.PostSend([]verbs.WorkRequest{send(1)}); return err },
		"QP.PostRecv": func() error { _, err := e.qp.PostRecv([]verbs.WorkRequest{{ID: 1}}); return err },
		"CQ.Poll":     func() error { _, err := e.send.cq.Poll(make([]verbs.Completion, 1)); return err },
		"CQ.ReqNotify": func() error {
			return e.send.cq.ReqNotify(false)
		},
		"CompChannel.GetEvent": func() error { _, err := r.a.ch.GetEvent(time.Millisecond); return err },
		"PD.RegMR":             func() error { _, err := r.a.pd.RegMR(r.a.buf.Addr(), 1, 0); return err },
		"Context.AllocPD":      func() error { _, err := r.a.Context.AllocPD(); return err },
		"Context.CreateCQ":     func() error { _, err := r.a.Context.CreateCQ(1, nil); return err },
	} {
		if err := use(); !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("%s of a closed object: got %v, want %v", name, err, verbs.ErrClosed)
		}
	}
}
