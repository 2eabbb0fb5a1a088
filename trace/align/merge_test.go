package align

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ringcli/trace"
	"ringcli/trace/tracetest"
)

// world is a ring whose true times are known: each rank's clock is off by an
// offset and drifts, and each recording has the times of its own clock.
type world struct {
	rng    *rand.Rand
	offset []float64 // ns at time 0
	ppm    []float64
	list   []trace.Recording
	truth  [][]int64 // true start of each event, ns
}

// epoch is time 0 of worlds, ns since the Unix epoch.
const epoch = int64(1_900_000_000_000_000_000)

func newWorld(seed uint64, n int) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, uint64(n))), truth: make([][]int64, n)}
	for rank := range n {
		w.offset = append(w.offset, (w.rng.Float64()*2-1)*50e6)
		w.ppm = append(w.ppm, (w.rng.Float64()*2-1)*200)
		w.list = append(w.list, trace.Recording{Rank: rank, Size: n, Run: "r1", Host: fmt.Sprint("node", rank), PID: 100 + rank})
	}
	return w
}

// clock is what rank's clock shows at a true time.
func (w *world) clock(rank int, at int64) int64 {
	return epoch + at + int64(math.Round(w.offset[rank]+w.ppm[rank]*float64(at)/1e6))
}

// delay is a way over the network: some microseconds at least, at times much
// more.
func (w *world) delay(least, mean float64) int64 {
	d := least + w.rng.ExpFloat64()*mean
	if w.rng.IntN(10) == 0 {
		d *= 20
	}
	return int64(d)
}

// samples compares rank's clock with its right neighbour's, as the heartbeat
// does: each second, over ways that are not equally long.
func (w *world) samples(rank int, from, to int64) {
	right := (rank + 1) % len(w.list)
	for at := from; at < to; at += 1e9 {
		asked := at + w.rng.Int64N(1e8)
		answered := asked + w.delay(15e3, 10e3)
		heard := answered + w.delay(25e3, 10e3)
		t1, t2, t4 := w.clock(rank, asked), w.clock(right, answered), w.clock(rank, heard)
		w.list[rank].Clock = append(w.list[rank].Clock, trace.ClockSample{Peer: right, At: (t1 + t4) / 2, Offset: t2 - (t1+t4)/2, RTT: t4 - t1})
	}
}

func (w *world) span(rank int, name string, start, end int64, args ...uint64) {
	e := trace.Event{Type: trace.SpanEvent, Subsystem: "collective", Name: name, Start: w.clock(rank, start), End: w.clock(rank, end)}
	for i, key := range []string{"seq", "position", "bytes", "peer"}[:len(args)] {
		e.Args = append(e.Args, trace.Arg{Name: key, Value: args[i]})
	}
	w.list[rank].Events = append(w.list[rank].Events, e)
	w.truth[rank] = append(w.truth[rank], start)
}

// operation sends segments round the ring, starting at a true time.
func (w *world) operation(seq uint64, at int64, segments int) {
	n := len(w.list)
	for position := range uint64(segments) {
		for rank := range n {
			right := (rank + 1) % n
			sent := at + int64(position)*40e3 + w.rng.Int64N(5e3)
			arrived := sent + w.delay(4e3, 3e3)
			w.span(rank, trace.SegmentSendName, sent, sent+w.delay(6e3, 5e3), seq, position, 65536, uint64(right))
			w.span(right, trace.SegmentReceiveName, arrived-w.rng.Int64N(3e3), arrived, seq, position, 65536, uint64(rank))
		}
	}
}

// TestMergeAligns is the claim: with clocks that are 50 ms off and drift by
// 200 ppm, with samples that are noisy and ways that are not equally long, no
// segment arrives before it is sent, and every event lies where it happened on
// rank 0's clock, to within the bound that the merge states.
func TestMergeAligns(t *testing.T) {
	for n := 2; n <= 8; n++ {
		for seed := range uint64(6) {
			t.Run(fmt.Sprintf("%d ranks seed %d", n, seed), func(t *testing.T) {
				w := newWorld(seed, n)
				length := int64(1+w.rng.IntN(120)) * 1e9
				for rank := range n {
					w.samples(rank, 0, length)
				}
				for seq := range uint64(20) {
					w.operation(seq+1, length/20*int64(seq), 30)
				}
				m, err := Merge(w.list)
				if err != nil {
					t.Fatal(err)
				}
				if m.Violations != 0 || m.Worst != 0 || m.Segments != 20*30*n || len(m.Missing) != 0 || len(m.Warnings) != 0 || m.Reference != 0 {
					t.Errorf("got %d violations (%d ns) of %d segments, missing %v, warnings %q", m.Violations, m.Worst, m.Segments, m.Missing, m.Warnings)
				}
				for _, f := range m.flows {
					if sent, arrived := m.Ranks[f.From].Events[f.Send].Start, m.Ranks[f.To].Events[f.Receive].End; arrived < sent {
						t.Fatalf("a segment arrives %d ns before it is sent", sent-arrived)
					}
				}
				for rank := range n {
					worst := int64(0)
					for k, e := range m.Ranks[rank].Events {
						worst = max(worst, magnitude(e.Start-w.clock(0, w.truth[rank][k])))
					}
					bound := m.Clocks[rank].Bound
					if worst > bound || bound < 0 || bound > int64(n)*60e3 {
						t.Errorf("rank %d is off by up to %d ns, bound %d ns", rank, worst, bound)
					}
					t.Logf("rank %d: worst %d ns, bound %d ns", rank, worst, bound)
				}
			})
		}
	}
}

