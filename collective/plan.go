package collective

import (
	"cmp"
	"fmt"
	"math"

	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/ring/bootstrap"
)

const (
	// DefaultDepth segments in flight: one is received, one reduced, one sent,
	// and one makes up for the latency of RTS and CTS.
	DefaultDepth = 4
	// MaxDepth keeps a neighbour's messages within the receives that ring keeps
	// posted: at most 2*16 RTS or FIN, 16 CTS or writes, and the slots.
	MaxDepth = 16
	// maxSegment is what one work request may carry and one header may say.
	maxSegment = 1 << 30
	// Automatic rendezvous segments: as many as there may be in flight, but not
	// so short that the system calls and messages of each weigh more than its
	// data, nor so long that a group leaves the L2 cache. On soft:lo 2 MiB on two
	// ranks take 0.7 ms in segments of 256 KiB, 1.0 ms of 128, 1.3 ms of 64 and
	// 1.8 ms of 32.
	autoSegmentMin = 128 << 10
	autoSegmentMax = 256 << 10
	// eagerSegmentMax is that of eager ones. At a path MTU of 4096 it takes 60 packets
	// with its header, which soft gives to the kernel in one system call, and the last
	// has room for immediate data: were it as long as the others without, it would be a
	// send of its own. Against 256 KiB that is 3 to 8 % from 4 MiB on.
	eagerSegmentMax = 60*4096 - 128
	// maxPositions is what fits the immediate data beside its flag.
	maxPositions = 1<<31 - 1
)

// DefaultEagerMax is where the copy out of a slot begins to cost more than the
// round trip of RTS and CTS: on soft:lo, with two and with four ranks, eager is
// ahead at chunks of 128 KiB, level at 256, and behind at 1 MiB and above. An
// all-reduce that copies nothing out of slots is eager at any length (see call.places):
// there it is 6 to 20 % ahead of rendezvous from 1 to 64 MiB.
const DefaultEagerMax = 256 << 10

// CallOptions are a call's own. All ranks must give the same. The zero value
// lets the library choose.
type CallOptions struct {
	// Algorithm is what the table says if it is AlgorithmAuto. The inbox is for up to
	// MaxInboxRanks.
	Algorithm Algorithm
	Protocol  Protocol
	// Segment is the length of a segment in bytes, rounded down to whole
	// elements, and under eager, which all algorithms but the ring use, limited to a
	// slot. 0 chooses. Direct chooses always, and has no depth.
	Segment int
	// Depth is the number of segments in flight, 1 to MaxDepth: with 1 nothing
	// is received or sent while a segment is reduced. 0 is DefaultDepth.
	Depth int
	// Sync puts a barrier between the two phases of all-reduce round the ring, which
	// AlgorithmAuto then takes. Other operations and algorithms ignore it.
	Sync bool
}

// Plan is how an operation is going to run: a pure function of the call, the
// ring's size, the length of a slot and the table, so that all ranks come to
// the same without asking.
type Plan struct {
	Algorithm Algorithm // not AlgorithmAuto
	Protocol  Protocol  // not Auto
	Segment   int       // bytes; 0 under Direct, as the two below
	Segments  int       // of each chunk
	Depth     int
}

// ground is what the ranks of a ring know of it alike, after Agree.
type ground struct {
	ranks  int
	slot   int    // payload of a slot of the ring's edges in bytes
	slots  int    // of an edge of the ring
	soft   bool   // some rank has a device in software, where a message costs system calls
	agreed bool   // the ranks have
	apart  string // then: why a rank cannot read all others' memory; "" if all can
}

// direct tells whether Direct is to be had.
func (g *ground) direct() bool { return g.agreed && g.apart == "" }

