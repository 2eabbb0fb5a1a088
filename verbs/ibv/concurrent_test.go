//go:build !nodl

package ibv_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// within fails the test, with every goroutine's stack, if f has not returned by then.
func within(t *testing.T, limit time.Duration, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(limit):
		panic(t.Name() + ": locked up")
	}
}

// Many goroutines use a queue pair, its queue and its device while it is closed:
// what comes too late is told so, and nobody waits for ever.
func TestUseWhileClosing(t *testing.T) {
	before := memory.Live.Load()
	ep := openRDMA(t, verbs.OpenOptions{})
	c := ep.Context
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	pd, err := c.AllocPD()
	ok(err)
	late := func(err error) {
		t.Helper()
		if err != nil && !errors.Is(err, verbs.ErrClosed) && !errors.Is(err, verbs.ErrInvalid) && !errors.Is(err, verbs.ErrState) && !errors.Is(err, verbs.ErrNoMemory) {
			t.Error(err)
		}
	}
	for range 20 {
		cq, err := c.CreateCQ(16, nil)
		ok(err)
		qp, err := pd.CreateQP(verbs.QPInitAttr{
			SendCQ: cq, RecvCQ: cq, Type: verbs.RC, Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1},
		})
		ok(err)
		users := []func(){
			func() {
				late(qp.Modify(verbs.QPAttr{State: verbs.StateInit, PortNum: ep.Port}, verbs.AttrState|verbs.AttrPKeyIndex|verbs.AttrPort|verbs.AttrAccess))
				late(qp.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState))
			},
			func() { _, _, err := qp.Query(); late(err) },
			func() { _, err := qp.PostSend([]verbs.WorkRequest{{Opcode: verbs.OpSend}}); late(err) },
			func() { _, err := qp.PostRecv([]verbs.WorkRequest{{}}); late(err) },
			func() { _, err := cq.Poll(make([]verbs.Completion, 4)); late(err) },
			func() { _, err := c.QueryGID(ep.Port, ep.GIDIndex); late(err) },
			func() { _, err := c.QueryPort(ep.Port); late(err) },
		}
		within(t, 30*time.Second, func() {
			var wg sync.WaitGroup
			for _, use := range append(users, users...) {
				wg.Go(func() {
					for range 20 {
						use()
					}
				})
			}
			for range 2 {
				wg.Go(func() { time.Sleep(2 * time.Millisecond); ok(qp.Close()); ok(cq.Close()) })
			}
			wg.Wait()
		})
	}
	ok(pd.Close())
	ok(c.Close())
	if got := memory.Live.Load(); got != before {
		t.Errorf("%d bytes are mapped after all is closed, %d before", got, before)
	}
}

// Closing a channel wakes who waits on it, whatever they are just about.
func TestCloseWakesWaiters(t *testing.T) {
	c := openRDMA(t, verbs.OpenOptions{}).Context
	for i := range 50 {
		ch, err := c.CreateCompChannel()
		if err != nil {
			t.Fatal(err)
		}
		within(t, 30*time.Second, func() {
			var wg sync.WaitGroup
			wg.Go(func() {
				for { // short waits, so that most of the time it is on its way in or out
					if _, err := ch.GetEvent(time.Duration(i) * 10 * time.Microsecond); !errors.Is(err, verbs.ErrTimeout) {
						if !errors.Is(err, verbs.ErrClosed) {
							t.Errorf("waiting while the channel is closed: %v", err)
						}
						return
					}
				}
			})
			time.Sleep(time.Millisecond)
			if err := ch.Close(); err != nil {
				t.Error(err)
			}
			wg.Wait()
		})
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
