package timeline

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ringcli/trace"
	"ringcli/trace/tracetest"
)

// epoch is time 0 of fourRanks, ns since the Unix epoch.
const epoch = int64(1_900_000_000_000_000_000)

// show draws the last operation of recordings.
func show(w io.Writer, list []trace.Recording, width int, colored bool) error {
	t, err := LastOperation(list)
	if err != nil {
		return err
	}
	return t.Draw(w, width, colored)
}

// fourRanks is an all-reduce of four ranks as a merge has it, in which rank 2
// reduces slowly and rank 3 begins late. Times are in us.
func fourRanks() []trace.Recording {
	const us = 1000
	var list []trace.Recording
	for rank := range 4 {
		r := trace.Recording{Rank: rank, Size: 4, Aligned: true}
		add := func(name string, start, end int64, args trace.Args) {
			r.Events = append(r.Events, trace.Event{Type: trace.SpanEvent, Subsystem: "collective", Name: name, Start: epoch + start*us, End: epoch + end*us, Args: args})
		}
		begin := int64(0)
		if rank == 3 {
			begin = 4
		}
		for i := range int64(6) {
			at, end := max(begin, i*20), (i+1)*20
			part := func(third string) trace.Args {
				return trace.Args{{Name: "seq", Value: 9}, {Name: "position", Value: uint64(i)}, {Name: "bytes", Value: 16384}, {Name: third, Value: 1}}
			}
			add(trace.SegmentSendName, at, at+7, part("peer"))
			add(trace.SegmentReceiveName, at, end, part("peer"))
			work := int64(3)
			if rank == 2 && i < 3 {
				work = 11
			}
			add(trace.SegmentReduceName, end-work, end, part("none"))
			add(trace.StepName, at, end, trace.Args{{Name: "seq", Value: 9}, {Name: "phase", Value: uint64(i / 3)}, {Name: "step", Value: uint64(i % 3)}, {Name: "bytes", Value: 16384}})
		}
		operation := func(op string, seq uint64) trace.Args {
			return trace.Args{{Name: "op", Text: op, IsText: true}, {Name: "seq", Value: seq}, {Name: "bytes", Value: 65536}, {Name: "protocol", Text: "eager", IsText: true}}
		}
		add(trace.OperationName, -200, -100, operation("all-reduce", 8))
		add(trace.OperationName, begin, 120, operation("all-reduce", 9))
		slices.SortStableFunc(r.Events, func(a, b trace.Event) int { // as Read does
			return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
		})
		list = append(list, r)
	}
	return list
}

// direct is an all-reduce of three ranks that share memory: they send nothing. Rank 1
// works longest, and long; rank 0, which waits for it at first, has ended before.
func direct() []trace.Recording {
	const ms = 1_000_000
	var list []trace.Recording
	for rank, work := range [][]Interval{{{2, 9}, {11, 12}}, {{1, 12}, {12, 2000}}, {{2, 9}, {11, 900}}} {
		r := trace.Recording{Rank: rank, Size: 3, Aligned: true}
		add := func(name string, start, end int64, args trace.Args) {
			r.Events = append(r.Events, trace.Event{Type: trace.SpanEvent, Subsystem: "collective", Name: name, Start: epoch + start*ms, End: epoch + end*ms, Args: args})
		}
		end := work[1].End
		add(trace.OperationName, 0, end, trace.Args{{Name: "op", Text: "all-reduce", IsText: true}, {Name: "seq", Value: 9}, {Name: "bytes", Value: 1 << 30}, {Name: "protocol", Text: "direct", IsText: true}})
		for phase, at := range []Interval{{0, 10}, {10, end}} {
			add(trace.StepName, at.Start, at.End, trace.Args{{Name: "seq", Value: 9}, {Name: "phase", Value: uint64(phase)}, {Name: "step", Value: 0}, {Name: "bytes", Value: 1 << 29}})
		}
		for i, part := range work {
			add(trace.WorkName, part.Start, part.End, trace.Args{{Name: "seq", Value: 9}, {Name: "position", Value: uint64(i)}})
		}
		list = append(list, r)
	}
	return list
}

