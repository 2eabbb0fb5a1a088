package sharedmem

import "ringcli/trace"

// What the flight recorder gets of an operation: a step for each phase, one after the
// other, and the stretches of work between two waits. The first step of a call with
// both phases ends when the own chunk is reduced; what peers have by then is taken
// in it, too.
var (
	stepSpan = trace.NewKind(trace.Collective, trace.StepName, "seq", "phase", "step", "bytes")
	workSpan = trace.NewKind(trace.Collective, trace.WorkName, "seq", "position")
)

// A wait is one from so many looks in a row that find nothing: some 0.8 us where
// segments follow one another, since two readings of the clock take 50 ns.
const waitsAfter, waitsAfterInPull = 1, 32

// timeline is when what is under way in the present operation began; 0 is that it is
// not recorded.
type timeline struct {
	number uint64
	step   trace.Stamp
	work   trace.Stamp // 0 also in a wait
	phase  Phases      // the step's; 0 before the first
	bytes  uint64      // of peers, in the step
	spans  uint64      // of work so far
}

// Record has the operation of that number recorded, which began then. 0 is not to.
func (t *Team) Record(number uint64, begun trace.Stamp) {
	t.wait.timeline = timeline{number: number, step: begun, work: begun}
}

// record begins the first step of a call, in which so many elements are reduced, if it
// reduces. A wait is one after so many looks.
func (t *Team) record(c *Call, waitsAfter, operands int) {
	t.wait.waitsAfter = waitsAfter
	switch l := &t.wait.timeline; {
	case !l.records():
	case c.reduces():
		l.enter(Reduce, operands*c.Type.Size())
	case c.gathers():
		l.enter(Gather, t.foreign()*c.Type.Size())
	}
}

// foreign is the number of elements of the others' chunks.
func (t *Team) foreign() int { return int(t.fold.of.Count) - t.owned() }

// Recorded records what is under way when the operation ends.
func (t *Team) Recorded(end trace.Stamp) {
	l := &t.wait.timeline
	l.endWork(end)
	l.endStep(end)
	l.step = 0
}

// enter begins a step, in which so many bytes come from peers, and ends the one before.
func (l *timeline) enter(phase Phases, bytes int) {
	if l.phase != 0 {
		l.endStep(trace.Now())
	}
	l.phase, l.bytes = phase, uint64(bytes)
}

func (l *timeline) endStep(end trace.Stamp) {
	if l.phase != 0 {
		stepSpan.SpanAt(l.step, end, l.number, uint64(l.phase/Gather), 0, l.bytes)
		l.step = end
	}
}

// records tells whether the operation is recorded.
func (l *timeline) records() bool { return l.step != 0 }

func (l *timeline) endWork(end trace.Stamp) {
	workSpan.SpanAt(l.work, end, l.number, l.spans, 0, 0)
	l.work = 0
	l.spans++
}
