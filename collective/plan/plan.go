package plan

import (
	"cmp"
	"fmt"
	"math"

	"ringcli/collective/program"
	"ringcli/collective/reduce"
	"ringcli/collective/script"
	"ringcli/collective/topology"
	"ringcli/configs/usage"
	"ringcli/ring"
)

const (
	// DefaultDepth segments in flight: one is received, one reduced, one sent,
	// and one makes up for the latency of RTS and CTS.
	DefaultDepth = 4
	// hierarchicalDepth is that along hosts, where a segment goes through up to four transfers
	// and half of the depth is between the first two and the last two: see script.Walk.
	hierarchicalDepth = 8
	// MaxDepth keeps a neighbour's messages within the receives that ring keeps
	// posted: at most 2*16 RTS or FIN, 16 CTS or writes, and the slots.
	MaxDepth = script.MaxDepth
	// MaxSlots leaves receives for the neighbours' messages: ring keeps 128 posted
	// on an edge, and each slot that arrives takes one until it is polled.
	MaxSlots = 64
	// MaxSegment is what one work request may carry and one header may say.
	MaxSegment = 1 << 30
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
	// Along a chain of n ranks a vector takes (n-2 + segments) times what a segment takes on
	// an edge. With a latency in which an edge carries chainHop bytes, that is least with
	// segments of sqrt(bytes*chainHop/(n-2)): 3 us at 100 Gb/s, 12 us at the 2 to 3 GB/s of soft.
	chainHop        = 32 << 10
	chainSegmentMin = 4 << 10
	// maxPositions is what fits the immediate data beside its flag.
	maxPositions = 1<<31 - 1
)

// DefaultEagerMax is the longest chunk, in bytes, that goes without a handshake, by estimate:
// an adapter writes where it is told, at the cost of RTS and CTS, and the copy out of a slot takes
// a CPU. All-reduce is ReceiverInitiated at any length where it can be: on soft:lo that is 6 to
// 20 % ahead of the other rendezvous from 1 to 64 MiB.
const DefaultEagerMax = 256 << 10

// softEagerMax is that where a message costs system calls: there a CPU copies in any case, and
// a handshake is more messages. On soft:lo reduce-scatter takes 25 % less at chunks of 512 KiB
// on two ranks, and all-gather 18 %; from 1 to 16 MiB, with a root as well, on 2 to 16 ranks,
// 3 % less on average, of 14 % less to 16 % more.
const softEagerMax = 16 << 20

// eagerMax is the longest chunk that goes without a handshake where no table says so.
func (g *Agreement) eagerMax() int {
	if g.Software {
		return softEagerMax
	}
	return DefaultEagerMax
}

// CallOptions are a call's own. All ranks must give the same. The zero value
// lets the library choose.
type CallOptions struct {
	// Algorithm is what the table says if it is AlgorithmAuto. The inbox is for up to
	// MaxInboxRanks, or for ranks that share memory.
	Algorithm Algorithm
	Protocol  Protocol
	// Segment is the length of a segment in bytes, rounded down to whole
	// elements, and limited to a slot under ReceiverInitiated and under Eager, which
	// all algorithms but the ring use. 0 chooses. Direct chooses always, and has no depth.
	Segment int
	// Depth is the number of segments in flight, 1 to MaxDepth: with 1 nothing
	// is received or sent while a segment is reduced. 0 is DefaultDepth, or what
	// ReceiverInitiated has slots for.
	Depth int
	// Verify has each segment checked against a checksum that its sender made of it: whatever
	// changes between their memories is a CorruptionError that names the edge. Direct, which
	// sends no segments, is not to be had with it.
	Verify bool
	// Sync puts a barrier between the two phases of all-reduce round the ring, which
	// AlgorithmAuto then takes. Other operations and algorithms ignore it.
	Sync bool
}

