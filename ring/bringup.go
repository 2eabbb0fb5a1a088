package ring

import (
	"context"
	"fmt"
	"slices"

	"ringcli/verbs"
)

// Init creates the queue pairs to both neighbours and their memory, unless they are there,
// brings them to INIT and posts the receives.
func (r *Ring) Init(ctx context.Context, v Values) error {
	return stepTo(r, StateInitialised, v).take(ctx, func(context.Context, Token) error {
		for side, on := range r.table.chosen {
			if r.table.edges[side] != nil {
				continue
			}
			e, err := r.devices.newChannels(Side(side), on)
			if err != nil {
				return err
			}
			r.table.change(func() { r.table.edges[side] = e })
		}
		for _, e := range slices.Concat(r.table.edges[Left].Channels(), r.table.edges[Right].Channels()) {
			if err := e.describe(); err != nil {
				return err
			}
		}
		r.table.change(func() { r.table.exchanged = false })
		return r.table.eachBehind(v, StateInitialised, func(e *Edge) error { return e.toInit(v) })
	})
}

// eachBehind takes a step on the edges that it is for and that have not taken it
// yet: a step that failed half-way goes on where it stopped.
func (t *edgeTable) eachBehind(v Values, to State, do func(*Edge) error) error {
	for _, side := range v.Sides() {
		if t.standing([]Side{side}).State >= to {
			continue
		}
		for _, e := range t.edges[side].Channels() {
			var reached State
			t.change(func() { reached = t.standingOfOne(e).State })
			if reached >= to {
				continue
			}
			if err := do(e); err != nil {
				return fmt.Errorf("%s queue pair, to %s: %w", e.ID.Name(), t.of.NodeName(e.Peer), err)
			}
		}
		t.change(func() { t.stepped.notify() })
	}
	return nil
}

// RTR compares both ends of each edge and takes the queue pairs to RTR: they can
// receive. A rank that sends before its neighbours can receive, too, loses what it sends:
// AwaitNeighbours.
func (r *Ring) RTR(ctx context.Context, v Values) error {
	return stepTo(r, StateRTR, v).take(ctx, func(context.Context, Token) error {
		return r.table.eachBehind(v, StateRTR, func(e *Edge) error { return e.toRTR(v) })
	})
}

// RTS takes the queue pairs to RTS: they can send.
func (r *Ring) RTS(ctx context.Context, v Values) error {
	return stepTo(r, StateRTS, v).take(ctx, func(context.Context, Token) error {
		return r.table.eachBehind(v, StateRTS, func(e *Edge) error { return e.toRTS(v) })
	})
}

// Reset takes both queue pairs to RESET, whatever state they are in, ERR too, and
// drops what was posted and what completed. They keep their numbers, and their
// first PSNs unless Init is told another: Init, Exchange, RTR and RTS bring them
// up again. Both ends of an edge need it. The edges of a mesh are dropped, to be
// made anew when they are needed, so all ranks of one need it, too. A Comm over the ring is to be closed
// before and made anew afterwards.
func (r *Ring) Reset(ctx context.Context) error {
	mayReset := func() error {
		r.table.mu.Lock()
		defer r.table.mu.Unlock()
		if r.table.state == StateOpened && r.table.edges[Left] != nil && r.table.edges[Right] != nil {
			return nil
		}
		return stepError("reset", standing{State: r.table.state, err: r.table.err}, StateExchanged)
	}
	return between(r, "reset", mayReset).take(ctx, func(_ context.Context, t Token) error {
		if err := r.table.mesh.drop(&r.table.mu); err != nil {
			return err
		}
		for _, e := range r.table.queuePairs() {
			if err := e.QP.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState); err != nil {
				return fmt.Errorf("%s queue pair: %w", e.ID.Name(), err)
			}
		}
		// Nothing new can complete any more.
		var wc [64]verbs.Completion
		for n := len(wc); n > 0; {
			var err error
			if n, err = t.poll(wc[:]); err != nil {
				return err
			}
		}
		r.devices.events.Forget(false)
		r.pings.reset()
		r.poll.deferred, r.poll.early = r.poll.deferred[:0], r.poll.early[:0]
		r.table.mu.Lock()
		defer r.table.mu.Unlock()
		r.table.exchanged, r.table.unclean = false, nil
		for _, e := range r.table.queuePairs() {
			e.Remote, e.MTU, e.Outstanding, e.pinged, e.compared = connectionData{}, 0, 0, false, false
		}
		return nil
	})
}