// TestMergeOfClocksNeverSet has clocks that are hours apart.
func TestMergeOfClocksNeverSet(t *testing.T) {
	w := newWorld(9, 4)
	for rank := range w.list {
		w.offset[rank] *= 200_000 // up to 2.7 h
	}
	for rank := range w.list {
		w.samples(rank, 0, 20e9)
	}
	for seq := range uint64(10) {
		w.operation(seq, int64(seq)*2e9, 20)
	}
	m, err := Merge(w.list)
	if err != nil {
		t.Fatal(err)
	}
	for rank := range w.list {
		for k, e := range m.Ranks[rank].Events {
			if off := magnitude(e.Start - w.clock(0, w.truth[rank][k])); off > m.Clocks[rank].Bound {
				t.Fatalf("rank %d is off by %d ns, bound %d ns", rank, off, m.Clocks[rank].Bound)
			}
		}
	}
	if m.Violations != 0 {
		t.Errorf("%d violations, %d ns", m.Violations, m.Worst)
	}
}

// TestCausalityRefinesPoorSamples gives the merge one sample a rank, off by
// milliseconds, and no drift: the segments alone must put the ranks in order.
func TestCausalityRefinesPoorSamples(t *testing.T) {
	for seed := range uint64(10) {
		w := newWorld(seed, 5)
		for rank := range w.list {
			right := (rank + 1) % 5
			wrong := w.rng.Int64N(6e6) - 3e6
			w.list[rank].Clock = []trace.ClockSample{{Peer: right, At: w.clock(rank, 0), Offset: w.clock(right, 0) - w.clock(rank, 0) + wrong, RTT: 6e6}}
		}
		for seq := range uint64(10) {
			w.operation(seq, int64(seq)*3e9, 20)
		}
		m, err := Merge(w.list)
		if err != nil {
			t.Fatal(err)
		}
		if m.Violations != 0 || m.Segments != 1000 {
			t.Errorf("seed %d: %d violations of %d by up to %d ns", seed, m.Violations, m.Segments, m.Worst)
		}
	}
}

// Segments place a clock of which no sample is known, and one whose samples leave no doubt, and stretch
// neither.
func TestSegmentsStretchNoClock(t *testing.T) {
	for name, clock := range map[string][]trace.ClockSample{
		"no samples":  nil,
		"no doubt":    {{Peer: 2, At: epoch, Offset: -100e6}, {Peer: 2, At: epoch + 1e6, Offset: -100e6}},
		"too far off": {{Peer: 2, At: epoch, Offset: -100e6 + 2e5, RTT: 1e5}, {Peer: 2, At: epoch + 1e7, Offset: -100e6 + 2e5, RTT: 1e5}},
	} {
		w := newWorld(1, 4)
		w.offset[0], w.ppm[0], w.offset[2], w.ppm[2] = 0, 0, -100e6, 0
		for position := range uint64(50) { // all go one way
			sent := int64(position) * 2e5
			w.span(0, trace.SegmentSendName, sent, sent+2000, 1, position, 64, 2)
			w.span(2, trace.SegmentReceiveName, sent+1000, sent+3000, 1, position, 64, 0)
		}
		w.list[0].Clock = clock
		m, err := Merge([]trace.Recording{w.list[0], w.list[2]})
		if err != nil {
			t.Fatal(err)
		}
		c := m.Clocks[1]
		if m.Violations != 0 || !(math.Abs(c.DriftPPM) <= 501) || magnitude(c.Offset-100e6) > 1e6+magnitude(c.Bound) {
			t.Errorf("%s: %d violations, %+v", name, m.Violations, c)
		}
		for i, e := range m.Ranks[1].Events {
			if took := w.list[2].Events[i].End - w.list[2].Events[i].Start; magnitude(e.End-e.Start-took) > 2 {
				t.Errorf("%s: an event of %d ns takes %d", name, took, e.End-e.Start)
				break
			}
		}
	}
}