// Agreement is what the ranks of a ring know of it alike, once they have told each other.
type Agreement struct {
	Ranks     int
	SlotSize  int             // payload of a slot of the ring's edges in bytes
	Slots     int             // of an edge of the ring
	Rails     bool            // some rank's channels are on several devices
	Software  bool            // some rank has a device in software, where a message costs system calls
	LinkMbps  int             // of the slowest port; 0 if none is known
	Turns     int             // how many ranks take turns on a CPU, where all share a host; 0 is not known
	Reached   bool            // the ranks have agreed
	NotShared string          // why a rank cannot read all others' memory, before that as far as this one knows; "" if all can
	Hosts     *topology.Hosts // once they have agreed: where the ranks are
	Within    bool            // and on each of several hosts they can read each other's memory
}

// Between tells whether a planned call goes along hosts with messages between them alone, and
// through memory within each. What is to be verified are messages.
func (g *Agreement) Between(k *Call) bool {
	return k.Algorithm == AlgorithmHierarchical && g.Within && !k.Verify
}

// notAlong says why nothing can go along the hosts; "" if it can.
func (g *Agreement) notAlong() string {
	switch {
	case g.Hosts == nil:
		return "it is not known which ranks share a host"
	case g.Hosts.Number() == 1 || g.Hosts.Most() == 1:
		return fmt.Sprintf("%s: expected several hosts, and several ranks on one of them; the setting hosts tells where ranks are that cannot know", g.Hosts)
	}
	if peers, most := g.Hosts.Peers(), ring.MeshMost(g.Ranks); peers > most {
		return fmt.Sprintf("on %s a rank has to do with %d others: expected at most %d", g.Hosts, peers, most)
	}
	return ""
}

// direct tells whether Direct is to be had.
func (g *Agreement) direct() bool { return g.Reached && g.NotShared == "" }

// InitiatedDepth is how many segments ReceiverInitiated can have in flight. No credits
// travel in it: the result of a segment says that its slot was emptied. So there must be
// a slot for each step of each of them in the first phase, beside those whose credit an
// operation before it has not brought.
func (g *Agreement) InitiatedDepth() int {
	if g.Ranks == 1 {
		return MaxDepth
	}
	return (g.Slots + 1 - int(CreditBatch(uint64(g.Slots)))) / (g.Ranks - 1)
}

// CreditBatch is how many slots are given back at a time.
func CreditBatch(slots uint64) uint64 { return max(1, slots/4) }

// NotVerified is why segments cannot be verified by Direct.
const NotVerified = "none is sent, each rank reads the others' memory in place, and a checksum would be made of the very bytes that it is compared with; expected another protocol, or auto"

