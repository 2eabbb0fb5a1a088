package lateness

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Kind is what kept a ring waiting.
type Kind string

// The kinds.
const (
	Late      Kind = "late"       // a rank
	NoCPU     Kind = "no-cpu"     // a rank that was ready to run and did not, more than others
	NoCarrier Kind = "no-carrier" // a rank whose port lost its link and has it again
	LossyEdge Kind = "lossy-edge" // from a rank to another: packets are missing
	SlowEdge  Kind = "slow-edge"  // from a rank to another
	SlowRank  Kind = "slow-rank"  // several slow edges that all involve the rank
)

// Finding is who or what kept the ring waiting in some time.
type Finding struct {
	Kind    Kind   `json:"kind"`
	Rank    int    `json:"rank"`            // of an edge, its sender
	To      *int   `json:"to,omitempty"`    // of an edge
	Edges   []Edge `json:"edges,omitempty"` // of slow-rank: the slow edges
	Loss    *Loss  `json:"loss,omitempty"`  // of lossy-edge
	Took    int64  `json:"took_ns"`         // that time
	By      int64  `json:"by_ns"`           // of it: how much longer the others waited than this rank; of an edge, how much longer a segment takes than elsewhere
	Longest int64  `json:"longest_ns"`      // at once
	Times   int64  `json:"times"`           // of 1 ms and more; of an edge, its segments, or 1 if it was one of them
	NoCPU   int64  `json:"no_cpu_ns"`       // the rank had none for so long
	Why     Why    `json:"why,omitempty"`
}

// Edge is one whose segments took longer than elsewhere.
type Edge struct {
	From    int   `json:"from"`
	To      int   `json:"to"`
	By      int64 `json:"by_ns"`      // a segment
	Longest int64 `json:"longest_ns"` // at once
}

// Why is what a late rank did meanwhile.
type Why string

// What that is where it is known.
const (
	Entered Why = "it was outside of operations"
	Stood   Why = "it stood still"
	Reduced Why = "it reduced for longer"
)

const (
	// latePart of the time is what is told of small delays that add up: less is how
	// ranks of a calm ring differ.
	latePart = 5
	// lateLeast is told even if it happens once; ranks of busy machines are often
	// late by less.
	lateLeast = int64(20 * time.Millisecond)
	// slowTimes as long as elsewhere is slow, and stuckLeast is a flight that is told even
	// if it happens once: a packet that is lost is sent again after some 67 ms.
	slowTimes, stuckLeast = 3, int64(50 * time.Millisecond)
	// starvedPart of the time is what a ring waits for a rank that others keep from its CPU: on a
	// machine with work for all its CPUs any rank is late by a fifth now and then.
	starvedPart = 3
	// Where more than one rank in so many, and more than one, have no CPU, the ranks share that: their
	// host has too much work, and none of them is at fault.
	sharedPart = 4
	// starvedTimes as long as the others without a CPU is a rank's own want of one.
	starvedTimes = 2
	// steadyFlights that all take long tell a slow edge from one that waits for a CPU now and then.
	steadyFlights = 8
	// least is no figure to tell anybody of.
	least = int64(2 * time.Millisecond)
	// leastNAKs and leastShare of the packets sent again are a lossy edge: a packet that
	// overtakes another is asked for, too, which ports that are limited to a rate bring to
	// three in a thousand without a loss.
	leastNAKs, leastShare = 20, 0.005
)

// Excuse sets how much of their lateness ranks had no CPU for. The shorter the time is that
// the records are of, the surer is it that one comes of the other.
func Excuse(all []Record) {
	for rank := range all {
		r := &all[rank]
		late := max(0, r.lateness(all, rank))
		r.starved, r.excused = min(r.NoCPU, late), min(ownWant(all, rank), late)
	}
}

func (r *Record) lateness(all []Record, rank int) int64 {
	return others(all, rank, func(r *Record) int64 { return r.Waited }) - r.Waited
}

