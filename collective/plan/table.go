package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ringcli/collective/crossover"
	"ringcli/configs/usage"
)

// Table says what AlgorithmAuto and Auto stand for. The table of rank 0 counts.
// The zero value is useful. Its JSON form has names for operations, algorithms
// and protocols:
//
//	{"rules": [{"op": "all-reduce", "ranks": 4, "max_bytes": 32768, "algorithm": "inbox"},
//	           {"op": "all-reduce", "algorithm": "ring", "protocol": "rendezvous-write"}]}
type Table struct {
	// Rules are looked through in order; the first that fits a call decides. What
	// none fits is decided as without rules.
	Rules []Rule `json:"rules,omitempty"`
	// EagerMax is the largest chunk, in bytes, that Auto sends without a handshake round
	// the ring where no rule names a protocol; a negative value never. 0 is
	// DefaultEagerMax, more where a device is in software, and any length where it can be
	// ReceiverInitiated.
	EagerMax int `json:"eager_max,omitempty"`
}

// Rule is one line of a Table. It fits calls of its operation on rings of its
// size whose whole vector is at most MaxBytes long.
type Rule struct {
	Op        Operation `json:"op"`
	Ranks     int       `json:"ranks,omitempty"`     // 0 is any number that the algorithm can do
	MaxBytes  int64     `json:"max_bytes,omitempty"` // 0 is any length
	Algorithm Algorithm `json:"algorithm"`           // not AlgorithmAuto
	Protocol  Protocol  `json:"protocol,omitempty"`  // Auto is by the length of a chunk
}

// maxTableRules is far more than sizes, operations and protocols that differ in
// speed; a table travels to every rank.
const maxTableRules = 4096

// Validate returns an error of usage that names the first rule that cannot be.
func (t Table) Validate() error {
	if len(t.Rules) > maxTableRules {
		return usage.Errorf("table: %d rules: expected at most %d", len(t.Rules), maxTableRules)
	}
	for i, r := range t.Rules {
		if err := r.Validate(); err != nil {
			return usage.Errorf("table: rule %d: %v", i+1, err)
		}
	}
	return nil
}

// Validate returns why no call can be as the rule says, or nil.
func (r Rule) Validate() error {
	switch {
	case !r.Op.Valid():
		return fmt.Errorf("%s: expected %s", r.Op, eitherOf(AllOperations()))
	case r.Ranks < 0:
		return fmt.Errorf("ranks %d: expected 1 or more, or 0 for any", r.Ranks)
	case r.MaxBytes < 0:
		return fmt.Errorf("max_bytes %d: expected 1 or more, or 0 for any", r.MaxBytes)
	case r.Algorithm == AlgorithmAuto || !r.Algorithm.Valid():
		return fmt.Errorf("algorithm %s: expected one of %v", r.Algorithm, Algorithms()[1:])
	case !r.Protocol.valid():
		return fmt.Errorf("%s: expected one of %v", r.Protocol, Protocols())
	case r.Op.lacks(r.Algorithm, r.Protocol) != "":
		return fmt.Errorf("%s by %s: %s", r.Algorithm, r.Protocol, r.Op.lacks(r.Algorithm, r.Protocol))
	case r.Protocol == ReceiverInitiated && r.Op.Phases() != 2:
		return fmt.Errorf("%s: %s", r.Protocol, noFirstPhase)
	case r.Ranks > r.Algorithm.MaxRanks(r.Protocol, true):
		return fmt.Errorf("%s on %d ranks: expected at most %d", r.Algorithm, r.Ranks, r.Algorithm.MaxRanks(r.Protocol, true))
	}
	return nil
}

// eitherOf is "a, b or c".
func eitherOf(list []Operation) string {
	last := len(list) - 1
	text := list[0].String()
	for _, op := range list[1:last] {
		text += ", " + op.String()
	}
	return text + " or " + list[last].String()
}

// lacks says why the operation by an algorithm cannot travel by a protocol; "" if it can.
func (o Operation) lacks(a Algorithm, p Protocol) string {
	switch {
	case p == Auto || p == Eager:
		return ""
	case !o.OnVectors() && (a != AlgorithmInbox || p != Direct):
		return "there are no data to be put into place; expected eager, auto, or the inbox by direct"
	case !slices.Contains(algorithms[a].protocols, p):
		return carriers(p)
	}
	return ""
}

// carriers says which algorithms have a protocol that others have not.
func carriers(p Protocol) string {
	var have []string
	for i := range algorithms {
		if slices.Contains(algorithms[i].protocols, p) {
			have = append(have, "the "+algorithms[i].Name)
		}
	}
	return fmt.Sprintf("%s is for %s; expected eager or auto", protocols[p].what, strings.Join(have, " and "))
}

// smallMost is where, without rules, the ring begins on few ranks: up to so many bytes of
// the whole vector the number of hops decides, beyond it the bytes that each rank sends.
// On more than MaxInboxRanks that do not share memory, or more than softInboxRanks of software
// devices, it is where package crossover says.
const smallMost = 32 << 10

