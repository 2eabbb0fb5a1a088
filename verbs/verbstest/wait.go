package verbstest

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"ringcli/verbs"
)

// queue is a completion queue and what was polled from it and not yet taken.
type queue struct {
	*rig
	name string
	cq   verbs.CQ
	got  []verbs.Completion
}

func (r *rig) queue(s *side, name string, cqe int) *queue {
	r.t.Helper()
	cq, err := s.Context.CreateCQ(cqe, s.ch)
	r.ok(err, "create a completion queue of %d", cqe)
	r.closes(name+"'s completion queue", cq)
	q := &queue{rig: r, name: name, cq: cq}
	r.queues = append(r.queues, q)
	r.t.Cleanup(func() {
		r.queues = slices.DeleteFunc(r.queues, func(other *queue) bool { return other == q })
	})
	return q
}

// poll polls every queue of the rig once and returns how many completions came.
func (r *rig) poll() int {
	r.t.Helper()
	var wc [32]verbs.Completion
	total := 0
	for _, q := range r.queues {
		n, err := q.cq.Poll(wc[:])
		r.ok(err, "poll %s", q.name)
		q.got = append(q.got, wc[:n]...)
		total += n
	}
	return total
}

// await polls until a condition holds, at most for the harness's deadline.
func (r *rig) await(done func() bool, what string, args ...any) {
	r.t.Helper()
	deadline := time.Now().Add(r.h.Deadline)
	for idle := 0; !done(); idle++ {
		if r.poll() > 0 {
			idle = 0
			continue
		}
		if idle < 1000 {
			runtime.Gosched()
			continue
		}
		time.Sleep(20 * time.Microsecond)
		if time.Now().After(deadline) {
			r.t.Fatalf("waited %v for %s; had arrived: %s", r.h.Deadline, fmt.Sprintf(what, args...), r.arrived())
		}
	}
}

func (r *rig) arrived() string {
	var all []string
	for _, q := range r.queues {
		if len(q.got) > 0 {
			all = append(all, fmt.Sprintf("%s: %s", q.name, list(q.got)))
		}
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, "; ")
}

func list(wcs []verbs.Completion) string {
	var all []string
	for i, wc := range wcs {
		if i == 8 {
			all = append(all, fmt.Sprintf("and %d more", len(wcs)-i))
			break
		}
		all = append(all, fmt.Sprintf("{%d %s}", wc.ID, wc.Status))
	}
	return strings.Join(all, " ")
}

// take waits for n completions and removes them.
func (q *queue) take(n int, what string, args ...any) []verbs.Completion {
	q.t.Helper()
	q.await(func() bool { return len(q.got) >= n }, "%d completions in %s: %s", n, q.name, fmt.Sprintf(what, args...))
	taken := q.got[:n:n]
	q.got = q.got[n:]
	return taken
}

// one waits for the next completion, which must have this ID and status.
func (q *queue) one(id uint64, status verbs.Status, what string, args ...any) verbs.Completion {
	q.t.Helper()
	wc := q.take(1, what, args...)[0]
	if wc.ID != id || wc.Status != status {
		q.t.Fatalf("%s: %s got {%d %s}, want {%d %s}", fmt.Sprintf(what, args...), q.name, wc.ID, wc.Status, id, status)
	}
	return wc
}

// each waits for completions with these IDs in this order, all of one status.
func (q *queue) each(status verbs.Status, from, to uint64, what string, args ...any) {
	q.t.Helper()
	for id := from; id < to; id++ {
		q.one(id, status, what, args...)
	}
}

// none makes sure that nothing comes for a while.
func (q *queue) none(d time.Duration, what string, args ...any) {
	q.t.Helper()
	for end := time.Now().Add(d); ; time.Sleep(100 * time.Microsecond) {
		q.poll()
		if len(q.got) > 0 {
			q.t.Fatalf("%s: %s got %s, want none", fmt.Sprintf(what, args...), q.name, list(q.got))
		}
		if time.Now().After(end) {
			return
		}
	}
}

// awaitState waits until a queue pair is in a state that it enters by itself.
func (r *rig) awaitState(e *end, want verbs.QPState, why string) {
	r.t.Helper()
	r.await(func() bool { return e.state(r.t) == want }, "%s's queue pair to be in %s: %s", e.name, want, why)
}

// refused checks an error of posting in a wrong state: both are EINVAL in C.
func refused(err error) bool {
	return errors.Is(err, verbs.ErrState) || errors.Is(err, verbs.ErrInvalid)
}

// sub runs a subtest on a pair that is already there. It reports whether the
// pair may be used again.
func (r *rig) sub(name string, run func(t *testing.T)) bool {
	outer := r.t
	return outer.Run(name, func(t *testing.T) {
		r.t = t
		defer func() { r.t = outer }()
		run(t)
	})
}
