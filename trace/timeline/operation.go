// Package timeline tells how an operation of a collective went, rank by rank and
// step by step, from the ranks' recordings, and draws it as text.
package timeline

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"ringcli/trace"
)

// ErrNoOperation is what LastOperation returns for recordings without one.
var ErrNoOperation = errors.New("trace: no operation is recorded: run one (all-reduce --size 64K), and keep the recorder on (trace recorder on)")

// Operation is one operation of a collective as its ranks went through
// it. Times are in ns after its start unless said otherwise.
type Operation struct {
	Op       string      `json:"op"`
	Protocol string      `json:"protocol"`
	Seq      uint64      `json:"seq"`
	Bytes    uint64      `json:"bytes"`
	Start    int64       `json:"start"`       // ns since the Unix epoch, when the first rank began
	Duration int64       `json:"duration_ns"` // until the last rank ended
	Ranks    []Rank      `json:"per_rank"`
	Steps    []StepTimes `json:"steps"`
	// Slowest is the rank that waits least from when it began until the last rank
	// ended: the others wait for it, and so their steps take as long as its own. -1 if
	// there is one rank alone, or nothing is known of what they did.
	Slowest int `json:"slowest"`
}

// Rank is what one rank did in the operation.
type Rank struct {
	Rank     int   `json:"rank"`
	Start    int64 `json:"start_ns"`
	End      int64 `json:"end_ns"`
	Reducing int64 `json:"reducing_ns"` // reducing or copying segments
	// Waiting is when the rank neither reduced nor had a segment of its own
	// under way: only its left neighbour's data could take it further.
	Waiting      int64      `json:"waiting_ns"`
	WaitingShare float64    `json:"waiting_share"` // of the rank's time, 0 to 1
	Segments     int        `json:"segments"`      // received
	Steps        []StepSpan `json:"steps"`         // in the order of time
	Sends        []Interval `json:"-"`
	Receives     []Interval `json:"-"`
	Reduces      []Interval `json:"-"`
}

// Interval is from Start to End.
type Interval struct {
	Start int64 `json:"start_ns"`
	End   int64 `json:"end_ns"`
}

// StepSpan is one step of one rank.
type StepSpan struct {
	Phase string `json:"phase"` // reduce-scatter or all-gather, of an operation of one phase its name
	Step  int    `json:"step"`  // from 0 within its phase
	Bytes uint64 `json:"bytes"` // received
	Interval
	busy int64 // not waiting
}

// StepTimes is how long a step took on each rank, all its segments together.
type StepTimes struct {
	Phase     string  `json:"phase"`
	Step      int     `json:"step"`
	Durations []int64 `json:"duration_ns"` // in the order of Operation.Ranks
	Slowest   int     `json:"slowest"`     // the rank that was busy longest in it; -1 if all were as long, to 1 % of it
}

var phaseNames = [...]string{"reduce-scatter", "all-gather"}

// phaseName names a phase of an operation, which has one phase or is made of these two.
func phaseName(op string, phase uint64) string {
	if op == "all-reduce" {
		return phaseNames[min(phase, uint64(len(phaseNames)-1))]
	}
	return op
}

// LastOperation finds the operation that began last, in one recording or in those of a
// merge.
func LastOperation(list []trace.Recording) (Operation, error) {
	if len(list) > 1 && slices.ContainsFunc(list, func(r trace.Recording) bool { return !r.Aligned }) {
		return Operation{}, errors.New("trace: several recordings with clocks of their own: merge them first (trace merge)")
	}
	last := lastOperation(list, nil)
	if last == nil {
		return Operation{}, ErrNoOperation
	}
	// Of short operations only some have their steps recorded.
	if like := lastOperation(list, last); like != nil {
		last = like
	}
	t := Operation{
		Op: last.Args.Text("op"), Protocol: last.Args.Text("protocol"),
		Seq: last.Args.Value("seq"), Bytes: last.Args.Value("bytes"),
		Start: last.Start, Slowest: -1,
	}
	spans := make([]*trace.Event, len(list))
	for i := range list {
		if spans[i] = counterpart(&list[i], last); spans[i] != nil {
			t.Start = min(t.Start, spans[i].Start)
		}
	}
	for i, span := range spans {
		if span == nil {
			continue // lost, or not begun on this rank
		}
		rank := during(&list[i], span, t.Start)
		t.Duration = max(t.Duration, rank.End)
		t.Ranks = append(t.Ranks, rank)
	}
	if len(t.Ranks) > 1 {
		// Who ended first waits for the others, too.
		idle := func(r *Rank) int64 { return r.Waiting + t.Duration - r.End }
		least := slices.MinFunc(t.Ranks, func(a, b Rank) int { return cmp.Compare(idle(&a), idle(&b)) })
		if least.Waiting < least.End-least.Start {
			t.Slowest = least.Rank
		}
	}
	t.Steps = stepTimes(t.Ranks)
	return t, nil
}

// lastOperation is the one that began last. With like it is of that kind and has steps.
func lastOperation(list []trace.Recording, like *trace.Event) *trace.Event {
	var last *trace.Event
	for i := range list {
		stepped := map[uint64]bool{}
		for k := range list[i].Events {
			if e := &list[i].Events[k]; like != nil && e.Name == trace.StepName {
				stepped[e.Args.Value("seq")] = true
			}
		}
		for k := range list[i].Events {
			e := &list[i].Events[k]
			if e.Name != trace.OperationName || e.Type != trace.SpanEvent {
				continue
			}
			if like != nil && (!stepped[e.Args.Value("seq")] || !alike(e, like)) {
				continue
			}
			if last == nil || last.Start < e.Start {
				last = e
			}
		}
	}
	return last
}

