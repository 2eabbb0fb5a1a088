package plan

import (
	"errors"
	"math"
	"strings"
	"testing"

	"ringcli/collective/reduce"
	"ringcli/collective/topology"
	"ringcli/configs/usage"
)

func TestParseProtocol(t *testing.T) {
	for name, want := range map[string]Protocol{
		"": Auto, "auto": Auto, "Eager": Eager, "rendezvous": RendezvousWrite, "rendezvous-write": RendezvousWrite, "rdv": RendezvousWrite,
		"Receiver-Initiated": ReceiverInitiated, "recv-init": ReceiverInitiated, " RENDEZVOUS-READ ": RendezvousRead, "read": RendezvousRead,
	} {
		if got, err := ParseProtocol(name); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", name, got, err, want)
		}
	}
	for _, p := range Protocols() {
		if got, err := ParseProtocol(p.String()); err != nil || got != p {
			t.Errorf("%v: %v, %v", p, got, err)
		}
	}
	_, err := ParseProtocol("carrier-pigeon")
	if err == nil || !strings.Contains(err.Error(), "carrier-pigeon") || !strings.Contains(err.Error(), "rendezvous-read") {
		t.Errorf("an unknown protocol: %v", err)
	}
}

func TestPlan(t *testing.T) {
	into := Table{Rules: []Rule{{Op: OpAllReduce, Algorithm: AlgorithmRing, Protocol: ReceiverInitiated}}}
	const slot = 512 << 10
	for _, test := range []struct {
		count    int
		ranks    int
		options  CallOptions
		table    Table
		protocol Protocol
		segment  int
		slots    int
	}{
		{0, 4, CallOptions{Algorithm: AlgorithmRing}, Table{}, Eager, 4, 0},
		{1, 4, CallOptions{Algorithm: AlgorithmRing}, Table{}, Eager, 4, 0},
		{1000, 4, CallOptions{Algorithm: AlgorithmRing}, Table{}, Eager, 1000, 0},
		{DefaultEagerMax, 4, CallOptions{}, Table{}, Eager, 131136, 0},
		{DefaultEagerMax + 4, 4, CallOptions{}, Table{}, RendezvousWrite, autoSegmentMin, 0},
		{1 << 24, 4, CallOptions{}, Table{}, RendezvousWrite, autoSegmentMax, 0},
		{1000, 4, CallOptions{Algorithm: AlgorithmRing}, Table{EagerMax: -1}, RendezvousWrite, 1000, 0},
		{1000, 4, CallOptions{}, Table{Rules: []Rule{{Op: OpAllReduce, Algorithm: AlgorithmRing, Protocol: RendezvousRead}}}, RendezvousRead, 1000, 0},
		{1 << 24, 4, CallOptions{}, Table{EagerMax: 1 << 24}, Eager, 243200, 0},
		{1 << 24, 4, CallOptions{Protocol: Eager, Segment: 1 << 20}, Table{}, Eager, slot, 0},
		{1 << 24, 4, CallOptions{Protocol: RendezvousRead, Segment: 1<<20 + 3}, Table{}, RendezvousRead, 1 << 20, 0},
		{1 << 24, 4, CallOptions{}, Table{}, ReceiverInitiated, 243200, 14},
		{1000, 4, CallOptions{Algorithm: AlgorithmRing}, Table{}, ReceiverInitiated, 1000, 14},
		{1 << 24, 4, CallOptions{Protocol: Eager}, Table{}, Eager, 243200, 14},
		{1 << 24, 1, CallOptions{}, Table{}, Eager, 244928, 14},
		{1 << 24, 13, CallOptions{Protocol: ReceiverInitiated}, Table{}, ReceiverInitiated, 234688, 15},
		{1 << 24, 4, CallOptions{}, into, ReceiverInitiated, 243200, 14},
		{1 << 24, 4, CallOptions{}, into, RendezvousWrite, autoSegmentMax, 2}, // the rule is for other rings
		{1 << 24, 4, CallOptions{Sync: true}, into, RendezvousWrite, autoSegmentMax, 14},
		{1 << 24, 4, CallOptions{Depth: 5}, into, RendezvousWrite, autoSegmentMax, 14},
		{1 << 24, 4, CallOptions{}, Table{}, RendezvousWrite, autoSegmentMax, 13},
		{1 << 24, 4, CallOptions{}, Table{EagerMax: 1 << 20}, RendezvousWrite, autoSegmentMax, 14},
		{1 << 24, 4, CallOptions{Sync: true}, Table{}, RendezvousWrite, autoSegmentMax, 14},
		{1 << 19, 13, CallOptions{}, Table{}, ReceiverInitiated, 161320, 15},
	} {
		got, err := Agreement{Ranks: test.ranks, SlotSize: slot, Slots: test.slots}.Plan(Call{Op: OpAllReduce, Count: test.count, Type: reduce.Float32, Reduction: reduce.Sum, CallOptions: test.options}, test.table)
		if err != nil || got.Protocol != test.protocol || got.Segment != test.segment {
			t.Errorf("%d float32 on %d ranks, %+v, %+v: %v, %v: want %s, segment %d", test.count, test.ranks, test.options, test.table, got, err, test.protocol, test.segment)
		}
		if back := CallOf(got.Signature()); back != got {
			t.Errorf("%v: its signature makes %v", got, back)
		}
	}
}

