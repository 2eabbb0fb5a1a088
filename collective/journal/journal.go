// Package journal compares what the ranks of an operation have sent and received: where
// what was sent is not what was received, data has changed.
package journal

import "slices"

// Entries is how many entries a leg of a journal has at most: with more segments an
// entry is for several of them.
const Entries = 512

// Journal is what a rank has sent and received in an operation. It has no legs where no
// segments travel.
type Journal struct {
	Legs []Leg `json:"legs"`
}

// Leg is what went from one rank to another, as one of them has it.
type Leg struct {
	From    int     `json:"from"`
	To      int     `json:"to"`
	Each    int     `json:"each"` // segments in an entry
	Count   int     `json:"count"`
	Entries []Entry `json:"entries"`
}

// Entry is one or some segments, one after the other.
type Entry struct {
	Sum     uint32 `json:"sum"`
	Lo      int    `json:"lo"` // the elements [Lo, Hi), if the rank received them
	Hi      int    `json:"hi"`
	Gathers bool   `json:"gathers,omitempty"` // so: they are results, or parts of one
}

// Arrival is segments of which one or more changed between two ranks.
type Arrival struct {
	From, To int
	Gathers  bool // it was in all-gather, or in the phase that is
	Segment  int  // the first, as the edge's segments of the operation are counted
	Segments int
	Lo, Hi   int // elements
}

// Note takes the next segment from one rank to another; what is received is the elements
// [lo, hi).
func (j *Journal) Note(from, to int, sum uint32, lo, hi int, gathers bool) {
	i := slices.IndexFunc(j.Legs, func(l Leg) bool { return l.From == from && l.To == to })
	if i < 0 {
		i = len(j.Legs)
		j.Legs = append(j.Legs, Leg{From: from, To: to, Each: 1})
	}
	j.Legs[i].note(sum, lo, hi, gathers)
}

// note takes the next segment. What an entry holds of several of them does not depend on
// when they came to be in one.
func (l *Leg) note(sum uint32, lo, hi int, gathers bool) {
	const golden = 0x9e3779b1
	if l.Count/l.Each == Entries {
		for i := range Entries / 2 {
			l.Entries[i] = l.Entries[2*i].and(l.Entries[2*i+1])
		}
		l.Entries, l.Each = l.Entries[:Entries/2], 2*l.Each
	}
	e := Entry{(sum ^ uint32(l.Count)) * golden, lo, hi, gathers}
	if at := l.Count / l.Each; at < len(l.Entries) {
		l.Entries[at] = l.Entries[at].and(e)
	} else {
		l.Entries = append(l.Entries, e)
	}
	l.Count++
}

func (e Entry) and(o Entry) Entry {
	return Entry{e.Sum ^ o.Sum, min(e.Lo, o.Lo), max(e.Hi, o.Hi), e.Gathers && o.Gathers}
}

// Compare compares the journals of all ranks, by rank: what changed on its way, and
// where. None is that whatever is wrong went wrong within a rank, or that no segments
// travelled.
func Compare(journals []Journal) (list []Arrival) {
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
					list = append(list, Arrival{l.From, to, e.Gathers, at * l.Each, l.Each, e.Lo, e.Hi})
				}
			}
		}
	}
	return list
}
