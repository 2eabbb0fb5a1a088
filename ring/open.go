package ring

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/locality"
	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/cpu"
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
		if r.addrs, err = hosts.Resolve(ctx, r.nodes); err != nil {
			return err
		}
		if r.local, err = locality.Address(r.nodes, r.addrs, r.rank, locality.IsLocal, route.Source); err != nil {
			return err
		}
		affinity, err := affinityHere(&r.opts, r.addrs, r.rank)
		if err != nil {
			return err
		}
		r.change(func() { r.affinity = affinity })
		control, err := bootstrap.Open(ctx, bootstrap.Config{
			List: r.nodes, Rank: r.rank, Addrs: r.addrs, Bind: locality.Bind(r.nodes, r.addrs, r.rank, locality.IsLocal),
			Death: r.opts.Death, Silence: r.opts.Silence, Moved: func() uint64 { return r.moved.Load() + r.tokens.operations() },
			OnFailure: func(v *Verdict) { r.setFailed(v); r.settle(v) }, Answer: r.answer, ByHand: r.opts.ByHand,
			Whole: r.whole, Without: r.opts.Without, Decision: r.opts.Decision, Follows: r.opts.Follows,
			History: r.opts.History, Waits: r.opts.Waits, Token: r.opts.Token, Listen: r.opts.Listen, Dial: r.opts.Dial,
		})
		if err != nil {
			return err
		}
		r.change(func() { r.control = control })
		if err := r.Inject(r.opts.Inject); err != nil {
			return err
		}
		if err := r.devices.openExpected(ctx); err != nil {
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

// affinityHere chooses the CPU of one of the ranks of this host. Those that share a process
// have no threads of their own, and a rank that has the host for itself shares no memory
// with another.
func affinityHere(o *Options, addrs []netip.AddrPort, own int) (*cpu.Affinity, error) {
	cpus, err := o.cpus()
	if o.Wait != verbs.WaitYield || len(cpus) == 0 {
		return nil, err
	}
	index, here := 0, 0
	for rank, a := range addrs {
		if !locality.IsLocal(a.Addr()) {
			continue
		}
		if rank < own {
			index++
		}
		here++
	}
	if o.CPUs == cpusAuto && (here < 2 || len(cpus) < 2) {
		return nil, nil
	}
	affinity := cpu.NewAffinity(cpus, index, here)
	if affinity != nil {
		trace.Debug(trace.Ring, "CPU affinity", slog.Int("cpu", affinity.CPU()), slog.Int("ranks_here", here))
	}
	return affinity, nil
}

// What Options.CPUs may be beside a list.
const cpusAuto, cpusNone = "auto", "none"

// cpus lists those that ranks of this host take, in turn.
func (o *Options) cpus() ([]int, error) {
	switch o.CPUs {
	case cpusNone:
		return nil, nil
	case cpusAuto:
		cpus, err := cpu.Near()
		if err != nil {
			trace.Debug(trace.Ring, "no CPU affinity", slog.Any("error", err))
		}
		return cpus, nil
	}
	cpus, err := cpu.ParseList(o.CPUs)
	if err != nil {
		return nil, usage.Errorf("cpus is %q: %v, auto or none", o.CPUs, err)
	}
	allowed, err := cpu.Allowed()
	if err != nil {
		return nil, err
	}
	for _, c := range cpus {
		if !slices.Contains(allowed, c) {
			return nil, usage.Errorf("cpus is %q: this process may not run on CPU %d, expected some of %s, auto or none", o.CPUs, c, cpu.FormatList(allowed))
		}
	}
	return cpus, nil
}
