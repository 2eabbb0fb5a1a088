package sharedmem

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"ringcli/collective/reduce"
	"ringcli/verbs/memory"
)

// kept has the buffers of calls, which know their addresses only: here they stay
// where they are, and in use.
var kept sync.Map

// callOf returns a call of rank's over its own memory.
func callOf(rank, count int, buffer []byte) Call {
	kept.Store(&buffer[0], buffer)
	b := Buffer{Addr: memory.Addr(buffer), Key: uint64(rank) + 1, Mapped: true}
	return Call{Name: "all-reduce", Phases: AllReduce, Type: reduce.Float32, Signature: Signature{Digest: 5, Count: uint64(count)}, Send: b, Recv: b}
}

func TestDisagreement(t *testing.T) {
	for name, pull := range map[string]bool{"inbox": false, "pull": true} {
		w := newWorld(t, 3, nil)
		for r, err := range w.each(func(rank int, t *Team) error {
			c := callOf(rank, 100, make([]byte, 400))
			if rank == 2 {
				c.Digest, c.Count = 6, 99
			}
			if pull {
				return t.Pull(&c)
			}
			return t.Inbox(&c)
		}) {
			var e *DisagreementError
			if !errors.As(err, &e) {
				t.Fatalf("%s: rank %d: %v", name, r, err)
			}
			want := DisagreementError{Rank: r, Peer: 2, Theirs: Signature{Digest: 6, Count: 99}}
			if r == 2 {
				want = DisagreementError{Rank: r, Peer: 0, Theirs: Signature{Digest: 5, Count: 100}}
			}
			if *e != want {
				t.Errorf("%s: rank %d: %+v, want %+v", name, r, *e, want)
			}
		}
		if err := w.teams[0].Inbox(&Call{Phases: Barrier}); err == nil || !strings.Contains(err.Error(), "no more use") {
			t.Errorf("%s: after the error: %v", name, err)
		}
	}
}

func TestDisagreementOfEpochs(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Epoch = uint64(c.Rank) })
	for r, err := range w.each(func(_ int, t *Team) error { return t.Inbox(&Call{Phases: Barrier}) }) {
		var e *DisagreementError
		if !errors.As(err, &e) || !e.Epoch {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// A rank that never comes: the others say so, with what had come.
func TestTimeout(t *testing.T) {
	for name, pull := range map[string]bool{"inbox": false, "pull": true} {
		w := newWorld(t, 3, func(c *Config) { c.Timeout = after(500 * time.Millisecond) })
		for r, err := range w.each(func(rank int, t *Team) error {
			if rank == 1 {
				return nil
			}
			c := callOf(rank, 100, make([]byte, 400))
			if pull {
				return t.Pull(&c)
			}
			return t.Inbox(&c)
		}) {
			if r == 1 {
				continue
			}
			if !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) ||
				!strings.Contains(err.Error(), "awaited from rank 1") || !strings.Contains(err.Error(), "had come") {
				t.Errorf("%s: rank %d: %v", name, r, err)
			}
		}
	}
}

// Of many ranks those that are awaited are told, and not all that are there.
func TestTimeoutOfMany(t *testing.T) {
	for name, pull := range map[string]bool{"inbox": false, "pull": true} {
		w := newWorld(t, inboxRanks+2, func(c *Config) { c.Timeout = after(500 * time.Millisecond) })
		for r, err := range w.each(func(rank int, t *Team) error {
			if rank == 1 {
				return nil
			}
			c := callOf(rank, 100, make([]byte, 400))
			if pull {
				return t.Pull(&c)
			}
			return t.Inbox(&c)
		}) {
			if r != 1 && (!errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), "awaited from rank 1") ||
				!strings.Contains(err.Error(), "; of 9 other ranks 1 are awaited") || strings.Contains(err.Error(), "had come")) {
				t.Errorf("%s: rank %d: %v", name, r, err)
			}
		}
	}
}

// Stop ends a wait, in the middle of the steps too.
func TestStop(t *testing.T) {
	stop := errors.New("the user has enough")
	for _, at := range []phase{phaseInbox, phaseSteps, phaseFinish} {
		var w *world
		w = newWorld(t, 2, func(c *Config) {
			if rank := c.Rank; rank == 0 {
				c.Stop = func() error {
					if w.teams[0].phase == at {
						return stop
					}
					return nil
				}
			}
		})
		err := w.each(func(rank int, t *Team) error {
			c := callOf(rank, 100, make([]byte, 400))
			switch {
			case at == phaseInbox && rank == 0:
				return t.Inbox(&c)
			case at == phaseInbox:
				return nil
			case rank == 0:
				return t.Pull(&c)
			}
			// As far as a rank comes that is killed.
			if err := t.begin(&c, false); err != nil {
				return err
			}
			t.pull.prepare(&c)
			if err := t.pull.tellRefs(&c); err != nil {
				return err
			}
			for at == phaseFinish && !t.pull.complete() {
				// It reads all it needs, but does not say so.
				t.own[takenLine] = new(line)
				t.pull.advance()
			}
			return nil
		})
		if !errors.Is(err[0], stop) || err[1] != nil || !strings.Contains(err[0].Error(), "rank 0, all-reduce") {
			t.Errorf("phase %d: %v", at, err)
		}
	}
}

// Words of a peer that lead nowhere are errors.
func TestGarbageReferences(t *testing.T) {
	for name, spoil := range map[string]func(b *Buffer){
		"key":      func(b *Buffer) { b.Key = 77 },
		"overflow": func(b *Buffer) { b.Addr = ^uint64(0) - 8 },
	} {
		w := newWorld(t, 2, nil)
		errs := w.each(func(rank int, t *Team) error {
			c := callOf(rank, 100, make([]byte, 400))
			if rank == 1 {
				spoil(&c.Send)
			}
			if rank == 0 {
				return t.Pull(&c)
			}
			if err := t.begin(&c, true); err != nil {
				return err
			}
			t.pull.prepare(&c)
			return t.pull.tellRefs(&c)
		})
		if errs[0] == nil || !strings.Contains(errs[0].Error(), "memory of rank 1") {
			t.Errorf("%s: %v", name, errs[0])
		}
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []Config{
		{Size: 1, Boards: []uint64{pageBytes}},
		{Size: MaxRanks + 1},
		{Rank: 2, Size: 2},
		{Size: 2, Boards: []uint64{pageBytes}},
		{Size: 2, Boards: []uint64{pageBytes, 8}},
	} {
		if _, err := New(c); !errors.Is(err, ErrUsage) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	w := newWorld(t, 2, nil)
	for _, c := range []Call{{Phases: 9}, {Signature: Signature{Count: 1 << 63}}, {Phases: AllReduce, Type: 99}, {Phases: AllReduce, Reduction: 99}} {
		if err := w.teams[0].Inbox(&c); !errors.Is(err, ErrUsage) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A call allocates nothing.
func TestAllocations(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Stop = func() error { return nil } })
	const runs = 100
	w.must(func(rank int, team *Team) error {
		small, large := callOf(rank, 2, make([]byte, 8)), callOf(rank, 1<<16, make([]byte, 1<<18))
		var err error
		f := func() {
			err = errors.Join(err, team.Inbox(&small), team.Pull(&large))
		}
		if rank == 1 {
			for range runs + 1 {
				f()
			}
			return err
		}
		if n := testing.AllocsPerRun(runs, f); n != 0 {
			t.Errorf("%v allocations", n)
		}
		return err
	})
}
