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
	return r.step(StateInitialised, v).take(ctx, func(context.Context, Token) error {
		for side, on := range r.chosen {
			if r.edges[side] != nil {
				continue
			}
			e, err := newChannels(r, Side(side), on)
			if err != nil {
				return err
			}
			r.change(func() { r.edges[side] = e })
		}
		for _, e := range slices.Concat(r.edges[Left].Channels(), r.edges[Right].Channels()) {
			if err := e.describe(); err != nil {
				return err
			}
		}
		r.change(func() { r.exchanged = false })
		return r.eachBehind(v, StateInitialised, func(e *Edge) error { return e.toInit(v) })
	})
}

// eachBehind takes a step on the edges that it is for and that have not taken it
// yet: a step that failed half-way goes on where it stopped.
func (r *Ring) eachBehind(v Values, to State, do func(*Edge) error) error {
	for _, side := range v.Sides() {
		if r.standing([]Side{side}).State >= to {
			continue
		}
		for _, e := range r.edges[side].Channels() {
			var reached State
			r.change(func() { reached = r.standingOfOne(e).State })
			if reached >= to {
				continue
			}
			if err := do(e); err != nil {
				return fmt.Errorf("%s queue pair, to %s: %w", e.ID.Name(), r.NodeName(e.Peer), err)
			}
		}
		r.change(func() { r.stepped.notify() })
	}
	return nil
}

// RTR compares both ends of each edge and takes the queue pairs to RTR: they can
// receive. A rank that sends before its neighbours can receive, too, loses what it sends:
// AwaitNeighbours.
func (r *Ring) RTR(ctx context.Context, v Values) error {
	return r.step(StateRTR, v).take(ctx, func(context.Context, Token) error {
		return r.eachBehind(v, StateRTR, func(e *Edge) error { return e.toRTR(v) })
	})
}

// RTS takes the queue pairs to RTS: they can send.
func (r *Ring) RTS(ctx context.Context, v Values) error {
	return r.step(StateRTS, v).take(ctx, func(context.Context, Token) error {
		return r.eachBehind(v, StateRTS, func(e *Edge) error { return e.toRTS(v) })
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
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.state == StateOpened && r.edges[Left] != nil && r.edges[Right] != nil {
			return nil
		}
		return stepError("reset", standing{State: r.state, err: r.err}, StateExchanged)
	}
	return r.between("reset", mayReset).take(ctx, func(_ context.Context, t Token) error {
		if err := r.mesh.drop(&r.mu); err != nil {
			return err
		}
		for _, e := range r.queuePairs() {
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
		r.deferred, r.early = r.deferred[:0], r.early[:0]
		r.mu.Lock()
		defer r.mu.Unlock()
		r.exchanged, r.unclean = false, nil
		for _, e := range r.queuePairs() {
			e.Remote, e.MTU, e.Outstanding, e.pinged, e.compared = connectionData{}, 0, 0, false, false
		}
		return nil
	})
}
