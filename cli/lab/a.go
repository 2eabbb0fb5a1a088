package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"ringcli/verbs"
	"ringcli/verbs/route"
)

// A is lab A: two queue pairs of one process talk to each other. No socket carries
// what they need to know of one another, since one program knows both.
func A(ctx context.Context, o Options) (err error) {
	a := &labA{process: newProcess(&o)}
	defer func() { err = errors.Join(err, a.Close()) }()
	a.Options.Device, a.Local = deviceAlone(o.Device)
	return o.walk(ctx, a.steps())
}

type labA struct {
	*process
	ends [2]*pair
	info [2]ConnInfo
}

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
	for _, p := range verbs.Providers() {
		if p.Capabilities().Software {
			continue
		}
		devices, err := p.Devices()
		if err != nil {
			continue // `ringcli devices` says why
		}
		for _, d := range devices {
			if usable(d) {
				return d.Name(), netip.Addr{}
			}
		}
	}
	return route.Auto, loopback
}

func usable(d verbs.Device) bool {
	c, err := d.Open(verbs.OpenOptions{})
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }() // nothing was made in it
	p, err := route.QueryPort(c, 1)
	return err == nil && len(p.GIDs) > 0
}

// steps are those of the document, in its order.
func (a *labA) steps() []Step {
	var steps []Step
	add := func(name, call string, take func(context.Context, *Step) error) {
		steps = append(steps, Step{Name: name, Call: call, Explain: Explain("a: " + name), take: take})
	}
	both := func(do func(*pair) error, values func(*pair, *Values) error) func(context.Context, *Step) error {
		return func(_ context.Context, s *Step) error {
			for i, v := range []*Values{&s.Values, &s.Peer} {
				if err := do(a.ends[i]); err != nil {
					return err
				}
				if err := values(a.ends[i], v); err != nil {
					return err
				}
			}
			return nil
		}
	}
	in := func(state verbs.QPState) func(*pair, *Values) error {
		return func(p *pair, v *Values) error { return p.stateValues(v, state) }
	}
	add("device, port, GID", "ibv_open_device, ibv_query_port, ibv_query_gid",
		func(_ context.Context, s *Step) error {
			if err := a.Open(netip.Addr{}); err != nil {
				return err
			}
			a.ends = [2]*pair{a.newPair(0), a.newPair(1)}
			a.deviceValues(&s.Values)
			return nil
		})
	add("protection domain", "ibv_alloc_pd", func(_ context.Context, s *Step) error {
		if err := a.AllocPD(); err != nil {
			return err
		}
		s.Values.add("device", "%s", a.PD.Context().Device().Name())
		s.Values.add("max_pd", "%d", a.Attr.MaxPD)
		return nil
	})
	add("completion queue", "ibv_create_comp_channel, ibv_create_cq", func(_ context.Context, s *Step) error {
		if err := a.CreateCQ(cqDepth); err != nil {
			return err
		}
		// An empty poll proves the queue: what it says is how much is in it.
		n, err := a.CQ.Poll(make([]verbs.Completion, 1))
		s.Values.add("cqe", "%d", cqDepth)
		s.Values.add("completions", "%d", n)
		return err
	})
	add("register memory", "ibv_reg_mr", both((*pair).register, func(p *pair, v *Values) error {
		p.memoryValues(v)
		return nil
	}))
	add("create queue pairs", "ibv_create_qp", both((*pair).create, in(verbs.StateReset)))
	add("RESET to INIT", "ibv_modify_qp", both((*pair).toInit, in(verbs.StateInit)))
	add("INIT to RTR", "ibv_modify_qp", func(ctx context.Context, s *Step) error {
		for i, p := range a.ends {
			var err error
			if a.info[i], err = p.info(); err != nil {
				return err
			}
		}
		return both(func(p *pair) error { return p.toRTR(a.info[1-p.index], a.wrong(p)) }, in(verbs.StateRTR))(ctx, s)
	})
	add("RTR to RTS", "ibv_modify_qp", both(func(p *pair) error { return p.ToRTS() }, in(verbs.StateRTS)))
	add("post RECV", "ibv_post_recv", both((*pair).postRecv, func(p *pair, v *Values) error {
		v.add("wr_id", "%#x", p.wrID(verbs.WCRecv))
		v.add("addr", "%#x", partAddr(p.MR.Addr(), partReceive, a.o.Bytes))
		v.add("length", "%d", a.o.Bytes)
		v.add("lkey", "%#x", p.MR.LKey())
		return nil
	}))
	add("SEND there: ping", "ibv_post_send, ibv_poll_cq", func(ctx context.Context, s *Step) error { return a.send(ctx, s, 0) })
	add("SEND back: pong", "ibv_post_send, ibv_poll_cq", func(ctx context.Context, s *Step) error { return a.send(ctx, s, 1) })
	add("WRITE", "ibv_post_send (IBV_WR_RDMA_WRITE), ibv_poll_cq", func(ctx context.Context, s *Step) error { return a.oneSided(ctx, s, writing) })
	add("READ", "ibv_post_send (IBV_WR_RDMA_READ), ibv_poll_cq", func(ctx context.Context, s *Step) error { return a.oneSided(ctx, s, reading) })
	return steps
}

