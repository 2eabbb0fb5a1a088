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
	"ringcli/verbs/path"
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

// openDevice resolves the device's name, opens it and makes what both edges share.
func (r *Ring) openDevice() error {
	device, why, err := path.Device(r.opts.Device, r.local)
	if err != nil {
		return usageIf(usageIf(err, verbs.ErrNoDevice), verbs.ErrInvalid)
	}
	r.deviceWhy = why
	name := device.Name()
	r.mishaps.begin(name)
	r.context, err = device.Open(verbs.OpenOptions{LocalAddr: r.local, UDPPort: r.opts.UDPPort, Impair: r.opts.Impair, OnEvent: r.event})
	if err != nil {
		return usageIf(fmt.Errorf("open %s with address %s: %w", name, r.local, err), verbs.ErrInvalid)
	}
	if r.device, err = r.context.QueryDevice(); err != nil {
		return err
	}
	if err := enough(name, r.device, len(r.nodes)); err != nil {
		return err
	}
	if r.port, err = path.QueryPort(r.context, r.opts.Port); err != nil {
		return usageIf(err, verbs.ErrInvalid)
	}
	if err := r.chooseGID(); err != nil {
		return err
	}
	if r.pd, err = r.context.AllocPD(); err != nil {
		return err
	}
	if r.channel, err = r.context.CreateCompChannel(); err != nil {
		return err
	}
	if r.cq, err = r.context.CreateCQ(completions(len(r.nodes)), r.channel); err != nil {
		return err
	}
	trace.Debug(trace.Ring, "device open", slog.String("device", name), slog.String("why", why), slog.String("address", r.local.String()),
		slog.String("gid", r.gid.Entry.GID.String()), slog.Int("gid_index", r.gid.Entry.Index), slog.String("gid_why", r.gid.Reason),
		slog.String("mtu", r.port.Attr.ActiveMTU.String()))
	for _, x := range r.gid.Rejected {
		trace.Debug(trace.Ring, "GID not taken", slog.Int("gid_index", x.Index), slog.String("gid", x.GID.String()), slog.String("why", x.Reason))
	}
	if r.device.VendorID == rxeVendor && *r.opts.RetryCnt == 7 {
		trace.Warn(trace.Ring, "retry-cnt 7 never ends on rdma_rxe: a neighbour that is gone is noticed by the control ring alone; use at most 6",
			slog.String("device", name))
	}
	return nil
}

// rxeVendor is rdma_rxe's vendor ID (Linux drivers/infiniband/sw/rxe/rxe_param.h).
const rxeVendor = 0xffffff

// completions is the capacity of the completion queue of a rank of a ring of n: for
// all requests on its two edges and on those of a mesh.
func completions(n int) int { return 2*(sendDepth+recvDepth) + meshMost(n)*(meshSend+meshRecv) }

// enough tells whether a device can do what the edges of a rank of a ring of n
// need. A limit of 0 is one that the device does not tell.
func enough(name string, d verbs.DeviceAttr, n int) error {
	edges := 2 + meshMost(n)
	for _, l := range []struct {
		attribute string
		has, need int
	}{
		{"max_qp", d.MaxQP, edges}, {"max_qp_wr", d.MaxQPWR, max(sendDepth, recvDepth)}, {"max_cqe", d.MaxCQE, completions(n)},
		{"max_sge", d.MaxSGE, sendSGEs}, {"max_mr", d.MaxMR, 2 * edges},
	} {
		if l.has > 0 && l.has < l.need {
			return bootstrap.Usagef("%s has %s %d: a ring of %d needs at least %d: use another --device", name, l.attribute, l.has, n, l.need)
		}
	}
	return nil
}

// chooseGID takes the row of the GID table that was asked for, or the best for the
// way to both neighbours.
func (r *Ring) chooseGID() (err error) {
	w := path.Want{Index: r.opts.GIDIndex, Local: r.local}
	for _, side := range bothSides {
		if peer := r.neighbour(side); peer != r.rank {
			w.Peers = append(w.Peers, r.addrs[peer].Addr())
		}
	}
	r.gid, err = r.port.Choose(w)
	return usageIf(err, verbs.ErrInvalid)
}

// DeviceWhy says why the device is the one that it is, after Open.
func (r *Ring) DeviceWhy() string { return r.deviceWhy }

// GIDChoice returns the row of the GID table that both edges use, why it was taken
// and why the others were not, after Open.
func (r *Ring) GIDChoice() path.Choice { return r.gid }

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
