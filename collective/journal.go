package collective

import (
	"context"
	"slices"

	"ringcli/ring"
)

// journalEntries is how many entries a leg of a journal has at most: with more segments an
// entry is for several of them.
const journalEntries = 512

// Journal is what a rank has sent and received in an operation, for a comparison of all
// ranks' afterwards: where what was sent is not what was received, data has changed. It has
// no legs where no segments travel.
type Journal struct {
	Legs []Leg `json:"legs"`
}

// Leg is what went from one rank to another, as one of them has it.
type Leg struct {
	From    int            `json:"from"`
	To      int            `json:"to"`
	Each    int            `json:"each"` // segments in an entry
	Count   int            `json:"count"`
	Entries []JournalEntry `json:"entries"`
}

// JournalEntry is one or some segments, one after the other.
type JournalEntry struct {
	Sum     uint32 `json:"sum"`
	Range          // of elements, if the rank received them
	Gathers bool   `json:"gathers,omitempty"` // so: they are results, or parts of one
}

// Arrival is segments of which one or more changed between two ranks.
type Arrival struct {
	Edge     ring.Direction
	Phase    Operation
	Segment  int // the first, as the edge's segments of the operation are counted
	Segments int
	Range    // of elements
}

// RunRecorded is Run with a journal.
func (c *Comm) RunRecorded(ctx context.Context, k Call) (*Journal, error) {
	j := &Journal{}
	return j, c.run(ctx, k, j)
}

func (j *Journal) note(from, to int, sum uint32, r Range, gathers bool) {
	i := slices.IndexFunc(j.Legs, func(l Leg) bool { return l.From == from && l.To == to })
	if i < 0 {
		i = len(j.Legs)
		j.Legs = append(j.Legs, Leg{From: from, To: to, Each: 1})
	}
	j.Legs[i].note(sum, r, gathers)
}

// note takes the next segment. What an entry holds of several of them does not depend on
// when they came to be in one.
func (l *Leg) note(sum uint32, r Range, gathers bool) {
	const golden = 0x9e3779b1
	if l.Count/l.Each == journalEntries {
		for i := range journalEntries / 2 {
			l.Entries[i] = l.Entries[2*i].and(l.Entries[2*i+1])
		}
		l.Entries, l.Each = l.Entries[:journalEntries/2], 2*l.Each
	}
	e := JournalEntry{Sum: (sum ^ uint32(l.Count)) * golden, Range: r, Gathers: gathers}
	if at := l.Count / l.Each; at < len(l.Entries) {
		l.Entries[at] = l.Entries[at].and(e)
	} else {
		l.Entries = append(l.Entries, e)
	}
	l.Count++
}

func (e JournalEntry) and(o JournalEntry) JournalEntry {
	e.Sum ^= o.Sum
	e.Lo, e.Hi, e.Gathers = min(e.Lo, o.Lo), max(e.Hi, o.Hi), e.Gathers && o.Gathers
	return e
}

// Arrivals compares the journals of all ranks, by rank: what changed on its way, and
// where. None is that whatever is wrong went wrong within a rank, or that no segments
// travelled.
func Arrivals(journals []Journal) (list []Arrival) {
	for to, j := range journals {
		for _, l := range j.Legs {
			if l.To != to || l.From < 0 || l.From >= len(journals) {
				continue
			}
			sent := journals[l.From].Legs
			i := slices.IndexFunc(sent, func(s Leg) bool { return s.From == l.From && s.To == to })
			if i < 0 {
				continue
			}
			for at := range min(len(l.Entries), len(sent[i].Entries)) {
				if e := l.Entries[at]; e.Sum != sent[i].Entries[at].Sum {
					phase := OpReduceScatter
					if e.Gathers {
						phase = OpAllGather
					}
					list = append(list, Arrival{Edge: ring.Direction{From: l.From, To: to}, Phase: phase, Segment: at * l.Each, Segments: l.Each, Range: e.Range})
				}
			}
		}
	}
	return list
}

// Within returns the rank within which an element went wrong that is wrong at some ranks,
// where nothing changed between ranks; -1 if that cannot be told. A result that goes from
// the rank that completes it to the others is wrong at all that it went through later.
func (c *Call) Within(ranks, element int, wrong func(rank int) bool) int {
	only := -1
	for rank := range ranks {
		if wrong(rank) {
			if only >= 0 {
				only = -1
				break
			}
			only = rank
		}
	}
	if c.Algorithm != AlgorithmRing {
		return only
	}
	for owner := range ranks {
		if r := ownChunk.of(c, ranks, owner); element < r.Lo || element >= r.Hi {
			continue
		}
		if wrong(owner) && c.Op.Reduces() {
			if c.Protocol == Direct {
				return owner // which reduces it alone
			}
			return -1 // one of those that its partial results went through
		}
		for k := range ranks {
			if rank := (owner + k) % ranks; wrong(rank) {
				return rank
			}
		}
	}
	return only
}