// Plan returns a call as it runs: nothing is left to be chosen, and what means
// nothing to its operation is zero. It is a pure function of the call, the ring's
// size, the length of a slot and the table, so that all ranks come to the same without
// asking.
func (g Agreement) Plan(c Call, table Table) (Call, error) {
	ranks := g.Ranks
	bad := func(format string, args ...any) (Call, error) {
		return Call{}, usage.Errorf("%s: %s", c.Op, fmt.Sprintf(format, args...))
	}
	switch {
	case !c.Op.Valid():
		return bad("expected one of %v", Operations())
	case !c.Type.Valid():
		return bad("%s: expected one of %v", c.Type, reduce.Types())
	}
	size := c.Type.Size()
	if c.Verify = c.Verify && c.Op.OnVectors(); c.Verify {
		g.NotShared = "segments are to be verified"
	}
	switch {
	case c.Verify && c.Protocol == Direct:
		return bad("segments cannot be verified by %s: %s", Direct, NotVerified)
	case c.Op.Reduces() && !c.Reduction.Valid():
		return bad("%s: expected one of %v", c.Reduction, reduce.Ops())
	case c.Op.Rooted() && (c.Root < 0 || c.Root >= ranks):
		return bad("root %d: expected 0 to %d, a rank of the ring", c.Root, ranks-1)
	case !c.Op.Rooted() && c.Root != 0:
		return bad("root %d: expected 0 of an operation that has no root", c.Root)
	case c.Count != 0 && !c.Op.OnVectors():
		return bad("count %d: expected 0 of an operation that has no vector", c.Count)
	case c.Count < 0:
		return bad("count %d: expected 0 or more elements", c.Count)
	case c.Count > math.MaxInt64/max(ranks, size):
		return bad("count %d of %s: more than an address space holds", c.Count, c.Type)
	case !c.Algorithm.Valid():
		return bad("%s: expected one of %v", c.Algorithm, Algorithms())
	case !c.Protocol.valid():
		return bad("%s: expected one of %v", c.Protocol, Protocols())
	case c.Depth < 0 || c.Depth > MaxDepth:
		return bad("depth %d: expected 1 to %d segments, or 0 for %d", c.Depth, MaxDepth, DefaultDepth)
	case c.Segment < 0 || c.Segment > MaxSegment || c.Segment > 0 && c.Segment < size:
		return bad("segment of %d bytes: expected %d (one %s) to %d, or 0 to choose", c.Segment, size, c.Type, MaxSegment)
	}
	if c.Algorithm == AlgorithmAuto {
		asked := c.Protocol
		c.Algorithm, c.Protocol = table.choose(c.Op, g, int64(c.Count)*int64(size), c.CallOptions)
		if asked == Auto && c.Protocol == ReceiverInitiated && c.notInitiated(&g) != "" {
			c.Protocol = Auto // the rule is for other rings
		}
	}
	if c.Protocol == Auto && g.direct() && c.Op.lacks(c.Algorithm, Direct) == "" {
		c.Protocol = Direct
	}
	switch {
	case c.Op.lacks(c.Algorithm, c.Protocol) != "":
		return bad("%s by %s: %s", c.Algorithm, c.Protocol, c.Op.lacks(c.Algorithm, c.Protocol))
	case ranks > c.Algorithm.MaxRanks(c.Protocol, g.NotShared == ""):
		return bad("%s on %d ranks: expected at most %d", c.Algorithm, ranks, c.Algorithm.MaxRanks(c.Protocol, false))
	case c.Protocol == Direct && g.Reached && g.NotShared != "":
		return bad("%s by %s: the ranks do not share memory: %s", c.Algorithm, c.Protocol, g.NotShared)
	case c.Protocol == ReceiverInitiated && c.notInitiated(&g) != "":
		return bad("%s: %s", c.Protocol, c.notInitiated(&g))
	case c.Algorithm == AlgorithmHierarchical && g.Reached && ranks > 1 && g.notAlong() != "":
		return bad("%s: %s", c.Algorithm, g.notAlong())
	case ranks == 1:
		c.Algorithm = AlgorithmRing
	}
	if !c.Op.Reduces() {
		c.Reduction = 0
	}
	if !c.Op.OnVectors() {
		c.Type = 0
		if c.Protocol == Auto {
			c.Protocol = Eager
		}
	}
	c.Sync = c.Sync && c.Op.Phases() == 2 && c.Algorithm == AlgorithmRing
	asked := c.Segment
	c.Segment = 0
	if c.Protocol == Direct {
		c.Depth = 0
		return c, nil
	}
	if c.Depth == 0 {
		c.Depth = DefaultDepth
		switch {
		case c.Protocol == ReceiverInitiated:
			c.Depth = min(c.Depth, g.InitiatedDepth())
		case c.Algorithm == AlgorithmHierarchical:
			c.Depth = hierarchicalDepth
		}
	}
	if c.Algorithm != AlgorithmRing {
		return c.cutFor(ranks, asked)
	}
	chunk := c.longest(ranks) * size // in bytes
	auto := c.Protocol == Auto
	if auto {
		c.Protocol = Eager
	}
	c.cutChunks(ranks, chunk, asked, g.SlotSize)
	if auto {
		s, initiated := c.schedule(ranks, 1), c
		initiated.Depth = min(c.Depth, s.Segments)
		canBe := initiated.notInitiated(&g) == ""
		switch {
		case chunk > cmp.Or(table.EagerMax, g.eagerMax()) && (table.EagerMax != 0 || !canBe):
			c.Protocol = RendezvousWrite
			c.cutChunks(ranks, chunk, asked, g.SlotSize)
		case canBe && ranks > 1:
			c.Protocol = ReceiverInitiated
		}
	}
	if s := c.schedule(ranks, 2*ranks-2); s.Positions() > maxPositions {
		return bad("%d bytes in segments of %d: more than %d transfers; use a longer segment", c.Count*size, c.Segment, maxPositions)
	}
	return c, nil
}

