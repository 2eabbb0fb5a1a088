package ring

import (
	"context"
	"fmt"

	"ringcli/verbs"
)

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
		for _, e := range r.edges {
			if err := e.QP.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState); err != nil {
				return fmt.Errorf("%s queue pair: %w", e.Side, err)
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
		r.devices.events.reset()
		r.pings.reset()
		r.deferred, r.early = r.deferred[:0], r.early[:0]
		r.mu.Lock()
		defer r.mu.Unlock()
		r.exchanged, r.unclean, r.remote = false, nil, [2]connectionData{}
		for _, e := range r.edges {
			e.Remote, e.MTU, e.pinged = QPInfo{}, 0, false
		}
		return nil
	})
}
