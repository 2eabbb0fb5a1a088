package trace

import "slices"

// lane is a row of the timeline.
type lane int

// The lanes of a rank, from the top.
const (
	laneOperation lane = iota
	laneSteps
	laneSegmentsOut
	laneSegmentsIn
	laneReduce
	laneCollective // what else collectives record
	laneBringUp
	laneRing
	laneBootstrap
	laneVerbs
	laneWire
	laneRepl
	laneLog
)

var laneNames = [...]string{"operation", "steps", "segments out", "segments in", "reduce", "collective", "bring-up", "ring", "bootstrap", "verbs", "wire", "repl", "log"}

var (
	kindLanes = map[string]lane{
		OperationName: laneOperation, StepName: laneSteps, SegmentSendName: laneSegmentsOut, SegmentReceiveName: laneSegmentsIn,
		SegmentReduceName: laneReduce, BringUpName: laneBringUp,
	}
	subsystemLanes = map[string]lane{
		Ring.String(): laneRing, Bootstrap.String(): laneBootstrap, Verbs.String(): laneVerbs, Wire.String(): laneWire, Repl.String(): laneRepl,
	}
)

func (e *Event) lane() lane {
	if e.Type == LogEvent {
		return laneLog
	}
	if l, known := kindLanes[e.Name]; known {
		return l
	}
	if l, known := subsystemLanes[e.Subsystem]; known {
		return l
	}
	return laneCollective
}

// lanesApart is the distance of the thread ids of two lanes: room for rows
// that a lane needs when spans overlap.
const lanesApart = 10_000

// rows deals out the rows of one lane: Chrome wants the spans of a thread to
// nest, so a span that overlaps others goes to a further row. Spans come in
// the order of their starts.
type rows struct {
	ends []int64 // where each row's last span ends
}

func (r *rows) assign(start, end int64) int {
	i := slices.IndexFunc(r.ends, func(e int64) bool { return e <= start })
	if i < 0 {
		i = len(r.ends)
		r.ends = append(r.ends, 0)
	}
	r.ends[i] = end
	return i
}