// TestPlanAlgorithm: what runs where nothing is asked for, and where something is.
func TestPlanAlgorithm(t *testing.T) {
	inbox := Table{Rules: []Rule{{Op: OpAllReduce, MaxBytes: 1 << 20, Algorithm: AlgorithmInbox}}}
	read := Table{Rules: []Rule{{Op: OpAllReduce, Algorithm: AlgorithmRing, Protocol: RendezvousRead}}}
	for _, test := range []struct {
		bytes, ranks int
		options      CallOptions
		table        Table
		algorithm    Algorithm
		protocol     Protocol
		segment      int
		soft         bool
	}{
		{bytes: 4, ranks: 2, algorithm: AlgorithmInbox, protocol: Eager, segment: 4, soft: true},
		{bytes: 4, ranks: 3, algorithm: AlgorithmRecursiveDoubling, protocol: Eager, segment: 4, soft: true},
		{bytes: 32 << 20, ranks: 2, algorithm: AlgorithmRing, protocol: Eager, segment: 243200, soft: true},
		{bytes: 32<<20 + 8, ranks: 2, algorithm: AlgorithmRing, protocol: RendezvousWrite, segment: autoSegmentMax, soft: true},
		{32 << 20, 2, CallOptions{}, Table{EagerMax: 1 << 20}, AlgorithmRing, RendezvousWrite, autoSegmentMax, true},
		{32 << 10, 2, CallOptions{}, Table{}, AlgorithmInbox, Eager, 32 << 10, false},
		{4, 8, CallOptions{}, Table{}, AlgorithmInbox, Eager, 4, false},
		{0, 9, CallOptions{}, Table{}, AlgorithmRecursiveDoubling, Eager, 4, false},
		{32 << 10, 64, CallOptions{}, Table{}, AlgorithmRecursiveDoubling, Eager, 32 << 10, false},
		{32<<10 + 4, 2, CallOptions{}, Table{}, AlgorithmRing, Eager, 16<<10 + 4, false},
		{4, 1, CallOptions{}, Table{}, AlgorithmRing, Eager, 4, false},
		{4, 2, CallOptions{Protocol: Eager}, Table{}, AlgorithmRing, Eager, 4, false},
		{4, 2, CallOptions{Sync: true}, Table{}, AlgorithmRing, Eager, 4, false},
		{4, 2, CallOptions{Sync: true}, inbox, AlgorithmRing, Eager, 4, false},
		{4, 2, CallOptions{Sync: true}, read, AlgorithmRing, RendezvousRead, 4, false},
		{1 << 20, 2, CallOptions{}, inbox, AlgorithmInbox, Eager, 32 << 10, false},
		{1 << 20, 2, CallOptions{Protocol: Eager}, inbox, AlgorithmInbox, Eager, 32 << 10, false},
		{1 << 20, 2, CallOptions{Protocol: RendezvousWrite}, inbox, AlgorithmRing, RendezvousWrite, 132 << 10, false},
		{1 << 20, 9, CallOptions{}, inbox, AlgorithmRing, Eager, 116512, false},
		{1 << 20, 9, CallOptions{Algorithm: AlgorithmTree, Sync: true, Segment: 1001}, inbox, AlgorithmTree, Eager, 1000, false},
	} {
		got, err := Agreement{Ranks: test.ranks, SlotSize: 256 << 10, Software: test.soft}.Plan(Call{Op: OpAllReduce, Count: test.bytes / 4, Type: reduce.Float32, Reduction: reduce.Sum, CallOptions: test.options}, test.table)
		if err != nil || got.Algorithm != test.algorithm || got.Protocol != test.protocol || got.Segment != test.segment {
			t.Errorf("%d bytes on %d ranks, %+v, %+v: %v, %v: want %s by %s, segment %d", test.bytes, test.ranks, test.options, test.table, got, err,
				test.algorithm, test.protocol, test.segment)
		}
		if back := CallOf(got.Signature()); back != got {
			t.Errorf("%v: its signature makes %v", got, back)
		}
		if got.Sync != (got.Algorithm == AlgorithmRing && test.options.Sync) {
			t.Errorf("%v: synchronized is %v", got, got.Sync)
		}
	}
}