// alike tells whether two operations do the same.
func alike(a, b *trace.Event) bool {
	return a.Args.Text("op") == b.Args.Text("op") && a.Args.Text("protocol") == b.Args.Text("protocol") && a.Args.Value("bytes") == b.Args.Value("bytes")
}

func magnitude(d int64) int64 { return max(d, -d) }

// counterpart finds a rank's part of the operation that another rank has as
// like: of the same number and name the nearest in time.
func counterpart(r *trace.Recording, like *trace.Event) *trace.Event {
	var best *trace.Event
	for k := range r.Events {
		e := &r.Events[k]
		if e.Name != trace.OperationName || e.Type != trace.SpanEvent || e.Args.Value("seq") != like.Args.Value("seq") || e.Args.Text("op") != like.Args.Text("op") {
			continue
		}
		if best == nil || magnitude(e.Start-like.Start) < magnitude(best.Start-like.Start) {
			best = e
		}
	}
	return best
}

// during collects what the rank did in its part of the operation.
func during(r *trace.Recording, operation *trace.Event, zero int64) Rank {
	t := Rank{Rank: r.Rank, Start: operation.Start - zero, End: operation.End - zero, Steps: []StepSpan{}}
	seq := operation.Args.Value("seq")
	for k := range r.Events {
		e := &r.Events[k]
		if e.Type != trace.SpanEvent || e.Args.Value("seq") != seq || e.End < operation.Start || e.Start > operation.End {
			continue
		}
		// A send may complete after its operation.
		part := Interval{max(e.Start, operation.Start) - zero, min(e.End, operation.End) - zero}
		switch e.Name {
		case trace.StepName:
			t.Steps = append(t.Steps, StepSpan{Phase: phaseName(operation.Args.Text("op"), e.Args.Value("phase")), Step: int(e.Args.Value("step")), Bytes: e.Args.Value("bytes"), Interval: part})
		case trace.SegmentSendName:
			t.Sends = append(t.Sends, part)
		case trace.SegmentReceiveName:
			t.Receives = append(t.Receives, part)
		case trace.SegmentReduceName, trace.WorkName:
			t.Reduces = append(t.Reduces, part)
		}
	}
	t.Segments = len(t.Receives)
	t.Reducing = lasting(joined(t.Reduces))
	busy := joined(slices.Concat(t.Reduces, t.Sends))
	t.Waiting = t.End - t.Start - lasting(busy)
	for i := range t.Steps {
		s := &t.Steps[i]
		for len(busy) > 0 && busy[0].End < s.Start {
			busy = busy[1:]
		}
		for _, part := range busy {
			if part.Start >= s.End {
				break
			}
			s.busy += min(part.End, s.End) - max(part.Start, s.Start)
		}
	}
	if t.End > t.Start {
		t.WaitingShare = float64(t.Waiting) / float64(t.End-t.Start)
	}
	return t
}

// joined makes one interval of those that overlap. It sorts them.
func joined(list []Interval) (apart []Interval) {
	slices.SortFunc(list, func(a, b Interval) int { return cmp.Compare(a.Start, b.Start) })
	for _, part := range list {
		if last := len(apart) - 1; last >= 0 && part.Start <= apart[last].End {
			apart[last].End = max(apart[last].End, part.End)
		} else {
			apart = append(apart, part)
		}
	}
	return apart
}

func lasting(list []Interval) (total int64) {
	for _, part := range list {
		total += part.End - part.Start
	}
	return total
}

// stepTimes adds up each step's spans: with several segments' widths a rank
// goes through all steps several times.
func stepTimes(ranks []Rank) []StepTimes {
	type key struct {
		phase string
		step  int
	}
	type sum struct{ durations, busy []int64 }
	sums := map[key]sum{}
	for i := range ranks {
		for _, s := range ranks[i].Steps {
			k := key{s.Phase, s.Step}
			if sums[k].durations == nil {
				sums[k] = sum{make([]int64, len(ranks)), make([]int64, len(ranks))}
			}
			sums[k].durations[i] += s.End - s.Start
			sums[k].busy[i] += s.busy
		}
	}
	list := []StepTimes{}
	for k, s := range sums {
		slowest, most := -1, slices.Max(s.busy)
		if float64(most-slices.Min(s.busy)) > 0.01*float64(slices.Max(s.durations)) {
			slowest = ranks[slices.Index(s.busy, most)].Rank
		}
		list = append(list, StepTimes{k.phase, k.step, s.durations, slowest})
	}
	slices.SortFunc(list, func(a, b StepTimes) int {
		// reduce-scatter comes before all-gather
		return cmp.Or(-cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.Step, b.Step))
	})
	return list
}

// title says in one line what the timeline is of.
func (t *Operation) title() string {
	ranks := "1 rank"
	if n := len(t.Ranks); n != 1 {
		ranks = fmt.Sprintf("%d ranks", n)
	}
	of := ""
	if t.Bytes > 0 {
		of = " of " + sizeText(t.Bytes)
	}
	return fmt.Sprintf("operation %d: %s%s, %s, %s, %s us", t.Seq, trace.Printable(t.Op), of, trace.Printable(t.Protocol), ranks, usText(t.Duration))
}
