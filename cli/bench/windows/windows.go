// Package windows cuts a measurement that lasts into stretches, and tells of each who or
// what kept the ring waiting: see package lateness for how that is known.
//
// At the end of each batch every rank tells the others what it has kept of it, along with
// what they talk anyhow, so that all of them have the same windows. A window ends with the
// batch that makes it long enough.
package windows

import (
	"context"
	"fmt"
	"math"
	"time"

	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/cli/timing"
	"ringcli/collective"
	"ringcli/collective/lateness"
	"ringcli/verbs"
	"ringcli/verbs/cpu"
)

// Stragglers are who or what kept the ring waiting in a stretch of a measurement.
type Stragglers struct {
	At float64 `json:"at_s"` // when the stretch began, since the measurement did
	lateness.Finding
	Text string `json:"text"`
}

// Summary is of all windows of a measurement.
type Summary struct {
	Count   int     `json:"count"`
	LeastBW float64 `json:"least_busbw_GBps"` // of the worst window
	LeastAt float64 `json:"least_at_s"`       // when that began
}

// Window is one of them, as --window shows it.
type Window struct {
	Command   string       `json:"command"`
	OK        bool         `json:"ok"`
	Operation string       `json:"operation"`
	Bytes     uint64       `json:"bytes"`
	At        float64      `json:"at_s" col:"at s|8|%.1f"` // when it began, since the measurement did
	Seconds   float64      `json:"seconds" col:"s|6|%.1f"`
	Iters     int          `json:"iters" col:"iters|8"`
	BusBW     float64      `json:"busbw_GBps" col:"GB/s bus|8"`
	LeastBW   float64      `json:"least_busbw_GBps" col:"least|8"` // of the slowest operation
	Late      []Stragglers `json:"late,omitempty"`
}

const (
	// Span is a window that nobody gave a length: long beside a batch, and short enough to
	// tell a second of an hour.
	Span = time.Second
	// Least has a batch in it.
	Least = 100 * time.Millisecond
	// mostListed is how many Stragglers are listed in the end.
	mostListed = 100
	// leastWhole is a measurement without windows of which people are told: leastSpan of a
	// bench, about.
	leastWhole = 40 * time.Millisecond
)

// Told is what a rank tells of a batch.
type Told struct {
	Longest float64         `json:"longest_us"` // iteration
	Record  lateness.Record `json:"record"`
}

// Words is how many words that takes.
const Words = 1 + lateness.Words

// Append appends them.
func (t Told) Append(to []uint64) []uint64 {
	words := t.Record.Words()
	return append(append(to, math.Float64bits(t.Longest)), words[:]...)
}

// OfWords is the inverse of Append.
func OfWords(w [Words]uint64) Told {
	return Told{math.Float64frombits(w[0]), lateness.OfWords([lateness.Words]uint64(w[1:]))}
}

// Watch makes the windows of a measurement.
type Watch struct {
	operation string
	bytes     uint64
	every     time.Duration
	name      func(rank int) string
	show      func(Window) error
	// The present window.
	at      float64
	sum     []lateness.Record // by rank
	iters   int
	us      float64 // of all iterations
	longest float64 // us of an operation

	Summary Summary
	Late    []Stragglers
}