// ownWant is for how long a rank had no CPU when others had one. All threads of a rank together
// may have had none for as long as that is counted, on busy machines all the time: then a rank is
// told from the others by how long it did not see its clock.
func ownWant(all []Record, rank int) (want int64) {
	r := &all[rank]
	noCPU := max(0, others(all, rank, func(r *Record) int64 { return r.NoCPU }))
	still := max(0, others(all, rank, func(r *Record) int64 { return r.Still }))
	if r.NoCPU >= starvedTimes*noCPU {
		want = r.NoCPU - noCPU
	}
	if r.Still >= starvedTimes*still {
		want = max(want, min(r.NoCPU, r.Still-still))
	}
	return want
}

// Judge tells from the records of all ranks, by rank, of the same time, who or what kept
// the ring waiting. They were excused. A link that was away comes first; evidence of one edge comes before evidence that all
// ranks share: packets that are missing, a rank that was late, edges that are slow.
func Judge(all []Record) (found []Finding) {
	for rank := range all {
		if r := &all[rank]; r.NoCarrier > 0 {
			found = append(found, Finding{Kind: NoCarrier, Rank: rank, Took: r.Took, By: r.NoCarrier, Longest: r.NoCarrier, Times: 1})
		}
	}
	if len(found) > 0 { // what was lost and late meanwhile follows from it
		return found
	}
	late := lateRanks(all)
	lossy := slices.DeleteFunc(lossyEdges(all), func(e Finding) bool {
		// A rank that stood still does not take what comes.
		return slices.ContainsFunc(late, func(l Finding) bool { return l.Kind == Late && l.Why == Stood && e.has(l.Rank) })
	})
	late = slices.DeleteFunc(late, func(l Finding) bool {
		return l.Kind == NoCPU && slices.ContainsFunc(lossy, func(e Finding) bool { return e.has(l.Rank) })
	})
	found = append(lossy, late...)
	return append(found, slowEdges(all, found)...)
}

// has tells whether a rank is the finding's, or an end of its edge.
func (f *Finding) has(rank int) bool { return f.Rank == rank || f.To != nil && *f.To == rank }

// lossyEdges are those whose receivers were short of packets.
func lossyEdges(all []Record) (found []Finding) {
	for rank := range all {
		l := &all[rank].Loss
		if l.NAKs < leastNAKs || l.Share() < leastShare || !isEdge(all, l.From, l.To) {
			continue
		}
		if usual := others(all, rank, func(r *Record) int64 { return r.Loss.NAKs }); l.NAKs < slowTimes*usual {
			continue
		}
		found = append(found, Finding{Kind: LossyEdge, Rank: int(l.From), To: new(int(l.To)), Took: all[rank].Took, Times: l.NAKs, Loss: l})
	}
	return found
}

func isEdge(all []Record, from, to int64) bool {
	return min(from, to) >= 0 && max(from, to) < int64(len(all)) && from != to
}

// lateRanks are those that the others waited for. One that had no CPU is none if the others
// had none for about as long.
func lateRanks(all []Record) (found []Finding) {
	for rank := range all {
		r := &all[rank]
		f := Finding{
			Kind: Late, Rank: rank, Took: r.Took, NoCPU: r.NoCPU,
			By:      r.lateness(all, rank),
			Longest: others(all, rank, func(r *Record) int64 { return r.LongestWait }),
			Times:   max(1, others(all, rank, func(r *Record) int64 { return r.Waits })-r.Waits),
		}
		once := f.Longest >= lateLeast && f.Longest >= 2*r.LongestWait && f.By >= f.Longest/2
		if f.By < least || !once && f.By < r.Took/latePart {
			continue
		}
		switch f.Why = why(all, rank, f.By); {
		case r.excused >= f.By/2 && f.By >= r.Took/starvedPart:
			f.Kind = NoCPU
		case r.starved >= f.By/2:
			continue
		}
		found = append(found, f)
	}
	// A late rank may itself wait for a rank that is later. Without a known reason it is not named if it
	// is less late than a rank with one, or less than half as late as the latest.
	worst, starved := Finding{}, 0
	for _, f := range found {
		if f.By > worst.By {
			worst = f
		}
		if f.Kind == NoCPU {
			starved++
		}
	}
	bar := worst.By / 2
	if worst.Kind != Late || worst.Why != "" {
		bar = worst.By
	}
	return slices.DeleteFunc(found, func(f Finding) bool {
		if f.Kind == NoCPU {
			return starved > 1 && sharedPart*starved > len(all)
		}
		return f.Why == "" && f.By < bar
	})
}