// TestPlanManyRanks: beyond the inbox's ranks the ring begins the later, the more there are,
// the faster their ports, and the more of them take turns on a CPU.
func TestPlanManyRanks(t *testing.T) {
	for _, test := range []struct {
		bytes, ranks, mbps, turns int
		soft                      bool
		want                      Algorithm
	}{
		{64 << 10, 8, 100_000, 0, false, AlgorithmRing},
		{64 << 10, 64, 0, 0, false, AlgorithmRecursiveDoubling},
		{64 << 10, 1024, 0, 0, true, AlgorithmRecursiveDoubling},
		{8 << 20, 1024, 100_000, 0, false, AlgorithmRecursiveDoubling},
		{16 << 20, 1024, 0, 0, false, AlgorithmRing},
		{16 << 20, 1024, 100_000, 0, true, AlgorithmRing},
		{8 << 20, 64, 100_000, 0, false, AlgorithmRing},
		{256 << 10, 16, 0, 1, true, AlgorithmRing},
		{256 << 10, 16, 0, 8, true, AlgorithmRecursiveDoubling},
		{48 << 10, 4, 0, 1, true, AlgorithmRing},
		{48 << 10, 4, 0, 2, true, AlgorithmRecursiveDoubling},
	} {
		got, err := Agreement{Ranks: test.ranks, SlotSize: 256 << 10, Software: test.soft, LinkMbps: test.mbps, Turns: test.turns}.Plan(Call{Op: OpAllReduce, Count: test.bytes / 4, Type: reduce.Float32, Reduction: reduce.Sum}, Table{})
		if err != nil || got.Algorithm != test.want {
			t.Errorf("%+v: %v, %v", test, got, err)
		}
	}
}