// New begins the watch over an operation. Each window is shown if it has a length, and
// stragglers are always.
func New(m *session.Member, out *render.Printer, operation string, bytes uint64, every time.Duration) *Watch {
	nodes := m.Ring.Nodes()
	w := &Watch{
		operation: operation, bytes: bytes, every: every,
		name: func(rank int) string { return fmt.Sprintf("rank %d (%s)", rank, nodes[rank]) },
		show: func(w Window) error {
			if every > 0 {
				if err := out.Print(w); err != nil {
					return err
				}
			}
			for _, l := range w.Late {
				if err := out.Aside(l.mood(), fmt.Sprintf("at %.1f s: %s", w.At, l.Text)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	if every == 0 {
		w.every = Span
	}
	return w
}

// Heard takes up what the ranks tell of a batch of so many iterations, whose mean was us.
func (w *Watch) Heard(all []Told, iters int, us float64) error {
	if w.sum == nil {
		w.sum = make([]lateness.Record, len(all))
	}
	records := make([]lateness.Record, len(all))
	for rank := range all {
		records[rank] = all[rank].Record
	}
	lateness.Excuse(records)
	for rank := range all {
		w.sum[rank].Add(records[rank])
		w.longest = max(w.longest, all[rank].Longest)
	}
	w.iters += iters
	if w.us += us * float64(iters); time.Duration(w.sum[0].Took) < w.every {
		return nil
	}
	return w.End()
}

// End ends the present window, if anything was measured in it.
func (w *Watch) End() error {
	if w.iters == 0 {
		return nil
	}
	seconds := time.Duration(w.sum[0].Took).Seconds()
	win := Window{
		Command: "window", OK: true, Operation: w.operation, Bytes: w.bytes, At: timing.ThreePlaces(w.at), Seconds: timing.ThreePlaces(seconds), Iters: w.iters,
		Late: w.judge(w.sum, timing.ThreePlaces(w.at)),
	}
	_, win.BusBW = timing.Bandwidth(w.operation, w.bytes, len(w.sum), w.us/float64(w.iters))
	_, win.LeastBW = timing.Bandwidth(w.operation, w.bytes, len(w.sum), w.longest)
	if s := &w.Summary; s.Count == 0 || win.BusBW < s.LeastBW {
		s.LeastBW, s.LeastAt = win.BusBW, win.At
	}
	w.Summary.Count++
	if len(w.Late) < mostListed {
		w.Late = append(w.Late, win.Late...)
	}
	clear(w.sum)
	w.at, w.iters, w.us, w.longest = w.at+seconds, 0, 0, 0
	return w.show(win)
}

// Whole is in place of windows for a measurement that has none: all of it is one.
func (w *Watch) Whole(all []lateness.Record) {
	lateness.Excuse(all)
	w.Late = w.judge(all, 0)
}

func (w *Watch) judge(all []lateness.Record, at float64) (list []Stragglers) {
	for _, f := range lateness.Judge(all) {
		list = append(list, Stragglers{at, f, f.Text(w.name)})
	}
	return list
}

// mood: that a machine is busy is no fault of the ring's.
func (l Stragglers) mood() render.Mood {
	if l.Kind == lateness.NoCPU {
		return render.Fair
	}
	return render.Bad
}

// Notes end a measurement's row: for people.
func Notes(out *render.Printer, s *Summary, late []Stragglers) error {
	if s != nil { // the stragglers were told when they were
		if s.LeastBW == 0 {
			return nil // nothing is moved
		}
		return out.Note(render.Faint, "the least busbw of a window is %s GB/s, at %.1f s; windows: %d", render.Figure(s.LeastBW), s.LeastAt, s.Count)
	}
	for _, l := range late {
		// What is short says little, and that ranks have no CPU is usual on one machine.
		if l.Kind == lateness.NoCPU || l.Took < int64(leastWhole) {
			continue
		}
		if err := out.Note(l.mood(), "%s", l.Text); err != nil {
			return err
		}
	}
	return nil
}

// Keeper takes from a Comm what it keeps of a measurement's operations.
type Keeper struct {
	comm      *collective.Comm
	noCPU     int64          // when it was read last
	lost      []verbs.Losses // before all
	noCarrier int64          // of what was dropped
	Each      bool           // it is wanted of each batch
	All       lateness.Record
	Last      Told // of the last batch
	// Counted: the edges' queue pairs count what they send again. Set by End.
	Counted bool
}

// NewKeeper returns a keeper that has kept nothing.
func NewKeeper(c *collective.Comm) *Keeper {
	lost, _ := c.Losses()
	return &Keeper{comm: c, noCPU: cpu.Waited(), lost: lost}
}

// Take takes up what was since the last Take or Drop.
func (k *Keeper) Take(ctx context.Context, longest float64) error {
	noCPU := int64(0)
	if k.Each {
		noCPU = k.waitedForCPU()
	}
	r, err := k.comm.Lateness(ctx)
	r.NoCPU = min(noCPU, r.Took)
	r.NoCarrier, k.noCarrier = r.NoCarrier+k.noCarrier, 0
	k.All.Add(r)
	k.Last = Told{longest, r}
	return err
}

// Drop leaves out what was since, but for a link that was away: it is told with what comes next.
func (k *Keeper) Drop(ctx context.Context) error {
	r, err := k.comm.Lateness(ctx)
	k.noCarrier += r.NoCarrier
	return err
}

// End completes All. What was lost is of all since the keeper was made, whatever was left
// out: the edges that a batch used differ.
func (k *Keeper) End() {
	k.All.NoCPU = min(k.All.NoCPU+k.waitedForCPU(), k.All.Took)
	var now []verbs.Losses
	now, k.Counted = k.comm.Losses()
	k.All.Loss = lateness.Loss{}
	for peer, l := range now {
		k.All.Loss = k.All.Loss.Plus(lateness.LossOf(l.Since(k.lost[peer]), k.comm.Rank(), peer))
	}
}

func (k *Keeper) waitedForCPU() (ns int64) {
	now := cpu.Waited()
	ns, k.noCPU = max(0, now-k.noCPU), now
	return ns
}
