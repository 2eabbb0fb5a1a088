package trace

import "slices"

// laneNames are the rows of a rank on the timeline, from the top. A subsystem's own
// are called as it is.
var laneNames = [...]string{"operation", "steps", "segments out", "segments in", "reduce", "collective", "bring-up", "ring", "bootstrap", "verbs", "wire", "repl", "log"}

// kindLanes are the lanes of kinds that have one of their own.
var kindLanes = map[string]string{
	OperationName: "operation", StepName: "steps", SegmentSendName: "segments out", SegmentReceiveName: "segments in",
	SegmentReduceName: "reduce", WorkName: "reduce", BringUpName: "bring-up",
}

// lane is the index of the event's lane in laneNames.
func (e *Event) lane() int {
	name := kindLanes[e.Name]
	switch {
	case e.Type == LogEvent:
		name = "log"
	case name == "":
		name = e.Subsystem
	}
	if i := slices.Index(laneNames[:], name); i >= 0 {
		return i
	}
	return slices.Index(laneNames[:], Collective.String()) // of a program that knows other subsystems
}

// lanesApart is the distance of the thread ids of two lanes: room for rows
// that a lane needs when spans overlap.
const lanesApart = 10_000

// rows deals out the rows of one lane: Chrome wants the spans of a thread to
// nest, so a span that overlaps others goes to a further row. Spans come in
// the order of their starts.
type rows []int64 // where each row's last span ends

func (r *rows) assign(start, end int64) int {
	i := slices.IndexFunc(*r, func(e int64) bool { return e <= start })
	if i < 0 {
		i = len(*r)
		*r = append(*r, 0)
	}
	(*r)[i] = end
	return i
}