// TestPlanAlongHosts: long vectors go along the hosts, and those with a root if they are very long
// or the ring would go to and fro between hosts; by name all do wherever there are several hosts
// with several ranks.
func TestPlanAlongHosts(t *testing.T) {
	turns := topology.Of(strings.Split("abcdabcdabcdabcd", ""))
	for _, test := range []struct {
		hosts   *topology.Hosts
		bytes   int
		options CallOptions
		table   Table
		want    Algorithm
		refused string
	}{
		{turns, 1 << 20, CallOptions{}, Table{}, AlgorithmHierarchical, ""},
		{turns, 8, CallOptions{}, Table{}, AlgorithmRecursiveDoubling, ""},
		{turns, 1 << 20, CallOptions{Sync: true}, Table{}, AlgorithmRing, ""},
		{turns, 1 << 20, CallOptions{Protocol: RendezvousWrite}, Table{}, AlgorithmRing, ""},
		{turns, 1 << 20, CallOptions{}, Table{Rules: []Rule{{Op: OpAllReduce, Algorithm: AlgorithmTree}}}, AlgorithmTree, ""},
		{topology.Sized(4, 4, 4, 4), 1 << 20, CallOptions{}, Table{}, AlgorithmHierarchical, ""},
		{topology.Sized(4, 4, 4, 4), 32 << 10, CallOptions{}, Table{}, AlgorithmRecursiveDoubling, ""},
		{topology.Sized(4, 4, 4, 4), 1 << 20, CallOptions{}, Table{Rules: []Rule{{Op: OpAllReduce, Algorithm: AlgorithmHierarchical}}}, AlgorithmHierarchical, ""},
		{topology.Sized(1, 15), 8, CallOptions{Algorithm: AlgorithmHierarchical}, Table{}, AlgorithmHierarchical, ""},
		{topology.Sized(16), 1 << 20, CallOptions{Algorithm: AlgorithmHierarchical}, Table{}, 0, "hierarchical: one host of 16 ranks: expected several hosts"},
		{topology.Sized(16), 1 << 20, CallOptions{}, Table{Rules: []Rule{{Op: OpAllReduce, Algorithm: AlgorithmHierarchical}}}, AlgorithmRing, ""},
		{topology.Of(strings.Split("abcdefghijklmnop", "")), 1 << 20, CallOptions{Algorithm: AlgorithmHierarchical}, Table{}, 0, "16 hosts of one rank: expected"},
		{nil, 1 << 20, CallOptions{Algorithm: AlgorithmHierarchical}, Table{}, 0, "it is not known which ranks share a host"},
		{turns, 1 << 20, CallOptions{Algorithm: AlgorithmHierarchical, Protocol: RendezvousWrite}, Table{}, 0, "expected eager or auto"},
	} {
		g := Agreement{Ranks: 16, SlotSize: 256 << 10, Hosts: test.hosts, Reached: true, NotShared: "they are on several hosts"}
		got, err := g.Plan(Call{Op: OpAllReduce, Count: test.bytes / 4, Type: reduce.Float32, Reduction: reduce.Sum, CallOptions: test.options}, test.table)
		switch {
		case test.refused != "":
			if !usage.Is(err) || !strings.Contains(err.Error(), test.refused) {
				t.Errorf("%+v: %v: expected that it is refused", test, err)
			}
		case err != nil || got.Algorithm != test.want:
			t.Errorf("%+v: %v, %v", test, got, err)
		}
	}
	for _, test := range []struct {
		hosts *topology.Hosts
		bytes int
		want  Algorithm
	}{
		{turns, 256 << 10, AlgorithmHierarchical},
		{topology.Sized(4, 4, 4, 4), 256 << 10, AlgorithmRing},
		{topology.Sized(4, 4, 4, 4), 1 << 20, AlgorithmHierarchical},
	} {
		g := Agreement{Ranks: 16, SlotSize: 256 << 10, Hosts: test.hosts, Reached: true, NotShared: "they are on several hosts"}
		got, err := g.Plan(Call{Op: OpBroadcast, Count: test.bytes, Type: reduce.Int8}, Table{})
		if err != nil || got.Algorithm != test.want {
			t.Errorf("%+v: %v, %v", test, got, err)
		}
	}
	many := Agreement{Ranks: 200, SlotSize: 256 << 10, Hosts: topology.Sized(100, 100), Reached: true, NotShared: "they are on several hosts"}
	_, err := many.Plan(Call{Op: OpAllReduce, Count: 1, Type: reduce.Int8, CallOptions: CallOptions{Algorithm: AlgorithmHierarchical}}, Table{})
	if !usage.Is(err) || !strings.Contains(err.Error(), "on 2 hosts of 100 ranks a rank has to do with 100 others: expected at most 80") {
		t.Errorf("%v: expected that there are too many", err)
	}
}

func TestPlanRefuses(t *testing.T) {
	if _, err := (Agreement{Ranks: 2}).Plan(Call{Op: OpBarrier, Count: 1}, Table{}); !errors.Is(err, usage.Err) {
		t.Errorf("a barrier of one element: %v: expected an error of usage", err)
	}
	for _, test := range []struct {
		count   int
		typ     reduce.Type
		red     reduce.Op
		options CallOptions
		want    string
	}{
		{-1, reduce.Int32, reduce.Sum, CallOptions{}, "count -1"},
		{math.MaxInt64 / 2, reduce.Float64, reduce.Sum, CallOptions{}, "address space"},
		{1, 99, reduce.Sum, CallOptions{}, "type(99)"},
		{1, reduce.Int32, 99, CallOptions{}, "op(99)"},
		{1, reduce.Int32, reduce.Sum, CallOptions{Protocol: 9}, "protocol 9"},
		{1, reduce.Int32, reduce.Sum, CallOptions{Algorithm: 9}, "algorithm 9: expected one of [auto ring"},
		{1, reduce.Int32, reduce.Sum, CallOptions{Protocol: Direct}, "by direct: the ranks do not share memory: they are far"},
		{1, reduce.Int32, reduce.Sum, CallOptions{Algorithm: AlgorithmTree, Protocol: Direct}, "tree by direct: direct is for the ring and the inbox"},
		{1, reduce.Int32, reduce.Sum, CallOptions{Algorithm: AlgorithmTree, Protocol: RendezvousWrite}, "tree by rendezvous-write: rendezvous is for the ring"},
		{1, reduce.Int32, reduce.Sum, CallOptions{Depth: MaxDepth + 1}, "depth 17"},
		{1, reduce.Int32, reduce.Sum, CallOptions{Depth: -1}, "depth -1"},
		{1, reduce.Int32, reduce.Sum, CallOptions{Segment: 2}, "segment of 2 bytes"},
		{1, reduce.Int32, reduce.Sum, CallOptions{Segment: 1<<30 + 1}, "segment of 1073741825 bytes"},
		{1 << 32, reduce.Int8, reduce.Sum, CallOptions{Segment: 1}, "longer segment"},
	} {
		_, err := Agreement{Ranks: 4, SlotSize: 1 << 16, Reached: true, NotShared: "they are far"}.Plan(Call{Op: OpAllReduce, Count: test.count, Type: test.typ, Reduction: test.red, CallOptions: test.options}, Table{})
		if !errors.Is(err, usage.Err) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%d %v %v %+v: %v: expected an error of usage that says %q", test.count, test.typ, test.red, test.options, err, test.want)
		}
	}
}