// wrong are the wrong values of a queue pair: it is 0 that has any.
func (a *labA) wrong(p *pair) Wrong {
	if p.index == 0 {
		return a.o.Wrong
	}
	return Wrong{}
}

// send sends a message from one end, which the other takes and verifies.
func (a *labA) send(ctx context.Context, s *Step, from int) error {
	p, to := a.ends[from], a.ends[1-from]
	vs, vr := &s.Values, &s.Peer // queue pair 0's and 1's
	if from == 1 {
		vs, vr = vr, vs
	}
	fill(p.part(partSource), from, verbs.OpSend)
	if err := p.post(sending, a.info[1-from], a.wrong(p), vs); err != nil {
		return err
	}
	done, err := a.waitAll(ctx, nil, p.wrID(verbs.WCSend), to.wrID(verbs.WCRecv))
	if err != nil {
		return a.explain(p, err, sending)
	}
	completionValues(vs, done[0])
	completionValues(vr, done[1])
	return verify(to.part(partReceive), p, verbs.OpSend, vr)
}

// explain adds what the values of both ends have to do with a failure.
func (a *labA) explain(p *pair, err error, r request) error {
	err = p.diagnose(err, r, a.info[1-p.index], a.wrong(p))
	var d *Diagnosis
	if errors.As(err, &d) && p.index == 1 && r.op == verbs.OpSend {
		if text := lostPackets(a.o.Wrong, a.info[1]); text != "" {
			d.Causes = append(d.Causes, "at queue pair 0 "+text)
		}
	}
	return err
}

// oneSided reaches from queue pair 0 into queue pair 1's memory.
func (a *labA) oneSided(ctx context.Context, s *Step, r request) error {
	p, to := a.ends[0], a.ends[1]
	from := p // whose bytes travel
	into, v := to.part(partWritten), &s.Peer
	if r.op == verbs.OpRead {
		from, into, v = to, p.part(partRead), &s.Values
	}
	fill(from.part(partSource), from.index, r.op)
	if err := p.post(r, a.info[1], a.wrong(p), &s.Values); err != nil {
		return err
	}
	done, err := a.waitAll(ctx, nil, p.wrID(r.done))
	if err != nil {
		return a.explain(p, err, r)
	}
	completionValues(&s.Values, done[0])
	return verify(into, from, r.op, v)
}

// verify checks the bytes that came from an end, and says so.
func verify(got []byte, from *pair, op verbs.Opcode, v *Values) error {
	if err := check(got, from.index, op); err != nil {
		return err
	}
	v.add("verified", "%s", fmt.Sprintf("%d bytes", len(got)))
	return nil
}