// plan makes a call out of what the caller wants.
func plan(op Operation, count int, t reduce.Type, red reduce.Op, g ground, table Table, o CallOptions) (call, error) {
	ranks := g.ranks
	bad := func(format string, args ...any) (call, error) {
		return call{}, bootstrap.Usagef("%s: %s", op, fmt.Sprintf(format, args...))
	}
	switch {
	case !t.Valid():
		return bad("%s: expected one of %v", t, reduce.Types())
	case op.reduces() && !red.Valid():
		return bad("%s: expected one of %v", red, reduce.Ops())
	case count < 0:
		return bad("count %d: expected 0 or more elements", count)
	case count > math.MaxInt64/max(ranks, t.Size()):
		return bad("count %d of %s: more than an address space holds", count, t)
	case !o.Algorithm.Valid():
		return bad("%s: expected one of %v", o.Algorithm, Algorithms())
	case !o.Protocol.valid():
		return bad("%s: expected one of %v", o.Protocol, Protocols())
	case o.Depth < 0 || o.Depth > MaxDepth:
		return bad("depth %d: expected 1 to %d segments, or 0 for %d", o.Depth, MaxDepth, DefaultDepth)
	case o.Segment < 0 || o.Segment > maxSegment || o.Segment > 0 && o.Segment < t.Size():
		return bad("segment of %d bytes: expected %d (one %s) to %d, or 0 to choose", o.Segment, t.Size(), t, maxSegment)
	}
	c := call{op: op, typ: t, algorithm: o.Algorithm, protocol: o.Protocol, depth: uint8(o.Depth), count: uint64(count)}
	if c.algorithm == AlgorithmAuto {
		c.algorithm, c.protocol = table.choose(op, g, int64(count)*int64(t.Size()), o)
	}
	if c.protocol == Auto && g.direct() && c.algorithm.carriedBy(Direct) {
		c.protocol = Direct
	}
	switch {
	case !c.algorithm.carriedBy(c.protocol):
		return bad("%s by %s: %s", c.algorithm, c.protocol, carriers(c.protocol))
	case ranks > c.algorithm.maxRanks():
		return bad("%s on %d ranks: expected at most %d", c.algorithm, ranks, c.algorithm.maxRanks())
	case c.protocol == Direct && g.agreed && g.apart != "":
		return bad("%s by %s: the ranks do not share memory: %s", c.algorithm, c.protocol, g.apart)
	case ranks == 1 || op == OpBarrier:
		c.algorithm = AlgorithmRing
	}
	if op.reduces() {
		c.red = red
	}
	c.sync = o.Sync && op == OpAllReduce && c.algorithm == AlgorithmRing
	if c.protocol == Direct {
		c.depth = 0
		return c, nil
	}
	if c.depth == 0 {
		c.depth = DefaultDepth
	}
	if c.algorithm != AlgorithmRing {
		return c.cutFor(ranks, o.Segment)
	}
	chunk := (count + ranks - 1) / ranks * t.Size() // of the longest, in bytes
	asked := c.protocol
	if asked == Auto {
		c.protocol = Eager
	}
	c.cutChunks(chunk, o.Segment, g.slot)
	eagerMax := cmp.Or(table.EagerMax, DefaultEagerMax)
	if asked == Auto && chunk > eagerMax && (table.EagerMax != 0 || !c.places(ranks, g.slots)) {
		c.protocol = RendezvousWrite
		c.cutChunks(chunk, o.Segment, g.slot)
	}
	if s := c.schedule(ranks, 2*ranks-2); s.positions() > maxPositions {
		return bad("%d bytes in segments of %d: more than %d transfers; use a longer segment", count*t.Size(), c.segment, maxPositions)
	}
	return c, nil
}

// cutChunks chooses the segments of chunks of so many bytes, as long as was asked for
// if that is not 0.
func (c *call) cutChunks(chunk, segment, slot int) {
	size := c.typ.Size()
	switch {
	case segment == 0 && c.protocol != Eager:
		const page = 4096
		segment = (chunk/int(c.depth) + page) / page * page
		segment = min(max(segment, autoSegmentMin), autoSegmentMax)
	case segment == 0:
		const line = 64
		most := min(slot, eagerSegmentMax)
		pieces := max(1, (chunk+most-1)/most)
		segment = min(most, (chunk/pieces+line)/line*line)
	case c.protocol == Eager:
		segment = min(segment, slot)
	}
	c.segment = uint32(max(min(segment, chunk), size) / size * size)
}

// places tells whether results go straight into the receive buffers. They do in the
// second half of an eager all-reduce round the ring, where the right neighbour needs no
// asking: a result has its contribution in it, so it has begun. Nor do credits travel:
// the result of a segment says that its slot was emptied. So there must be a slot for
// each step of a group of segments in the first half, beside those whose credit an
// operation before it has not brought: in a larger ring, results are copied out of slots.
func (c *call) places(ranks, slots int) bool {
	return c.op == OpAllReduce && c.algorithm == AlgorithmRing && c.protocol == Eager && !c.sync &&
		(ranks-1)*min(int(c.depth), c.segments(ranks))+int(creditBatch(uint64(slots)))-1 <= slots
}

// cutFor completes a call of another algorithm than the ring: segments fit the
// slots of a mesh's edges.
func (c call) cutFor(ranks, segment int) (call, error) {
	c.protocol = Eager
	if segment == 0 {
		segment = ring.MeshSlotSize
	}
	size := c.typ.Size()
	bytes := int(c.count) * size
	c.segment = uint32(max(min(segment, ring.MeshSlotSize, bytes), size) / size * size)
	if pieces := bytes/int(c.segment) + ranks; pieces > maxPositions {
		return call{}, bootstrap.Usagef("%s: %d bytes in segments of %d: more than %d transfers; use a longer segment", c.op, bytes, c.segment, maxPositions)
	}
	return c, nil
}

// segments returns how many segments a call has of each chunk, or of the vector
// where that is not cut by chunks.
func (c *call) segments(ranks int) int {
	if c.protocol == Direct {
		return 0
	}
	if c.algorithm == AlgorithmRing {
		s := c.schedule(ranks, 1)
		return s.segments
	}
	return newCut(c, ranks, c.op == OpAllReduce).groups
}

// schedule returns the layout of a program in which a segment moves so often.
func (c *call) schedule(ranks, transfers int) schedule {
	s := schedule{
		ranks: ranks, count: int(c.count), perSegment: int(c.segment) / c.typ.Size(),
		depth: int(c.depth), transfers: transfers,
	}
	chunk := (s.count + s.ranks - 1) / s.ranks
	s.segments = max(1, (chunk+s.perSegment-1)/s.perSegment)
	return s
}
