package hand

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"ringcli/cli/exit"
	"ringcli/cli/session"
	"ringcli/ring"
	"ringcli/verbs"
)

// workOf is what was done by hand in a session of this process.
func workOf(s *session.Session) *Work { return s.ByHand.(*Work) }

// Work is what was done by hand on the ring that is open: regions, and what
// was posted. It belongs to the command that has the ring's claim, but for what
// mu guards.
type Work struct {
	ring    *ring.Ring // whose the rest is; nil before the first
	regions map[string]*region
	posted  map[uint64]*request // by work request ID; out when polled
	// arrived are completions that were met and not shown yet.
	arrived []verbs.Completion
	number  uint64 // of the last request

	mu    sync.Mutex
	names []string          // guarded by mu: of the regions, for completion, which may be asked while a command runs
	of    *ring.Ring        // guarded by mu: whose shown are
	shown map[string]uint64 // guarded by mu: counters as they were shown last
}

// request is a work request that was posted by hand.
type request struct {
	id     uint64
	side   ring.Side
	queue  string // send or receive
	what   string // in words
	region *region
	addr   uint64 // of local memory
	length uint64
}

// on takes a ring up, if it is another than before.
func (h *Work) on(r *ring.Ring) {
	if h.ring != r {
		h.ring, h.regions, h.posted, h.arrived = r, map[string]*region{}, map[uint64]*request{}, nil
	}
}

// Release gives back what hangs on the ring, which is about to close.
func (h *Work) Release() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(h.regions)) {
		errs = append(errs, h.drop(name))
	}
	h.ring, h.regions, h.posted, h.arrived = nil, nil, nil, nil
	h.publishNames()
	return errors.Join(errs...)
}

// waiting lists what is posted and not polled, in the order of posting.
func (h *Work) waiting(which func(*request) bool) []*request {
	var list []*request
	for _, id := range slices.Sorted(maps.Keys(h.posted)) {
		if q := h.posted[id]; which == nil || which(q) {
			list = append(list, q)
		}
	}
	slices.SortFunc(list, func(a, b *request) int { return int(a.number()) - int(b.number()) })
	return list
}

func (q *request) number() uint64 {
	_, _, n := ring.ParseWRID(q.id)
	return n
}

// mayPing refuses a ping that a receive of the user's would take.
func (h *Work) mayPing(sides []ring.Side) error {
	taking := h.waiting(func(q *request) bool { return q.queue == "receive" && slices.Contains(sides, q.side) })
	if len(taking) > 0 {
		q := taking[0]
		return exit.Usagef("ping: a receive posted by hand on the %s (%s) may take its messages: have it used and `poll` it, or `reset` both ends", q.side, q.what)
	}
	return nil
}

// MayOperate refuses an operation of all ranks while something by hand is not
// polled: it would meet the completions, or a message that is none of its own.
func (h *Work) MayOperate(ctx context.Context, s *session.Session) error {
	if !s.Interactive && h.number == 0 {
		return nil // nobody works by hand
	}
	h.on(s.Ring)
	if err := h.look(ctx, s); err != nil {
		return err
	}
	if n := len(h.posted); n > 0 {
		return exit.Usagef("%d of what was posted by hand is not polled, the oldest: %s: `poll` first, or `reset` on all ranks", n, h.waiting(nil)[0].what)
	}
	if len(h.arrived) > 0 {
		return exit.Usagef("%s has arrived and is not polled: `poll` first, or `reset` on all ranks", describe(s.Ring, &h.arrived[0]))
	}
	return nil
}

// show notes that counters are shown, and returns what was shown before; at the
// first time of a ring that is nothing.
func (h *Work) show(r *ring.Ring, now map[string]uint64) map[string]uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.shown
	if h.of != r {
		before = nil
	}
	h.of, h.shown = r, now
	return before
}

// needsQP refuses before init.
func needsQP(r *ring.Ring, step string) error {
	switch {
	case r.Edge(ring.Left.Edge()) != nil && r.Edge(ring.Right.Edge()) != nil:
		return nil
	case r.Failed():
		return &session.OverError{Err: r.Err()}
	default:
		return &ring.StepError{Step: step, State: r.State(), Missing: "init"}
	}
}

// region is memory that was registered by hand.
type region struct {
	name  string
	block verbs.Memory
	reg   *ring.Registration
}

// describe says what a completion is of, by its ID.
func describe(r *ring.Ring, wc *verbs.Completion) string {
	id, kind, value := ring.ParseWRID(wc.ID)
	peer := -1
	if e := r.Edge(id); e != nil {
		peer = e.Peer
	}
	switch {
	case kind == ring.WRMessage:
		return fmt.Sprintf("message of a ping, to rank %d", peer)
	case kind == ring.WRRecv && wc.Status == verbs.Success && wc.Opcode == verbs.WCRecvWriteImm:
		return fmt.Sprintf("WRITE with immediate data by rank %d", peer)
	case kind == ring.WRRecv:
		return fmt.Sprintf("message buffer %d of init, from rank %d", value, peer)
	}
	return fmt.Sprintf("request of an operation, with rank %d", peer)
}

// SlotsName is the name by which requests reach the neighbour's receive slots.
const SlotsName = "slots"