// TestMergeSaysWhatRemains gives segments that no clock explains.
func TestMergeSaysWhatRemains(t *testing.T) {
	w := newWorld(1, 3)
	for rank := range w.list {
		w.samples(rank, 0, 10e9)
	}
	w.operation(1, 1e9, 10)
	for rank := range w.list {
		right := (rank + 1) % 3
		w.span(rank, trace.SegmentSendName, 2e9, 2e9+1000, 2, 0, 64, uint64(right))
		w.span(right, trace.SegmentReceiveName, 2e9-400e3, 2e9-300e3, 2, 0, 64, uint64(rank))
	}
	m, err := Merge(w.list)
	if err != nil {
		t.Fatal(err)
	}
	if m.Violations == 0 || m.Worst < 290e3 || len(m.Warnings) != 1 || !strings.Contains(m.Warnings[0], "arrive before they are sent, by up to") {
		t.Errorf("%d violations, worst %d ns, warnings %q", m.Violations, m.Worst, m.Warnings)
	}
}

func TestMergeNamesMissingRanks(t *testing.T) {
	w := newWorld(3, 6)
	for rank := range w.list {
		w.samples(rank, 0, 10e9)
	}
	w.operation(1, 1e9, 10)
	m, err := Merge([]trace.Recording{w.list[4], w.list[1], w.list[2]})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(m.Missing, []int{0, 3, 5}) || m.Reference != 1 || m.Ranks[2].Rank != 4 || m.Violations != 0 {
		t.Errorf("missing %v, reference %d", m.Missing, m.Reference)
	}
	want := []string{"no recording of rank 0, 3 and 5 of 6", "no clock samples connect rank 4 with rank 1: placed by its own clock and its segments"}
	if !reflect.DeepEqual(m.Warnings, want) {
		t.Errorf("warnings %q, want %q", m.Warnings, want)
	}
	if m.Clocks[2].Bound != -1 {
		t.Errorf("rank 4's bound is %d, want -1", m.Clocks[2].Bound)
	}
}

func TestMergeOfARingOpenedAnew(t *testing.T) {
	w := newWorld(4, 2)
	for rank := range w.list {
		w.samples(rank, 0, 30e9)
	}
	w.operation(1, 1e9, 10)
	w.operation(1, 20e9, 10) // the second ring counts from 1 again
	for rank := range w.list {
		w.list[rank].Events = w.list[rank].Events[4+2*rank:] // what was overwritten differs
	}
	m, err := Merge(w.list)
	if err != nil {
		t.Fatal(err)
	}
	if m.Violations != 0 {
		t.Errorf("%d violations, %d ns", m.Violations, m.Worst)
	}
	for _, f := range m.flows {
		if took := m.Ranks[f.To].Events[f.Receive].End - m.Ranks[f.From].Events[f.Send].Start; took > 1e9 && f.Send > 4 {
			t.Errorf("a segment took %d ns", took)
		}
	}
}

func TestMergeRefuses(t *testing.T) {
	rank := func(n int, change func(*trace.Recording)) trace.Recording {
		r := trace.Recording{Rank: n, Size: 2, Run: "r1", Source: fmt.Sprintf("r%d.json", n)}
		if change != nil {
			change(&r)
		}
		return r
	}
	for want, list := range map[string][]trace.Recording{
		"none given": nil,
		"rank 1 is there twice, as r1.json and as again.json":                          {rank(1, nil), rank(0, nil), rank(1, func(r *trace.Recording) { r.Source = "again.json" })},
		`different runs: r0.json is of run "r1", r1.json of run "r2"`:                  {rank(0, nil), rank(1, func(r *trace.Recording) { r.Run = "r2" })},
		"r1.json is of a ring of 2 ranks, others are of a ring of 4":                   {rank(1, nil), rank(0, func(r *trace.Recording) { r.Size = 4 })},
		"r1.json is merged already":                                                    {rank(0, nil), rank(1, func(r *trace.Recording) { r.Aligned = true })},
		"rank -1 (h, pid 7, written 00:00:00.000) is of a process that was in no ring": {{Rank: -1, Host: "h", PID: 7}},
		"r2.json is of rank 2 in a ring of 2: want 0 to 1":                             {rank(2, nil)},
	} {
		_, err := Merge(list)
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, ErrMerge) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// TestMergedFiles writes a merge, checks it, and reads it back.
func TestMergedFiles(t *testing.T) {
	w := newWorld(5, 4)
	for rank := range w.list {
		w.samples(rank, 0, 5e9)
	}
	w.operation(1, 1e9, 30)
	m, err := Merge(w.list)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	if err := tracetest.CheckChrome(bytes.NewReader(b.Bytes())); err != nil {
		t.Error(err)
	}
	if got := strings.Count(b.String(), `"ph":"f"`); got != m.Segments {
		t.Errorf("%d arrows, want %d", got, m.Segments)
	}
	back, err := trace.Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range back {
		slices.SortStableFunc(m.Ranks[i].Events, func(a, b trace.Event) int { // as Read does
			return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
		})
	}
	if !reflect.DeepEqual(back, m.Ranks) {
		t.Error("read back it differs")
	}
	if _, err := Merge(back); err == nil || !strings.Contains(err.Error(), "merged already") {
		t.Errorf("merged again: %v", err)
	}
}