// schedule returns the layout of a program in which a segment moves so often.
func (c *Call) schedule(ranks, transfers int) program.Schedule {
	if c.Op.Rooted() {
		ranks, transfers = 1, 1 // the whole vector goes along a chain
	}
	s := program.Schedule{Ranks: ranks, Count: c.Count, PerSegment: c.Segment / c.Type.Size(), Depth: c.Depth, Transfers: transfers}
	s.Segments = max(1, (c.longest(ranks)+s.PerSegment-1)/s.PerSegment)
	return s
}

// longest is the length of the longest chunk, in elements.
func (c *Call) longest(ranks int) int {
	if c.Op.Rooted() {
		return c.Count
	}
	return (c.Count + ranks - 1) / ranks
}

// cutChunks chooses the segments of chunks of so many bytes, as long as was asked for
// if that is not 0.
func (c *Call) cutChunks(ranks, chunk, segment, slot int) {
	size := c.Type.Size()
	if segment == 0 && c.Op.Rooted() && ranks > 2 {
		segment = max(chainSegmentMin, int(math.Sqrt(float64(chunk)*chainHop/float64(ranks-2)))/chainSegmentMin*chainSegmentMin)
		segment = min(segment, eagerSegmentMax)
	}
	switch {
	case segment == 0 && c.Protocol.Handshakes():
		const page = 4096
		segment = (chunk/c.Depth + page) / page * page
		segment = min(max(segment, autoSegmentMin), autoSegmentMax)
	case segment == 0:
		const line = 64
		most := min(slot, eagerSegmentMax)
		pieces := max(1, (chunk+most-1)/most)
		segment = min(most, (chunk/pieces+line)/line*line)
	case !c.Protocol.Handshakes():
		segment = min(segment, slot)
	}
	c.Segment = max(min(segment, chunk), size) / size * size
}

// noFirstPhase is why another operation than all-reduce cannot be ReceiverInitiated.
const noFirstPhase = "the first phase of all-reduce brings the address to write to, and here is none; expected all-reduce, or eager or auto"

// notInitiated says why a call round the ring cannot be ReceiverInitiated; "" if it can. In
// the second phase of all-reduce the right neighbour needs no asking: a result has its
// contribution in it, so it has begun.
func (c *Call) notInitiated(g *Agreement) string {
	switch most := g.InitiatedDepth(); {
	case c.Op.Phases() != 2:
		return noFirstPhase
	case g.Rails:
		return "channels are on several devices, each with keys of its own, of which a slot's header has room for one; expected eager, another rendezvous or auto"
	case c.Sync:
		return "results go out before the first phase is over everywhere, so no barrier can be between; expected eager or auto"
	case most < 1:
		return fmt.Sprintf("%d slots are too few for %d ranks; expected more of them, or eager or auto", g.Slots, g.Ranks)
	case c.Depth > most:
		return fmt.Sprintf("depth %d on %d ranks with %d slots: expected at most %d", c.Depth, g.Ranks, g.Slots, most)
	}
	return ""
}

// cutFor completes a call of another algorithm than the ring: segments fit the
// slots of a mesh's edges.
func (c Call) cutFor(ranks, segment int) (Call, error) {
	c.Protocol = Eager
	if segment == 0 {
		segment = ring.MeshSlotSize
	}
	size := c.Type.Size()
	bytes := c.Count * size
	c.Segment = max(min(segment, ring.MeshSlotSize, bytes), size) / size * size
	if pieces := bytes/c.Segment + ranks; pieces > maxPositions {
		return Call{}, usage.Errorf("%s: %d bytes in segments of %d: more than %d transfers; use a longer segment", c.Op, bytes, c.Segment, maxPositions)
	}
	return c, nil
}
