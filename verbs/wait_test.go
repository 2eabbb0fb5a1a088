package verbs_test

import (
	"errors"
	"testing"
	"time"

	. "ringcli/verbs"
)

// fakeCQ counts how often it was armed; fakeChannel answers GetEvent from a list.
type fakeCQ struct {
	CQ
	armed int
	err   error
}

func (c *fakeCQ) ReqNotify(solicitedOnly bool) error {
	if solicitedOnly {
		return errors.New("a waiter waits for every completion, not for solicited ones alone")
	}
	c.armed++
	return c.err
}

type fakeChannel struct {
	CompChannel
	answers []error
	longest time.Duration
}

func (c *fakeChannel) GetEvent(timeout time.Duration) (CQ, error) {
	c.longest = max(c.longest, timeout)
	if len(c.answers) == 0 {
		return nil, ErrTimeout
	}
	err := c.answers[0]
	c.answers = c.answers[1:]
	return nil, err
}

func wait(t *testing.T, w *Waiter, n int) {
	t.Helper()
	for range n {
		if err := w.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWaiterBlocks(t *testing.T) {
	cq, ch := &fakeCQ{}, &fakeChannel{answers: []error{ErrTimeout, nil, nil}}
	w := Waiter{CQ: cq, Channel: ch, Policy: WaitBlock}
	wait(t, &w, 1)
	if cq.armed != 1 || len(ch.answers) != 3 {
		t.Fatalf("first wait: armed %d times and %d events left; want it to arm, and the caller to poll before it blocks", cq.armed, len(ch.answers))
	}
	wait(t, &w, 1)
	if cq.armed != 1 || len(ch.answers) != 2 {
		t.Fatalf("second wait: armed %d times, %d events left; want one block", cq.armed, len(ch.answers))
	}
	wait(t, &w, 1) // an event: the queue is no longer armed
	wait(t, &w, 1)
	if cq.armed != 2 {
		t.Errorf("after a time-out and an event: armed %d times, want 2", cq.armed)
	}
	wait(t, &w, 1)
	if ch.longest == 0 || ch.longest > 10*time.Millisecond {
		t.Errorf("blocked for up to %v, want at most 10 ms", ch.longest)
	}
}

func TestWaiterSpinsFirst(t *testing.T) {
	for _, policy := range []WaitPolicy{WaitYield, WaitGosched} {
		t.Run(policy.String(), func(t *testing.T) {
			cq, ch := &fakeCQ{}, &fakeChannel{}
			w := Waiter{CQ: cq, Channel: ch, Policy: policy}
			waits := 0
			for cq.armed == 0 && waits < 100000 {
				wait(t, &w, 1)
				waits++
			}
			if waits < 100 || waits == 100000 {
				t.Fatalf("armed the queue at wait %d, want some thousand yields before", waits)
			}
			wait(t, &w, 1)
			if ch.longest == 0 {
				t.Error("armed, but did not block at the next wait")
			}
			w.Reset()
			ch.longest = 0
			wait(t, &w, 1)
			if ch.longest != 0 {
				t.Error("blocked at once after a successful poll")
			}
		})
	}
}

func TestWaiterErrors(t *testing.T) {
	w := Waiter{CQ: &fakeCQ{err: ErrClosed}, Channel: &fakeChannel{}, Policy: WaitBlock}
	if err := w.Wait(); !errors.Is(err, ErrClosed) {
		t.Errorf("arming a closed queue: got %v", err)
	}
	w = Waiter{CQ: &fakeCQ{}, Channel: &fakeChannel{answers: []error{ErrClosed}}, Policy: WaitBlock}
	wait(t, &w, 1)
	if err := w.Wait(); !errors.Is(err, ErrClosed) {
		t.Errorf("waiting on a closed channel: got %v", err)
	}
}

func TestWaiterWithoutChannel(t *testing.T) {
	w := Waiter{CQ: &fakeCQ{err: ErrClosed}, Policy: WaitBlock}
	start := time.Now()
	wait(t, &w, 3)
	if d := time.Since(start); d < 150*time.Microsecond {
		t.Errorf("three waits took %v, want a short sleep each", d)
	}
}

func TestWaiterAllocatesNothing(t *testing.T) {
	w := Waiter{CQ: &fakeCQ{}, Channel: &fakeChannel{}, Policy: WaitGosched}
	if n := testing.AllocsPerRun(10000, func() { _ = w.Wait() }); n != 0 {
		t.Errorf("%v allocations a wait, want none", n)
	}
}
