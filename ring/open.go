package ring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"ringcli/ring/bootstrap"
	"ringcli/trace"
	"ringcli/verbs"
)

// minSilence is three signs of life on the control ring, one a second: however
// short the waits are to be, a neighbour that computes is not given up.
const minSilence = 3 * time.Second

// Open binds the TCP listener, chooses the local address and opens the device,
// with a protection domain, a completion queue for both edges and its channel.
func (r *Ring) Open(ctx context.Context) error {
	return r.step(ctx, StateOpened, Values{}, func(ctx context.Context) (err error) {
		defer func() {
			if err != nil && r.opts.ByHand && !r.Failed() {
				err = errors.Join(err, r.release(StateNew))
			}
		}()
		if r.addrs, err = bootstrap.Resolve(ctx, r.nodes); err != nil {
			return err
		}
		if r.local, err = localAddress(r.nodes, r.addrs, r.rank, isLocal, routeTo); err != nil {
			return err
		}
		control, err := bootstrap.Open(ctx, bootstrap.Config{
			List: r.nodes, Rank: r.rank, Addrs: r.addrs, Bind: bindAddress(r.nodes, r.addrs, r.rank, isLocal),
			Epoch: firstEpoch, Silence: max(r.opts.Timeout, minSilence), Moved: r.moved.Load,
			OnFailure: func(v *Verdict) { r.setFailed(v) }, Answer: r.answer, ByHand: r.opts.ByHand,
			Listen: r.opts.Listen, Dial: r.opts.Dial,
		})
		if err != nil {
			return err
		}
		r.mu.Lock()
		r.control = control
		r.mu.Unlock()
		if err := r.openDevice(); err != nil {
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

func (r *Ring) openDevice() error {
	name := r.opts.Device
	if name == "auto" {
		netdev, err := netdevOf(r.local)
		if err != nil {
			return err
		}
		name = "soft:" + netdev
	}
	device, err := verbs.Find(name)
	if err != nil {
		return usageIf(err, verbs.ErrNoDevice)
	}
	if r.context, err = device.Open(verbs.OpenOptions{LocalAddr: r.local, UDPPort: r.opts.UDPPort, Impair: r.opts.Impair}); err != nil {
		return usageIf(fmt.Errorf("open %s with address %s: %w", name, r.local, err), verbs.ErrInvalid)
	}
	if r.device, err = r.context.QueryDevice(); err != nil {
		return err
	}
	if r.port, err = r.context.QueryPort(r.opts.Port); err != nil {
		return usageIf(fmt.Errorf("port %d of %s: %w", r.opts.Port, name, err), verbs.ErrInvalid)
	}
	if r.port.State != verbs.PortActive {
		return fmt.Errorf("port %d of %s is %s: expected ACTIVE; is the link up?", r.opts.Port, name, r.port.State)
	}
	if r.gid, err = r.chooseGID(); err != nil {
		return err
	}
	if r.pd, err = r.context.AllocPD(); err != nil {
		return err
	}
	if r.channel, err = r.context.CreateCompChannel(); err != nil {
		return err
	}
	if r.cq, err = r.context.CreateCQ(2*(sendDepth+recvDepth), r.channel); err != nil {
		return err
	}
	trace.Debug(trace.Ring, "device open", slog.String("device", name), slog.String("address", r.local.String()),
		slog.String("gid", r.gid.GID.String()), slog.Int("gid_index", r.gid.Index), slog.String("mtu", r.port.ActiveMTU.String()))
	return nil
}

// chooseGID returns the entry that was asked for, or the RoCEv2 entry of the
// local address.
func (r *Ring) chooseGID() (verbs.GIDEntry, error) {
	if r.opts.GIDIndex != nil {
		g, err := r.context.QueryGID(r.opts.Port, *r.opts.GIDIndex)
		if err == nil && g.GID.IsZero() {
			err = fmt.Errorf("the entry is empty: %w", verbs.ErrInvalid)
		}
		if err != nil {
			return g, bootstrap.Usagef("gid-index %d of port %d: %v: expected one of 0 to %d that is in use (ringcli devices lists them)",
				*r.opts.GIDIndex, r.opts.Port, err, r.port.GIDTableSz-1)
		}
		return g, nil
	}
	want := verbs.GIDFromAddr(r.local)
	for i := range r.port.GIDTableSz {
		g, err := r.context.QueryGID(r.opts.Port, i)
		if err == nil && g.GID == want && g.Type == verbs.GIDTypeRoCEv2 {
			return g, nil
		}
	}
	return verbs.GIDEntry{}, bootstrap.Usagef("no RoCE v2 GID of %s has the address %s: choose one with --gid-index, or another --device (ringcli devices lists them)",
		r.context.Device().Name(), r.local)
}

// usageIf makes err an error of usage if it is one of kind.
func usageIf(err, kind error) error {
	if errors.Is(err, kind) {
		return fmt.Errorf("%w%w", err, silentUsage{})
	}
	return err
}

// silentUsage adds ErrUsage to an error without adding text.
type silentUsage struct{}

func (silentUsage) Error() string        { return "" }
func (silentUsage) Is(target error) bool { return target == ErrUsage }