// directMost is that of an all-reduce on more than directRanks that share memory: by the inbox
// each reduces n vectors, round the ring as many chunks. On two CPUs 8 ranks take 53 us by the
// inbox and 58 round the ring for 16 KiB, 98 and 53 for 32; 16 ranks 175 and 170, 410 and 240.
const directMost, directRanks = 16 << 10, 4

// softInboxRanks is the largest ring of software devices where the inbox is as good
// as recursive doubling: there n-1 messages cost n-1 times two system calls. On
// soft:lo 8 bytes take 3 ranks 80 us by inbox and 73 by recursive doubling, 4 ranks
// 165 and 90, 8 ranks 810 and 420.
const softInboxRanks = 2

// choose returns algorithm and protocol of a call that leaves the algorithm to the
// table. A caller that asks for a protocol or for phases asks for the ring, unless a rule
// says otherwise.
func (t *Table) choose(op Operation, g Agreement, bytes int64, o CallOptions) (Algorithm, Protocol) {
	rule, ok := t.lookup(op, g, bytes, o.Protocol)
	switch {
	case o.Sync && op.Phases() == 2 && (!ok || rule.Algorithm != AlgorithmRing):
	case ok && o.Protocol != Auto:
		return rule.Algorithm, o.Protocol
	case ok:
		return rule.Algorithm, rule.Protocol
	case o.Protocol == Auto && g.along(op, bytes):
		return AlgorithmHierarchical, o.Protocol
	case o.Protocol != Auto && o.Protocol != Direct || bytes > g.smallMost(op):
	case !g.direct() && (g.Ranks > MaxInboxRanks || g.Software && g.Ranks > softInboxRanks):
		return AlgorithmRecursiveDoubling, o.Protocol
	default:
		return AlgorithmInbox, o.Protocol
	}
	return AlgorithmRing, o.Protocol
}

// alongChunk is the longest chunk of a rank with which a vector does not go along the hosts, and
// alongRooted the longest vector with a root, if the ring goes to each host once. On two CPUs, with
// links of 1 Gb/s between hosts, us of an all-reduce (a broadcast):
//
//	hosts  ranks      64 KiB: ring  along     256 KiB: ring  along            4 MiB: ring  along
//	    2      4   1710 (555)   625 (843)   6843 (2296)   2765 (2830)   91817 (41861)   37065 (35864)
//	    2      8   1198 (587)  1016 (794)   4023 (2472)   2665 (2218)  106233 (39804)   39761 (37935)
//	    4      8   1418 (718)  1378 (1064)  4046 (2350)   4197 (3325)  158056 (66465)   66760 (53439)
//	    4     16   5707        3277         7542          5741         193598           92128
//
// 32 KiB took 4 ranks twice as long by recursive doubling as along the hosts, 8 and 16 as long.
const alongChunk, alongRooted = 2 << 10, 512 << 10

// along tells whether a vector goes along the hosts.
func (g *Agreement) along(op Operation, bytes int64) bool {
	if g.notAlong() != "" || bytes <= alongChunk*int64(g.Ranks) {
		return false
	}
	return !op.Rooted() || bytes > alongRooted || g.astray()
}

// astray tells whether a ring of the ranks, in their order, goes between hosts so often that
// each host sends twice what it must.
func (g *Agreement) astray() bool { return g.Hosts.Crossings() >= 2*g.Hosts.Number() }

// smallMost is the longest vector that does not go round the ring.
func (g *Agreement) smallMost(op Operation) int64 {
	switch {
	case g.direct() && op.Phases() == 2 && g.Ranks > directRanks:
		return directMost
	case g.direct() || g.Ranks <= MaxInboxRanks && (!g.Software || g.Ranks <= softInboxRanks):
		return smallMost
	}
	mbps := g.LinkMbps
	if g.Software {
		mbps = 0
	}
	return max(smallMost, crossover.Bytes(op.Phases(), g.Ranks, mbps, g.Turns))
}

// lookup returns the first rule that fits an operation on a vector of so many
// bytes, for a caller that leaves the algorithm to the table. A protocol that the
// caller asks for rules out what cannot be done with it.
func (t *Table) lookup(op Operation, g Agreement, bytes int64, asked Protocol) (r Rule, ok bool) {
	ranks := g.Ranks
	for _, r := range t.Rules {
		if r.Op != op || r.Ranks != 0 && r.Ranks != ranks || r.MaxBytes != 0 && bytes > r.MaxBytes || ranks > r.Algorithm.MaxRanks(cmp.Or(r.Protocol, asked), g.direct()) {
			continue
		}
		if asked != Auto && r.Protocol != Auto && r.Protocol != asked || op.lacks(r.Algorithm, asked) != "" {
			continue
		}
		if r.Protocol == Direct && !g.direct() || r.Algorithm == AlgorithmHierarchical && g.notAlong() != "" {
			continue
		}
		return r, true
	}
	return Rule{}, false
}
