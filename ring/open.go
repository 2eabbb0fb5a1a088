package ring

import (
	"context"
	"errors"

	"ringcli/ring/bootstrap"
	"ringcli/ring/locality"
	"ringcli/verbs/route"
)

// Open binds the TCP listener, chooses the local address and opens the devices to
// both neighbours, each with a protection domain, a completion queue and its channel.
func (r *Ring) Open(ctx context.Context) error {
	return r.step(StateOpened, Values{}).take(ctx, func(ctx context.Context, _ Token) (err error) {
		defer func() {
			if err != nil && r.opts.ByHand && !r.Failed() {
				err = errors.Join(err, r.release(StateNew))
			}
		}()
		if err := r.resolve(ctx); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, r.Timeout()) // of its own: names may have taken long
		defer cancel()
		if err := r.untilUp(ctx, func() (err error) {
			if r.local, err = locality.Address(r.nodes, r.addrs, r.rank, locality.IsLocal, route.Source); err != nil && r.comesUp(err) {
				if err := r.resolve(ctx); err != nil { // the order of a name's addresses depends on the routes
					return err
				}
			}
			return err
		}); err != nil {
			return err
		}
		r.beside.Store(r.findBeside())
		affinity, err := locality.Affinity(r.opts.Wait, r.opts.CPUs, r.addrs, r.rank)
		if err != nil {
			return err
		}
		r.change(func() { r.affinity = affinity })
		if err := r.untilUp(ctx, func() error { return r.listen(ctx) }); err != nil {
			return err
		}
		if err := r.Inject(r.opts.Inject); err != nil {
			return err
		}
		if err := r.untilUp(ctx, r.devices.openExpected); err != nil {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.state == StateNew {
			r.state = StateOpened
		}
		return nil
	})
}

// listen opens the control ring, unless it is open.
func (r *Ring) listen(ctx context.Context) error {
	if r.control != nil {
		return nil
	}
	control, err := bootstrap.Open(ctx, r.controlConfig())
	if err == nil {
		r.change(func() { r.control = control })
	}
	return err
}

// controlConfig is what the control ring is opened with.
func (r *Ring) controlConfig() bootstrap.Config {
	return bootstrap.Config{
		List: r.nodes, Rank: r.rank, Names: r.names, Addrs: r.addrs, Bind: locality.Bind(r.nodes, r.addrs, r.rank, locality.IsLocal),
		Death: r.opts.Death, Silence: r.opts.Silence, Moved: r.movedWith,
		OnFailure: func(v *Verdict) { r.setFailed(v); r.settle(v) }, Answer: r.answer, ByHand: r.opts.ByHand,
		Whole: r.whole, Without: r.opts.Without, Decision: r.opts.Decision, Follows: r.opts.Follows, Diagnosing: r.opts.Diagnosing,
		Review: r.duplicates, History: r.opts.History, Waits: r.opts.Waits, Token: r.opts.Token, Listen: r.opts.Listen, Dial: r.opts.Dial,
	}
}
