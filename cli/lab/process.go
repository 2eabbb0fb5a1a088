package lab

import (
	"context"
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
		all := func() error {
			for i, p := range e.ends {
				if err := do(p, s.valuesOf(i)); err != nil {
					return err
				}
			}
			return nil
		}
		if e.control == nil {
			return all()
		}
		return e.control.together(ctx, s, s.Name, all)
	}
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
