package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"ringcli/cli/endpoint"
	"ringcli/verbs"
	"ringcli/verbs/gpu"
)

// process is one process's part in a lab: its device and queue pairs.
type process struct {
	endpoint.Endpoint
	o       *Options
	ends    []*pair  // of one process it has both, else its own
	control *control // of two processes: to the other end, once they have met
	facing  Values   // so: what the peer's queue pair said in RTR, whom it expects
}

func newProcess(o *Options) *process {
	return &process{Endpoint: endpoint.Endpoint{Options: o.Options}, o: o}
}

// cqDepth holds what both queue pairs can have outstanding, several times over.
const cqDepth = 16

// each does a part of a step with every queue pair of this process, in lab C
// together with the other end once they have met.
func (e *process) each(do func(*pair, *Values) error) func(context.Context, *Step) error {
	return func(ctx context.Context, s *Step) error {
		return e.phase(ctx, s, s.Name, do)
	}
}

// phase does a part of a step with every queue pair of this process, together with the other end.
func (e *process) phase(ctx context.Context, s *Step, name string, do func(*pair, *Values) error) error {
	return e.together(ctx, s, name, func() error {
		for i, p := range e.ends {
			if err := do(p, s.valuesOf(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// together does a part of a step, in lab C with the other end once they have met.
func (e *process) together(ctx context.Context, s *Step, phase string, do func() error) error {
	if e.control == nil {
		return do()
	}
	return e.control.together(ctx, s, phase, do)
}

// oneSided lets an end reach into the other's memory, and whoever got the bytes verify them.
func (e *process) oneSided(ctx context.Context, s *Step, r request, from int) error {
	phase := fmt.Sprintf("%s by rank %d", s.Name, from)
	parts := []struct {
		phase string
		do    func(p *pair, v *Values) error
	}{
		{phase + ": ready", func(p *pair, _ *Values) error { return p.source(ctx, r.op) }}, // the bytes must be there before they are read
		{phase, func(p *pair, v *Values) error {
			if p.index != from {
				return nil
			}
			if err := p.post(r, v); err != nil {
				return err
			}
			done, err := e.waitAll(ctx, p.wrID(r.done))
			completionValues(v, done...)
			return e.explain(p, err, r)
		}},
		{phase + ": verified", func(p *pair, v *Values) error {
			switch {
			case p.index == from && r.op == verbs.OpRead:
				return p.verify(ctx, partRead, r.op, v)
			case p.index != from && r.op == verbs.OpWrite:
				return p.verify(ctx, partWritten, r.op, v)
			}
			return nil
		}},
	}
	for _, part := range parts {
		if err := e.phase(ctx, s, part.phase, part.do); err != nil {
			if a, _, wrong := e.ends[0].QP.Query(); wrong == nil && e.control != nil {
				s.Values.add("state", a.State)
			}
			return err
		}
	}
	return nil
}

// explain adds to a failure what the values of both ends have to do with it.
func (e *process) explain(p *pair, err error, r request) error {
	err = p.diagnose(err, r)
	d, ok := errors.AsType[*Diagnosis](err)
	if !ok || r.op != verbs.OpSend {
		return err
	}
	for _, end := range e.ends {
		if text := end.lostPackets(); text != "" && e.control == nil {
			d.Causes = append(d.Causes, fmt.Sprintf("at queue pair %d %s", end.index, text))
		} else if text != "" {
			d.Causes = append(d.Causes, text)
		}
	}
	if e.control == nil {
		return err
	}
	for _, a := range []struct{ name, is string }{{"rq_psn", verbs.Hex(p.own.PSN)}, {"dest_qp_num", verbs.Hex(p.own.QPN)}} {
		if its := e.facing.Get(a.name); its != a.is {
			d.Causes = append(d.Causes, fmt.Sprintf("rank %d's queue pair has %s %s, and this end's is %s", 1-p.index, a.name, its, a.is))
		}
	}
	return err
}

// openDevice opens the device and says what it, its port and the GID that was
// chosen say.
func (e *process) openDevice(peer netip.Addr, v *Values) error {
	if err := e.Open(peer); err != nil {
		return err
	}
	p := e.Port.Attr
	v.add("device", e.Name(), "port", e.Port.Num, "state", p.State, "link_layer", p.LinkLayer, "active_mtu", p.ActiveMTU, "lid", p.LID)
	v.add("gid_index", e.GID.Entry.Index, "gid", e.GID.Entry.GID, "gid_type", e.GID.Entry.Type)
	return nil
}

// pair is a queue pair with its memory.
type pair struct {
	*endpoint.Pair
	process   *process
	index     int      // 0 or 1: the lab's end
	own, peer ConnInfo // what this end and its peer say of themselves
	wrong     Wrong
	region    *gpu.Region // lab D: the memory, of a GPU
}

// addPair adds the queue pair of an end, of which nothing exists yet.
func (e *process) addPair(index int, wrong Wrong) *pair {
	p := &pair{Pair: e.NewPair(), process: e, index: index, wrong: wrong}
	e.ends = append(e.ends, p)
	return p
}

// access is what a peer may do to a lab's memory.
const access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead

// The parts of a pair's memory, each of Options.Bytes.
const (
	partSource = iota // what is sent, written, and read by the peer
	partReceive
	partWritten // the peer WRITEs here
	partRead    // a READ lands here
	parts
)

func partAddr(base uint64, which, bytes int) uint64 { return base + uint64(which*bytes) }

// fill writes what an end sends in a step, and check tells whether it came: each
// end and each operation has bytes of its own, and no stretch of 251 repeats at a
// power of two.
func fill(b []byte, end int, op verbs.Opcode) {
	for i := range b {
		b[i] = patternAt(i, end, op)
	}
}

func check(b []byte, end int, op verbs.Opcode) error {
	for i, got := range b {
		if want := patternAt(i, end, op); got != want {
			return fmt.Errorf("wrong data: byte %d of %d of end %d's %s is %#02x, expected %#02x", i, len(b), end, op, got, want)
		}
	}
	return nil
}

func patternAt(i, end int, op verbs.Opcode) byte { return byte(1 + (i+83*end+31*int(op))%251) }
