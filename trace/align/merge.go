// Package align puts the recordings of a ring's ranks, each with a clock of its own,
// on one time axis.
package align

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"ringcli/trace"
)

// ErrMerge is wrapped by every error of Merge.
var ErrMerge = errors.New("trace: recordings cannot be merged")

// Merged is the recordings of a ring's ranks on one time axis.
type Merged struct {
	Ranks     []trace.Recording `json:"-"`         // aligned, in the order of ranks
	Reference int               `json:"reference"` // the rank whose clock is the axis: 0 unless that is missing
	Missing   []int             `json:"missing"`   // ranks of the ring without a recording
	Clocks    []ClockFit        `json:"clocks"`    // of Ranks
	Segments  int               `json:"segments"`  // sends that were matched with their receives
	// Violations counts the segments whose receive still ends before its send
	// begins, by at most Worst ns. With true samples there are none.
	Violations int      `json:"violations"`
	Worst      int64    `json:"worst_ns"`
	Warnings   []string `json:"warnings"` // for people; one sentence each

	flows []trace.Flow
}

// Merge puts the recordings of a ring's ranks, one of each, on the time axis
// of rank 0.
//
// A rank's clock is taken to run at a constant rate. Its offset and rate come from
// the clock samples of the ring's edges with the shortest round trips. Clocks are then
// moved by as much as they are in doubt, so that no segment's receive ends before its
// send began.
//
// Ranks that are missing are named in the result; ranks that are there twice,
// different runs and sizes of the ring are errors. The inputs are not changed.
func Merge(inputs []trace.Recording) (*Merged, error) {
	m := &Merged{Missing: []int{}, Warnings: []string{}}
	size, err := sameRing(inputs)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMerge, err)
	}
	list := slices.Clone(inputs)
	slices.SortFunc(list, func(a, b trace.Recording) int { return cmp.Compare(a.Rank, b.Rank) })
	m.Reference = list[0].Rank
	for rank, i := 0, 0; rank < size; rank++ {
		if i < len(list) && list[i].Rank == rank {
			i++
		} else {
			m.Missing = append(m.Missing, rank)
		}
	}
	if len(m.Missing) > 0 {
		m.warn("no recording of rank %s of %d", enumerate(m.Missing), size)
	}
	a := newAlignment(list)
	for i, c := range a.clocks {
		if c.bound < 0 {
			m.warn("no clock samples connect rank %d with rank %d: placed by its own clock and its segments", list[i].Rank, m.Reference)
		}
	}
	pairs, strange := a.match()
	if strange > 0 {
		m.warn("%d receives have no send of their time: not compared (an earlier ring of the same processes?)", strange)
	}
	a.satisfy(pairs)

	m.Ranks, m.Clocks = a.apply(), a.fits()
	m.Segments, m.flows = len(pairs), pairs
	for _, p := range pairs {
		if early := m.Ranks[p.From].Events[p.Send].Start - m.Ranks[p.To].Events[p.Receive].End; early > 0 {
			m.Violations++
			m.Worst = max(m.Worst, early)
		}
	}
	if m.Violations > 0 {
		m.warn("%d of %d segments arrive before they are sent, by up to %.3f us: the clocks did not run evenly, or were set", m.Violations, m.Segments, float64(m.Worst)/1e3)
	}
	return m, nil
}

func (m *Merged) warn(format string, args ...any) {
	m.Warnings = append(m.Warnings, fmt.Sprintf(format, args...))
}

// Write writes all ranks as one file, with an arrow for each segment. trace.Read reads it
// back.
func (m *Merged) Write(w io.Writer) error {
	return trace.WriteRecordings(w, m.Ranks, m.flows...)
}

// sameRing checks that the recordings are of one ring, each rank once, and
// returns the ring's size.
func sameRing(list []trace.Recording) (size int, err error) {
	if len(list) == 0 {
		return 0, errors.New("none given: want one of each rank")
	}
	size = slices.MaxFunc(list, func(a, b trace.Recording) int { return cmp.Compare(a.Size, b.Size) }).Size
	seen := map[int]*trace.Recording{}
	run := &list[0]
	for i := range list {
		r := &list[i]
		switch other := seen[r.Rank]; {
		case r.Aligned:
			return 0, fmt.Errorf("%s is merged already: want the ranks' own recordings", what(r))
		case r.Rank < 0:
			return 0, fmt.Errorf("%s is of a process that was in no ring", what(r))
		case other != nil:
			return 0, fmt.Errorf("rank %d is there twice, as %s and as %s: keep one", r.Rank, what(other), what(r))
		case r.Size != 0 && r.Size != size:
			return 0, fmt.Errorf("%s is of a ring of %d ranks, others are of a ring of %d", what(r), r.Size, size)
		case r.Size != 0 && r.Rank >= r.Size:
			return 0, fmt.Errorf("%s is of rank %d in a ring of %d: want 0 to %d", what(r), r.Rank, r.Size, r.Size-1)
		case run.Run == "":
			run = r
		case r.Run != "" && r.Run != run.Run:
			return 0, fmt.Errorf("different runs: %s is of run %q, %s of run %q", what(run), run.Run, what(r), r.Run)
		}
		seen[r.Rank] = r
	}
	if size == 0 {
		size = slices.MaxFunc(list, func(a, b trace.Recording) int { return cmp.Compare(a.Rank, b.Rank) }).Rank + 1
	}
	return size, nil
}

// what names a recording in an error.
func what(r *trace.Recording) string {
	if r.Source != "" {
		return r.Source
	}
	return fmt.Sprintf("rank %d (%s, pid %d, written %s)", r.Rank, trace.Printable(r.Host), r.PID, r.Written.UTC().Format("15:04:05.000"))
}

// enumerate writes numbers for people: 1, 2 and 5.
func enumerate(numbers []int) string {
	text := strings.ReplaceAll(strings.Trim(fmt.Sprint(numbers), "[]"), " ", ", ")
	if i := strings.LastIndex(text, ", "); i >= 0 {
		text = text[:i] + " and" + text[i+1:]
	}
	return text
}
