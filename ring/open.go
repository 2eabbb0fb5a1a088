package ring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"

	"ringcli/ring/bootstrap"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/locality"
	"ringcli/trace"
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

// resolve finds the addresses of the list. A name may get its address later: while one has none,
// this rank listens already, so that other ranks learn that it is up, and what it waits for.
func (o *opening) resolve(ctx context.Context) error {
	r := o.r
	ctx, cancel := context.WithTimeout(ctx, max(r.Timeout(), r.opts.Patience))
	defer cancel()
	all, err := hosts.Resolve(ctx, r.nodes, func(known [][]netip.AddrPort) {
		r.host.addrs = hosts.First(known, r.nodes)
		first := slices.IndexFunc(known, func(a []netip.AddrPort) bool { return len(a) == 0 })
		if r.control.boot == nil && o.mayListen(ctx) {
			if err := o.listen(ctx); err != nil {
				trace.Debug(trace.Ring, "not listening yet", slog.Any("error", err)) // the step after this one tries again
			}
		}
		if r.control.boot != nil {
			r.control.boot.SetState(fmt.Sprintf("open: its host knows no address of %q yet", r.nodes[first].Host))
		}
	})
	if err != nil {
		return err
	}
	r.host.addrs = r.host.choose(ctx, all)
	if r.control.boot != nil {
		r.control.boot.SetAddrs(r.host.addrs)
		r.control.boot.SetState("open")
	}
	return nil
}

// mayListen tells whether the control ring's port is free. The names that are missing may narrow
// the addresses to listen on, so a port in use is no error yet.
func (o *opening) mayListen(ctx context.Context) bool {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.config().Bind.String())
	if err != nil {
		return false
	}
	return l.Close() == nil
}
