package lab

import (
	"fmt"
	"strings"

	"ringcli/cli/endpoint"
	"ringcli/verbs"
)

// process is one process's device and what both of its labs share of it.
type process struct {
	endpoint.Endpoint
	o *Options
}

func newProcess(o *Options) *process {
	return &process{Endpoint: endpoint.Endpoint{Options: o.Options}, o: o}
}

// cqDepth holds what both queue pairs can have outstanding, several times over.
const cqDepth = 16

// deviceValues are what the device, its port and the GID that was chosen say.
func (e *process) deviceValues(v *Values) {
	p := e.Port.Attr
	v.add("device", "%s", e.Name())
	v.add("port", "%d", e.Port.Num)
	v.add("state", "%s", p.State)
	v.add("link_layer", "%s", p.LinkLayer)
	v.add("active_mtu", "%s", p.ActiveMTU)
	v.add("lid", "%d", p.LID)
	v.add("gid_index", "%d", e.GID.Entry.Index)
	v.add("gid", "%s", e.GID.Entry.GID)
	v.add("gid_type", "%s", e.GID.Entry.Type)
}

// pair is a queue pair with its memory.
type pair struct {
	*endpoint.Pair
	process *process
	index   int // 0 or 1: the lab's end
}

func (e *process) newPair(index int) *pair { return &pair{e.NewPair(), e, index} }

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

func (p *pair) register() error { return p.Register(uint64(parts*p.process.o.Bytes), access) }

func (p *pair) memoryValues(v *Values) {
	v.add("addr", "%#x", p.MR.Addr())
	v.add("length", "%d", p.MR.Length())
	v.add("lkey", "%#x", p.MR.LKey())
	v.add("rkey", "%#x", p.MR.RKey())
	v.add("access", "%s", strings.ReplaceAll(p.MR.Access().String(), ", ", "|"))
}

// part is a piece of the pair's memory.
func (p *pair) part(which int) []byte {
	n := p.process.o.Bytes
	return p.Block.Bytes()[which*n : (which+1)*n]
}

// partAddr is where a part of a region begins.
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