// slowEdges are those of which no end is known to be at fault. A flight is data to the
// receiver and an acknowledgement back, so what one rank sends slowly makes two edges slow:
// edges that have a rank in common are one finding of that rank.
func slowEdges(all []Record, known []Finding) (found []Finding) {
	explained := func(rank int) bool {
		return slices.ContainsFunc(known, func(f Finding) bool { return f.has(rank) })
	}
	type candidate struct {
		Finding
		slow bool
	}
	var list []candidate // the worst one first
	for rank := range all {
		r := &all[rank]
		from, to := int(r.From), int(r.To)
		if r.Flights == 0 || !isEdge(all, r.From, r.To) || explained(from) || explained(to) {
			continue
		}
		f, slow, steady := edge(all, rank)
		if f.To == nil {
			continue // no rank has another edge
		}
		if most := max(all[from].NoCPU, all[to].NoCPU); most >= r.Took/latePart {
			if max(ownWant(all, from), ownWant(all, to)) >= r.Took/(starvedTimes*latePart) {
				continue // segments are late where an end has no CPU, which shows as a rank that is late if it is the rank's own want
			}
			f.NoCPU = most
			slow = slow && steady // all wait for a CPU
		}
		same := func(c candidate) bool { return c.Rank == from && *c.To == to } // both ends may have it
		if i := slices.IndexFunc(list, same); i < 0 {
			list = append(list, candidate{f, slow})
		} else if f.By > list[i].By {
			list[i] = candidate{f, slow}
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(b.By, a.By) })
	first := slices.IndexFunc(list, func(c candidate) bool { return c.slow })
	if first < 0 {
		return found
	}
	// An edge that is less than half as slow as the worst one may wait for that one.
	worst := list[first]
	var edges []Finding
	for _, c := range list {
		if c.By >= worst.By/2 && (c.slow || worst.has(c.Rank) || worst.has(*c.To)) {
			edges = append(edges, c.Finding)
		}
	}
	for len(edges) > 0 {
		f := edges[0]
		if common := commonRank(edges); common >= 0 {
			f = Finding{Kind: SlowRank, Rank: common, Took: f.Took, By: f.By}
			edges = slices.DeleteFunc(edges, func(e Finding) bool {
				if !e.has(common) {
					return false
				}
				f.Edges = append(f.Edges, Edge{e.Rank, *e.To, e.By, e.Longest})
				f.Longest, f.Times, f.NoCPU = max(f.Longest, e.Longest), f.Times+e.Times, max(f.NoCPU, e.NoCPU)
				return true
			})
		} else {
			edges = edges[1:]
		}
		found = append(found, f)
	}
	return found
}

// commonRank is the rank that most of the edges involve, of several the one whose edges are
// slowest; -1: no two have one in common.
func commonRank(edges []Finding) int {
	type sum struct{ edges, by int64 }
	by := map[int]sum{}
	best := -1
	for _, e := range edges {
		for _, rank := range []int{e.Rank, *e.To} {
			by[rank] = sum{by[rank].edges + 1, by[rank].by + e.By}
		}
	}
	for _, rank := range slices.Sorted(maps.Keys(by)) {
		if s := by[rank]; s.edges > 1 && (best < 0 || cmp.Or(cmp.Compare(s.edges, by[best].edges), cmp.Compare(s.by, by[best].by)) > 0) {
			best = rank
		}
	}
	return best
}

