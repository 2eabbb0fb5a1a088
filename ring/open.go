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
	o := &opening{r}
	return stepTo(r, StateOpened, Values{}).take(ctx, func(ctx context.Context, _ Token) (err error) {
		defer func() {
			if err != nil && r.opts.ByHand && !r.Failed() {
				err = errors.Join(err, r.release(StateNew))
			}
		}()
		if err := o.resolve(ctx); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, r.Timeout()) // of its own: names may have taken long
		defer cancel()
		if err := r.host.untilUp(ctx, func() (err error) {
			if r.host.local, err = locality.Address(r.nodes, r.host.addrs, r.rank, locality.IsLocal, route.Source); err != nil && r.host.comesUp(err) {
				if err := o.resolve(ctx); err != nil { // the order of a name's addresses depends on the routes
					return err
				}
			}
			return err
		}); err != nil {
			return err
		}
		r.memory.shared.Store(r.host.shares())
		affinity, err := locality.Affinity(r.opts.Wait, r.opts.CPUs, r.host.addrs, r.rank)
		if err != nil {
			return err
		}
		r.table.change(func() { r.control.affinity = affinity })
		if err := r.host.untilUp(ctx, func() error { return o.listen(ctx) }); err != nil {
			return err
		}
		if err := r.faults.Inject(r.opts.Inject); err != nil {
			return err
		}
		if err := r.host.untilUp(ctx, r.devices.openExpected); err != nil {
			return err
		}
		r.table.mu.Lock()
		defer r.table.mu.Unlock()
		if r.table.state == StateNew {
			r.table.state = StateOpened
		}
		return nil
	})
}

// opening is a call of Open.
type opening struct{ r *Ring }

// listen opens the control ring, unless it is open.
func (o *opening) listen(ctx context.Context) error {
	r := o.r
	if r.control.boot != nil {
		return nil
	}
	control, err := bootstrap.Open(ctx, o.config())
	if err == nil {
		r.table.change(func() { r.control.boot = control })
	}
	return err
}

// config is what the control ring is opened with.
func (o *opening) config() bootstrap.Config {
	r := o.r
	return bootstrap.Config{
		List: r.nodes, Rank: r.rank, Names: r.names, Addrs: r.host.addrs, Bind: locality.Bind(r.nodes, r.host.addrs, r.rank, locality.IsLocal),
		Death: r.opts.Death, Silence: r.opts.Silence, Moved: r.poll.movedWith,
		OnFailure: func(v *Verdict) { r.table.fail(v); r.failure.settle(v) }, Answer: (&answers{r}).answer, ByHand: r.opts.ByHand,
		Whole: r.whole, Without: r.opts.Without, Decision: r.opts.Decision, Follows: r.opts.Follows, Diagnosing: r.opts.Diagnosing,
		Review: r.host.duplicates, History: r.opts.History, Waits: r.opts.Waits, Token: r.opts.Token, Listen: r.opts.Listen, Dial: r.opts.Dial,
	}
}