// The slowest is the rank for which the others wait, not the one that ended first and
// so has waited for a short time, nor the one whose steps take long since it waits.
func TestSlowestOfRanksThatShareMemory(t *testing.T) {
	got, err := LastOperation(direct())
	if err != nil || got.Slowest != 1 || len(got.Steps) != 2 || got.Steps[0].Slowest != 1 || got.Steps[1].Slowest != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if r := got.Ranks[0]; r.Reducing != 8e6 || r.Waiting != 4e6 {
		t.Errorf("rank 0 is %+v", r)
	}
}

// Of several operations of a kind the last that has steps is shown.
func TestTheLastWithStepsIsShown(t *testing.T) {
	list := direct()
	for i := range list {
		last := list[i].Events[0]
		last.Start, last.End = epoch+3e9, epoch+4e9
		last.Args = slices.Clone(last.Args)
		last.Args[1].Value = 10
		list[i].Events = append(list[i].Events, last)
	}
	if got, err := LastOperation(list); err != nil || got.Seq != 9 || len(got.Steps) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range list {
		list[i].Events[len(list[i].Events)-1].Args[2].Value = 8 // another kind
	}
	if got, err := LastOperation(list); err != nil || got.Seq != 10 || got.Slowest != -1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Where nothing is known of what the ranks did, none of them is blamed.
func TestNobodyIsBlamedForNothing(t *testing.T) {
	list := direct()
	for i := range list {
		list[i].Events = list[i].Events[:1]
	}
	var b bytes.Buffer
	if got, err := LastOperation(list); err != nil || got.Slowest != -1 || got.Draw(&b, 0, false) != nil || !strings.HasSuffix(b.String(), "\nOf what the ranks did in it nothing is recorded.\n") {
		t.Errorf("slowest %d, %v\n%s", got.Slowest, err, &b)
	}
}

func TestLastOperation(t *testing.T) {
	got, err := LastOperation(fourRanks())
	if err != nil {
		t.Fatal(err)
	}
	if got.Op != "all-reduce" || got.Protocol != "eager" || got.Seq != 9 || got.Bytes != 65536 || got.Start != epoch || got.Duration != 120_000 || got.Slowest != 2 {
		t.Errorf("got %+v", got)
	}
	if len(got.Ranks) != 4 || len(got.Steps) != 6 {
		t.Fatalf("%d ranks and %d steps, want 4 and 6", len(got.Ranks), len(got.Steps))
	}
	if got.Steps[0].Slowest != 2 || got.Steps[3].Slowest != -1 {
		t.Errorf("slowest of the first step of each phase: %d and %d, want 2 and -1", got.Steps[0].Slowest, got.Steps[3].Slowest)
	}
	for i, want := range []struct{ start, reducing, waiting int64 }{
		{0, 18_000, 120_000 - 6*10_000}, {0, 18_000, 60_000}, {0, 42_000, 36_000}, {4_000, 18_000, 56_000},
	} {
		r := got.Ranks[i]
		if r.Rank != i || r.Start != want.start || r.End != 120_000 || r.Reducing != want.reducing || r.Waiting != want.waiting || r.Segments != 6 {
			t.Errorf("rank %d is %+v, want %+v", i, r, want)
		}
	}
	if share := got.Ranks[1].WaitingShare; share != 0.5 {
		t.Errorf("rank 1 waits %v of its time, want a half", share)
	}
	first, last := got.Steps[0], got.Steps[5]
	if first.Phase != "reduce-scatter" || first.Step != 0 || !reflect.DeepEqual(first.Durations, []int64{20_000, 20_000, 20_000, 16_000}) || last.Phase != "all-gather" || last.Step != 2 {
		t.Errorf("steps begin with %+v and end with %+v", first, last)
	}
}

func TestLastOperationRefuses(t *testing.T) {
	if _, err := LastOperation([]trace.Recording{{}}); !errors.Is(err, ErrNoOperation) {
		t.Errorf("without an operation: %v", err)
	}
	list := fourRanks()
	list[1].Aligned = false
	if _, err := LastOperation(list); err == nil || !strings.Contains(err.Error(), "merge them first") {
		t.Errorf("with clocks of their own: %v", err)
	}
	if _, err := LastOperation(list[1:2]); err != nil {
		t.Errorf("a single recording: %v", err)
	}
}

// A barrier is an operation like others, which moves nothing.
func TestBarrier(t *testing.T) {
	list := fourRanks()[:1]
	list[0].Events = append(list[0].Events, trace.Event{Type: trace.SpanEvent, Subsystem: "collective", Name: trace.OperationName, Start: epoch + 130_000, End: epoch + 140_000, Args: trace.Args{
		{Name: "op", Text: "barrier", IsText: true}, {Name: "seq", Value: 10}, {Name: "bytes"}, {Name: "protocol", Text: "tree", IsText: true},
	}})
	got, err := LastOperation(list)
	if err != nil || got.Op != "barrier" || got.Slowest != -1 {
		t.Errorf("got %+v, %v", got, err)
	}
	var b bytes.Buffer
	if err := got.Draw(&b, 0, false); err != nil || !strings.HasPrefix(b.String(), "operation 10: barrier, tree, 1 rank, 10.0 us\n") {
		t.Errorf("%v: %s", err, &b)
	}
}

func TestGoldenShow(t *testing.T) {
	t.Setenv("NO_COLOR", "1") // the caller decides, not the environment
	list := fourRanks()
	for _, test := range []struct {
		name    string
		list    []trace.Recording
		width   int
		colored bool
	}{
		{"show.txt", list, 0, false},
		{"show.color.txt", list, 80, true},
		{"show.narrow.txt", list, 20, false},
		{"show.wide.txt", list, 120, false},
		{"show.one.txt", list[2:3], 64, false},
		{"show.direct.txt", direct(), 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := show(&b, test.list, test.width, test.colored); err != nil {
				t.Fatal(err)
			}
			width := max(test.width, leastWidth)
			if test.width == 0 {
				width = defaultWidth
			}
			for line := range strings.Lines(b.String()) {
				text := strings.TrimSuffix(line, "\n")
				if visible(text) > width {
					t.Errorf("%d columns, want at most %d: %q", visible(text), width, text)
				}
				if strings.ContainsFunc(escape.ReplaceAllString(text, ""), func(r rune) bool { return r < ' ' || r > '~' }) || !test.colored && strings.Contains(text, "\x1b") {
					t.Errorf("not plain ASCII: %q", text)
				}
			}
			tracetest.Golden(t, test.name, b.Bytes())
		})
	}
}

func TestSizeText(t *testing.T) {
	for bytes, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 65536: "64 KiB", 1536 << 10: "1.5 MiB", 1 << 30: "1 GiB"} {
		if got := sizeText(bytes); got != want {
			t.Errorf("%d is %q, want %q", bytes, got, want)
		}
	}
}

// TestDrawAnything draws what could divide by zero or leave the row.
func TestDrawAnything(t *testing.T) {
	for _, duration := range []int64{0, 1, 999, 1 << 40} {
		timeline := Operation{Duration: duration, Ranks: []Rank{{End: duration,
			Steps: []StepSpan{{Phase: phaseNames[0], Interval: Interval{duration, duration}}},
			Sends: []Interval{{0, 0}, {duration, duration}, {0, duration}}}}}
		for width := range 200 {
			if err := timeline.Draw(&bytes.Buffer{}, width, width%2 == 0); err != nil {
				t.Errorf("%d ns in %d columns: %v", duration, width, err)
			}
		}
	}
	if got := fmt.Sprint(roundStep(120_000, 5), roundStep(1, 5), roundStep(99, 5)); got != "50000 1 20" {
		t.Errorf("round steps %s", got)
	}
}