// edge tells whether the edge in a rank's record is slow, and whether each of its flights is.
func edge(all []Record, rank int) (f Finding, slow, steady bool) {
	r := &all[rank]
	elsewhere := others(all, rank, func(r *Record) int64 {
		if r.Flights == 0 {
			return -1
		}
		return r.flight()
	})
	longest := others(all, rank, func(r *Record) int64 { return r.LongestFlight })
	shortest := others(all, rank, func(r *Record) int64 { return r.ShortestFlight })
	if elsewhere < 0 {
		return f, false, false
	}
	f = Finding{
		Kind: SlowEdge, Rank: int(r.From), To: new(int(r.To)), Took: r.Took, By: r.flight() - elsewhere, Longest: r.LongestFlight, Times: r.Flights,
	}
	sum := f.By * r.Flights
	slow = r.flight() >= slowTimes*elsewhere && sum >= r.Took/latePart && sum >= least
	once := r.LongestFlight >= stuckLeast && r.LongestFlight >= slowTimes*longest
	if once && !slow {
		f.Times = 1
	}
	return f, slow || once, r.Flights >= steadyFlights && r.ShortestFlight >= max(least, slowTimes*shortest)
}

// others is the median of what those of the other ranks have that have it, the lower one of
// two; -1: none has.
func others(all []Record, rank int, of func(*Record) int64) int64 {
	var values []int64
	for i := range all {
		if v := of(&all[i]); i != rank && v >= 0 {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return -1
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}

// why is what explains more than half of a lateness.
func why(all []Record, rank int, by int64) Why {
	for _, w := range []struct {
		why Why
		of  func(*Record) int64
	}{
		{Stood, func(r *Record) int64 { return r.Still }},
		{Entered, func(r *Record) int64 { return r.Outside }},
		{Reduced, func(r *Record) int64 { return r.Reduced }},
	} {
		if w.of(&all[rank])-others(all, rank, w.of) > by/2 {
			return w.why
		}
	}
	return ""
}

// Text says it, with the name of each rank.
func (f Finding) Text(name func(rank int) string) string {
	took := time.Duration(f.Took).Round(time.Millisecond)
	text := ""
	switch f.Kind {
	case LossyEdge:
		return fmt.Sprintf("the edge from %s to %s loses packets: %s", name(f.Rank), name(*f.To), f.Loss)
	case SlowRank:
		var edges []string
		for _, e := range f.Edges {
			edges = append(edges, fmt.Sprintf("from %s to %s %s longer than elsewhere, up to %s", name(e.From), name(e.To), span(e.By), span(e.Longest)))
		}
		return fmt.Sprintf("all slow edges involve %s: a segment takes %s; whether it sends or receives slowly is not known, links measures that", name(f.Rank), strings.Join(edges, ", and "))
	case SlowEdge:
		text = fmt.Sprintf("the edge from %s to %s is slow: a segment takes %s longer than elsewhere, up to %s", name(f.Rank), name(*f.To), span(f.By), span(f.Longest))
		if f.Times == 1 {
			text = fmt.Sprintf("the edge from %s to %s stood still once: a segment took %s", name(f.Rank), name(*f.To), span(f.Longest))
		}
		return text
	case NoCarrier:
		return fmt.Sprintf("the port of %s had no carrier for about %s of %s: look at the cable, the switch's port and its counters", name(f.Rank), span(f.By), took)
	case NoCPU:
		text = fmt.Sprintf("%s had no CPU: %s", name(f.Rank), span(f.NoCPU))
	default:
		text = name(f.Rank) + " was late"
	}
	text += fmt.Sprintf("; the others waited %s of %s for it, ", span(f.By), took)
	if f.Times == 1 {
		text += "once"
	} else {
		text += fmt.Sprintf("%d times, up to %s", f.Times, span(f.Longest))
	}
	if f.Why != "" && f.Kind == Late {
		text += ": " + string(f.Why)
	}
	return text
}

// span is a time in three digits or so.
func span(ns int64) string {
	d := time.Duration(ns)
	switch {
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(100 * time.Nanosecond).String()
}
