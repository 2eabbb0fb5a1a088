package lateness

import (
	"fmt"
	"slices"
	"time"
)

// Kind is what kept a ring waiting.
type Kind string

// The kinds.
const (
	Late     Kind = "late"      // a rank
	NoCPU    Kind = "no-cpu"    // a rank that was ready to run and did not
	SlowEdge Kind = "slow-edge" // from a rank to another
)

// Finding is who or what kept the ring waiting in some time.
type Finding struct {
	Kind    Kind  `json:"kind"`
	Rank    int   `json:"rank"`         // of an edge, its sender
	To      *int  `json:"to,omitempty"` // of an edge, or of no-cpu where only an edge was slow for it
	Took    int64 `json:"took_ns"`      // that time
	By      int64 `json:"by_ns"`        // of it: how much longer the others waited than this rank; of an edge, how much longer a segment takes than elsewhere
	Longest int64 `json:"longest_ns"`   // at once
	Times   int64 `json:"times"`        // of 1 ms and more; of an edge, its segments, or 1 if it was one of them
	NoCPU   int64 `json:"no_cpu_ns"`    // the rank had none for so long
	Why     Why   `json:"why,omitempty"`
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
	// aCPU is awaited for no longer, where a machine is not overloaded beyond use.
	aCPU = int64(10 * time.Millisecond)
	// least is no figure to tell anybody of.
	least = int64(2 * time.Millisecond)
)

// Excuse sets how much of their lateness ranks had no CPU for. The shorter the time is that
// the records are of, the surer is it that one comes of the other.
func Excuse(all []Record) {
	for rank := range all {
		all[rank].excused = max(0, min(all[rank].NoCPU, all[rank].lateness(all, rank)))
	}
}

func (r *Record) lateness(all []Record, rank int) int64 {
	return others(all, rank, func(r *Record) int64 { return r.Waited }) - r.Waited
}

// Judge tells from the records of all ranks, by rank, of the same time, who or what kept
// the ring waiting. They were excused.
func Judge(all []Record) (found []Finding) {
	explained := make([]bool, len(all))
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
		if f.Why = why(all, rank, f.By); r.excused >= f.By/2 {
			f.Kind = NoCPU
		}
		explained[rank] = true
		found = append(found, f)
	}
	for rank := range all {
		r := &all[rank]
		if from, to := int(r.From), int(r.To); r.Flights > 0 && min(from, to) >= 0 && from < len(all) && to < len(all) && !explained[from] && !explained[to] {
			if f, slow := edge(all, rank); slow {
				if all[to].NoCPU > all[from].NoCPU {
					from, to = to, from
				}
				usual := others(all, from, func(r *Record) int64 { return r.NoCPU })
				if f.NoCPU = all[from].NoCPU; f.NoCPU >= r.Took/latePart && (f.By < aCPU || f.NoCPU >= 2*usual) {
					f.Kind, f.Rank, f.To = NoCPU, from, &to
					explained[from] = true
				}
				found = append(found, f)
			}
		}
	}
	return found
}

// edge tells whether the edge in a rank's record is slow.
func edge(all []Record, rank int) (f Finding, slow bool) {
	r := &all[rank]
	elsewhere := others(all, rank, func(r *Record) int64 {
		if r.Flights == 0 {
			return -1
		}
		return r.flight()
	})
	longest := others(all, rank, func(r *Record) int64 { return r.LongestFlight })
	if elsewhere < 0 {
		return f, false
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
	return f, slow || once
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
	case SlowEdge:
		text = fmt.Sprintf("the edge from %s to %s is slow: a segment takes %s longer than elsewhere, up to %s", name(f.Rank), name(*f.To), span(f.By), span(f.Longest))
		if f.Times == 1 {
			text = fmt.Sprintf("the edge from %s to %s stood still once: a segment took %s", name(f.Rank), name(*f.To), span(f.Longest))
		}
		return text
	case NoCPU:
		if f.To != nil {
			return fmt.Sprintf("%s had no CPU: %s of %s; segments between it and %s took long", name(f.Rank), span(f.NoCPU), took, name(*f.To))
		}
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
