package plan

import (
	"fmt"

	"ringcli/collective/crossover"
	"ringcli/collective/script"
	"ringcli/collective/sharedmem"
	"ringcli/collective/topology"
)

// Shape is what plans depend on of a ring that there need not be, such as that of a
// cluster which is yet to be bought.
type Shape struct {
	Ranks    int
	Slots    int  // of an edge of the ring
	SlotSize int  // their payload in bytes
	Software bool // some rank has a device in software
	LinkMbps int  // of their slowest port; 0 is not known
	Shared   bool // the ranks share memory
	// Hosts are where they are; nil is not known.
	Hosts *topology.Hosts
}

// Plan returns a call as the ranks of such a ring would run it; compare [Agreement.Plan].
func (s Shape) Plan(k Call, t Table) (Call, error) {
	g := Agreement{Ranks: s.Ranks, SlotSize: s.SlotSize, Slots: min(s.Slots, MaxSlots), Software: s.Software, LinkMbps: s.LinkMbps, Hosts: s.Hosts, Reached: true}
	switch {
	case !s.Shared:
		g.NotShared = "they are on several hosts"
	case s.Ranks < sharedmem.MinRanks || s.Ranks > sharedmem.MaxRanks:
		g.NotShared = fmt.Sprintf("a ring of %d: expected %d to %d ranks", s.Ranks, sharedmem.MinRanks, sharedmem.MaxRanks)
	}
	return g.Plan(k, t)
}

// Script makes a rank's script of a planned call that does not go round the ring. The
// memory of an old one is used again. hosts may be nil, but for AlgorithmHierarchical.
func (c *Call) Script(s *script.Script, rank, ranks int, hosts *topology.Hosts) {
	by := algorithms[c.Algorithm].script
	if c.Halved(ranks) {
		by = script.Halving
	}
	s.Compile(by, operations[c.Op].script, c.Op.wholly(), c.Root, rank, ranks, hosts)
}

// Halved tells whether a planned call is an all-reduce by recursive doubling that goes by
// halves. The result is the same, bit for bit.
func (c *Call) Halved(ranks int) bool {
	return c.Op == OpAllReduce && c.Algorithm == AlgorithmRecursiveDoubling && ranks >= crossover.Halved && c.Count*c.Type.Size() >= crossover.HalvedBytes
}
