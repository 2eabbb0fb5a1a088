package async

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ringcli/collective/fifo"
	"ringcli/configs/usage"
)

// bench is a queue with a lock, on which operations take a second of a bubble's clock.
type bench struct {
	q    Queue
	lock fifo.Lock
	ran  []string
	over atomic.Bool // a cancellation has failed it
}

var errOver = errors.New("over")

// task runs for a second, if nothing was cancelled before.
func (b *bench) task(name string, reads, writes Span) Task {
	return Task{Name: name, Reads: reads, Writes: writes,
		Run: func(ctx context.Context, turn *fifo.Turn) error {
			if err := turn.Wait(ctx); err != nil {
				return err
			}
			defer b.lock.Unlock()
			if b.over.Load() {
				return errOver
			}
			b.ran = append(b.ran, name)
			time.Sleep(time.Second)
			return nil
		},
		Cancel: func(error) { b.over.Store(true) },
	}
}

func (b *bench) start(t *testing.T, ctx context.Context, name string) *Handle {
	t.Helper()
	h, err := b.q.Start(ctx, &b.lock, b.task(name, Span{}, Span{}))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// What is started runs in this order, also beside calls that take the lock themselves, and
// the goroutine that ran it ends: synctest fails where one is left.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bench
		one, two := b.start(t, t.Context(), "one"), b.start(t, t.Context(), "two")
		if one.Err() != nil || two.Err() != nil {
			t.Error("a handle has an error before the operation has begun")
		}
		if err := b.lock.Lock(t.Context()); err != nil { // a synchronous call
			t.Fatal(err)
		}
		b.ran = append(b.ran, "synchronous")
		three := b.start(t, t.Context(), "three")
		if err := two.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if err := three.Wait(short); !errors.Is(err, context.DeadlineExceeded) || three.Err() != nil {
			t.Errorf("%v, %v: expected that three goes on", err, three.Err())
		}
		b.lock.Unlock()
		b.q.Idle()
		if err := three.Wait(short); err != nil { // it has ended, whatever the context
			t.Error(err)
		}
		if got := strings.Join(b.ran, " "); got != "one two synchronous three" {
			t.Errorf("ran %s", got)
		}
		b.start(t, t.Context(), "four") // begins another goroutine
		b.q.Idle()
		b.q.Idle()
	})
}

// A context that ends before its operation's turn cancels all that are in flight at once,
// not when the turn comes, and each resolves.
func TestCancelBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bench
		ctx, cancel := context.WithCancel(t.Context())
		handles := []*Handle{b.start(t, t.Context(), "one"), b.start(t, t.Context(), "two"), b.start(t, ctx, "three"), b.start(t, t.Context(), "four")}
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !b.over.Load() {
			t.Error("nothing is cancelled until the turn of three comes")
		}
		b.q.Idle()
		for i, h := range handles {
			select {
			case <-h.Done():
			default:
				t.Fatalf("operation %d has not resolved", i+1)
			}
			if err := h.Err(); (err == nil) != (i == 0) {
				t.Errorf("operation %d: %v", i+1, err)
			}
		}
		if len(b.ran) != 1 {
			t.Errorf("ran %v: expected one alone", b.ran)
		}
	})
}

// Memory in use by an operation in flight is refused to others, and free afterwards.
func TestBuffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bench
		in, out := Span{0x1000, 0x100}, Span{0x2000, 0x100}
		start := func(reads, writes Span) error {
			_, err := b.q.Start(t.Context(), &b.lock, b.task("all-reduce", reads, writes))
			return err
		}
		if err := start(in, out); err != nil {
			t.Fatal(err)
		}
		for what, c := range map[string]struct {
			reads, writes Span
			refused       bool
		}{
			"both read":            {in, Span{0x3000, 0x100}, false},
			"its last byte":        {Span{0x20ff, 1}, Span{}, true},
			"beside it":            {Span{0x2100, 1}, Span{0x1fff, 1}, false},
			"what it reads":        {Span{}, Span{0x1010, 1}, true},
			"what it writes":       {Span{}, Span{0x1fff, 2}, true},
			"no bytes, in between": {Span{0x2010, 0}, Span{0x2020, 0}, false},
		} {
			err := start(c.reads, c.writes)
			if (err != nil) != c.refused || err != nil && (!errors.Is(err, usage.Err) || !strings.Contains(err.Error(), "in flight")) {
				t.Errorf("%s: %v, refused is to be %v", what, err, c.refused)
			}
		}
		if b.q.Free(in) == nil || b.q.Free(out) == nil || b.q.Free(Span{0x4000, 8}) != nil {
			t.Error("memory in use may be given back, or other may not")
		}
		b.q.Idle()
		if err := b.q.Free(out); err != nil {
			t.Error(err)
		}
	})
}