// TestPlanRefusesReceiverInitiated: where it cannot be, it is said why, and what can.
func TestPlanRefusesReceiverInitiated(t *testing.T) {
	for _, test := range []struct {
		call         Call
		ranks, slots int
		want         string
	}{
		{Call{Op: OpAllReduce}, 5, 16, ""},
		{Call{Op: OpAllReduce}, 14, 16, ""},
		{Call{Op: OpAllReduce}, 1, 0, ""},
		{Call{Op: OpAllReduce, CallOptions: CallOptions{Depth: 4}}, 4, 16, ""},
		{Call{Op: OpAllReduce, CallOptions: CallOptions{Depth: 5}}, 4, 16, "all-reduce: receiver-initiated: depth 5 on 4 ranks with 16 slots: expected at most 4"},
		{Call{Op: OpAllReduce}, 15, 16, "all-reduce: receiver-initiated: 16 slots are too few for 15 ranks; expected more of them, or eager or auto"},
		{Call{Op: OpAllReduce, CallOptions: CallOptions{Sync: true}}, 4, 16, "all-reduce: receiver-initiated: results go out before the first phase is over everywhere, so no barrier can be between; expected eager or auto"},
		{Call{Op: OpReduceScatter}, 4, 16, "reduce-scatter: receiver-initiated: the first phase of all-reduce brings the address to write to, and here is none; expected all-reduce, or eager or auto"},
		{Call{Op: OpAllGather}, 4, 16, "all-gather: receiver-initiated: the first phase of all-reduce brings the address to write to, and here is none; expected all-reduce, or eager or auto"},
		{Call{Op: OpAllReduce, CallOptions: CallOptions{Algorithm: AlgorithmTree}}, 4, 16, "all-reduce: tree by receiver-initiated: rendezvous is for the ring; expected eager or auto"},
	} {
		test.call.Protocol = ReceiverInitiated
		plan, err := Agreement{Ranks: test.ranks, SlotSize: 1 << 16, Slots: test.slots}.Plan(test.call, Table{})
		switch {
		case test.want == "" && (err != nil || plan.Protocol != ReceiverInitiated):
			t.Errorf("%v on %d ranks: %v, %v", test.call.Op, test.ranks, plan, err)
		case test.want != "" && (!errors.Is(err, usage.Err) || err.Error() != test.want):
			t.Errorf("%v on %d ranks: %v, want %q", test.call.Op, test.ranks, err, test.want)
		}
	}
}

// Two calls with one signature would be summed up as one.
func TestSignatureIsExact(t *testing.T) {
	base := Call{
		Op: OpAllReduce, Type: reduce.Float32, Reduction: reduce.Sum, Count: 1000,
		CallOptions: CallOptions{Algorithm: AlgorithmRing, Protocol: RendezvousWrite, Depth: 4, Segment: 1 << 18},
	}
	for _, change := range []func(*Call){
		func(c *Call) { c.Op = OpAllGather }, func(c *Call) { c.Type = reduce.Int32 }, func(c *Call) { c.Reduction = reduce.Avg },
		func(c *Call) { c.Protocol = RendezvousRead }, func(c *Call) { c.Depth = 16 }, func(c *Call) { c.Sync = true },
		func(c *Call) { c.Segment = MaxSegment }, func(c *Call) { c.Algorithm = AlgorithmInbox }, func(c *Call) { c.Protocol = Direct },
		func(c *Call) { c.Count++ }, func(c *Call) { c.Root = 1<<20 - 1 },
	} {
		c := base
		change(&c)
		if c.Signature() == base.Signature() || CallOf(c.Signature()) != c {
			t.Errorf("%v and %v: signatures %x and %x", c, base, c.Signature(), base.Signature())
		}
	}
}
