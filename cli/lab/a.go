package lab

import (
	"context"
	"errors"
	"net/netip"
	"strings"

	"ringcli/verbs"
	"ringcli/verbs/route"
)

// A is lab A: two queue pairs of one process talk to each other. No socket carries
// what they need to know of one another, since one program knows both. With a GPU it
// is lab D within one process.
func A(ctx context.Context, o Options) (err error) {
	a := &labA{newProcess(&o)}
	defer func() { err = errors.Join(err, a.Close()) }()
	a.Options.Device, a.Local = deviceAlone(o.Device)
	return o.walk(ctx, a.steps())
}

type labA struct{ *process }

// deviceAlone chooses a device, and the address to speak from, where no peer's address
// tells which: the first with a port that is active and that is not in software, else
// what there is in software on the loopback interface.
func deviceAlone(device string) (name string, local netip.Addr) {
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if device != "" && device != route.Auto {
		if p, _, one := strings.Cut(device, ":"); !one && verbs.CapabilitiesOf(p).Software {
			return device, loopback // the provider's device of that interface
		}
		return device, netip.Addr{}
	}
	for _, d := range verbs.Devices() {
		if verbs.CapabilitiesOf(d.Name()).Software {
			continue
		}
		c, err := d.Open(verbs.OpenOptions{})
		if err != nil {
			continue
		}
		p, err := route.QueryPort(c, 1)
		_ = c.Close() // nothing was made in it
		if err == nil && len(p.GIDs) > 0 {
			return d.Name(), netip.Addr{}
		}
	}
	return route.Auto, loopback
}

// steps are those of the document, in its order.
func (a *labA) steps() []Step {
	return a.o.explained("a", []Step{
		{Name: "device, port, GID", Call: "ibv_open_device, ibv_query_port, ibv_query_gid", take: a.openBoth},
		{Name: "protection domain", Call: "ibv_alloc_pd", take: func(_ context.Context, s *Step) error {
			if err := a.AllocPD(); err != nil {
				return err
			}
			s.Values.add("device", a.Name(), "max_pd", a.Attr.MaxPD)
			return nil
		}},
		{Name: "completion queue", Call: "ibv_create_comp_channel, ibv_create_cq", take: func(_ context.Context, s *Step) error {
			if err := a.CreateCQ(cqDepth); err != nil {
				return err
			}
			// An empty poll proves the queue: what it says is how much is in it.
			n, err := a.CQ.Poll(make([]verbs.Completion, 1))
			s.Values.add("cqe", cqDepth, "completions", n)
			return err
		}},
		{Name: "register memory", Call: "ibv_reg_mr", take: a.each((*pair).register)},
		{Name: "create queue pairs", Call: "ibv_create_qp", take: a.each((*pair).create)},
		{Name: "RESET to INIT", Call: "ibv_modify_qp", take: a.each((*pair).toInit)},
		{Name: "INIT to RTR", Call: "ibv_modify_qp", take: func(ctx context.Context, s *Step) error {
			for _, p := range a.ends {
				if err := p.fillInfo(); err != nil {
					return err
				}
			}
			a.ends[0].peer, a.ends[1].peer = a.ends[1].own, a.ends[0].own
			return a.each((*pair).toRTR)(ctx, s)
		}},
		{Name: "RTR to RTS", Call: "ibv_modify_qp", take: a.each((*pair).toRTS)},
		{Name: "post RECV", Call: "ibv_post_recv", take: a.each(func(p *pair, v *Values) error {
			if err := p.postRecv(); err != nil {
				return err
			}
			v.add("wr_id", hex(p.wrID(verbs.WCRecv)), "addr", hex(partAddr(p.MR.Addr(), partReceive, a.o.Bytes)), "length", a.o.Bytes, "lkey", hex(p.MR.LKey()))
			return nil
		})},
		{Name: "SEND there: ping", Call: "ibv_post_send, ibv_poll_cq", take: func(ctx context.Context, s *Step) error { return a.send(ctx, s, 0) }},
		{Name: "SEND back: pong", Call: "ibv_post_send, ibv_poll_cq", take: func(ctx context.Context, s *Step) error { return a.send(ctx, s, 1) }},
		{Name: "WRITE", Call: callWrite, take: func(ctx context.Context, s *Step) error { return a.oneSided(ctx, s, writing, 0) }},
		{Name: "READ", Call: callRead, take: func(ctx context.Context, s *Step) error { return a.oneSided(ctx, s, reading, 0) }},
	})
}

// openBoth opens the device of both queue pairs: it is 0 that uses wrong values.
func (a *labA) openBoth(_ context.Context, s *Step) error {
	if err := a.openDevice(netip.Addr{}, &s.Values); err != nil {
		return err
	}
	a.addPair(0, a.o.Wrong)
	a.addPair(1, Wrong{})
	return nil
}

// send sends a message from one end, which the other takes and verifies.
func (a *labA) send(ctx context.Context, s *Step, from int) error {
	p, to := a.ends[from], a.ends[1-from]
	vs, vr := s.valuesOf(from), s.valuesOf(1-from)
	if err := p.source(ctx, verbs.OpSend); err != nil {
		return err
	}
	if err := p.post(sending, vs); err != nil {
		return err
	}
	done, err := a.waitAll(ctx, p.wrID(verbs.WCSend), to.wrID(verbs.WCRecv))
	if err != nil {
		return a.explain(p, err, sending)
	}
	completionValues(vs, done[0])
	completionValues(vr, done[1])
	return to.verify(ctx, partReceive, verbs.OpSend, vr)
}
