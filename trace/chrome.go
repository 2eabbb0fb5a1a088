package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// chromeEvent is an entry of "traceEvents", as "Trace Event Format" by Google
// describes it and Perfetto reads it.
type chromeEvent struct {
	Name  string  `json:"name"`
	Cat   string  `json:"cat,omitempty"` // subsystem, "log" or "flow"
	Phase string  `json:"ph"`
	Time  micros  `json:"ts"`
	Dur   *micros `json:"dur,omitempty"`
	PID   int     `json:"pid"` // rank
	TID   int     `json:"tid"` // lane
	ID    int     `json:"id,omitempty"`
	Bind  string  `json:"bp,omitempty"`
	Scope string  `json:"s,omitempty"`
	Args  any     `json:"args,omitempty"`
}

// micros is a time in nanoseconds that is written in microseconds, as Chrome
// wants it, with three decimals.
type micros int64

// MarshalJSON writes microseconds.
func (m micros) MarshalJSON() ([]byte, error) {
	if m < 0 {
		return nil, fmt.Errorf("trace: a time of %d ns before the first event", int64(m))
	}
	b := strconv.AppendInt(nil, int64(m)/1000, 10)
	if ns := int64(m) % 1000; ns != 0 {
		b = fmt.Appendf(b, ".%03d", ns)
	}
	return b, nil
}

// chromeOther is "otherData" of the file.
type chromeOther struct {
	Recordings []header `json:"recordings"`
}

// WriteRecordings writes recordings to w as one file in Chrome's JSON, which
// https://ui.perfetto.dev opens: a process each, with an arrow for each flow.
func WriteRecordings(w io.Writer, list []Recording, flows ...Flow) error {
	b := bufio.NewWriter(w)
	base := baseOf(list)
	other := chromeOther{}
	for i := range list {
		other.Recordings = append(other.Recordings, newHeader(&list[i], base))
	}
	head, err := json.Marshal(other)
	if err != nil {
		return err
	}
	// A bufio.Writer keeps its first error until Flush.
	_, _ = fmt.Fprintf(b, "{\"displayTimeUnit\":\"ns\",\n\"otherData\":%s,\n\"traceEvents\":[\n", head)
	c := chromeWriter{w: b, base: base, tids: make([][]int, len(list))}
	for i := range list {
		c.recording(i, &list[i])
	}
	for i, f := range flows {
		c.flow(i+1, f, list)
	}
	_, _ = b.WriteString("\n]}\n")
	return errors.Join(c.err, b.Flush())
}

type chromeWriter struct {
	w     *bufio.Writer
	err   error // the first event that has no JSON
	base  int64
	count int
	tids  [][]int // of each recording's events
}

func (c *chromeWriter) write(e chromeEvent) {
	line, err := json.Marshal(e)
	if c.err == nil {
		c.err = err
	}
	if c.count++; c.count > 1 {
		_, _ = c.w.WriteString(",\n")
	}
	_, _ = c.w.Write(line)
}

// name writes the name of a process or thread, and its place among them.
func (c *chromeWriter) name(what string, pid, tid int, name string, place int) {
	c.write(chromeEvent{Name: what + "_name", Phase: "M", PID: pid, TID: tid, Args: map[string]string{"name": name}})
	c.write(chromeEvent{Name: what + "_sort_index", Phase: "M", PID: pid, TID: tid, Args: map[string]int{"sort_index": place}})
}

func (c *chromeWriter) recording(i int, r *Recording) {
	pid := max(r.Rank, 0)
	title := fmt.Sprintf("rank %d (%s, pid %d)", r.Rank, r.Host, r.PID)
	if r.Rank < 0 {
		title = fmt.Sprintf("no rank (%s, pid %d)", r.Host, r.PID)
	}
	c.name("process", pid, 0, title, pid)
	var lanes [len(laneNames)]rows
	titled := map[int]bool{}
	c.tids[i] = make([]int, len(r.Events))
	for j := range r.Events {
		e := &r.Events[j]
		l := e.lane()
		row := 0
		if e.Type == SpanEvent {
			row = lanes[l].assign(e.Start, e.End)
		}
		tid := l*lanesApart + row
		c.tids[i][j] = tid
		if !titled[tid] {
			titled[tid] = true
			title := laneNames[l]
			if row > 0 {
				title += " " + strconv.Itoa(row+1)
			}
			c.name("thread", pid, tid, title, tid)
		}
		c.event(pid, tid, e)
	}
}

// logArgs are the arguments of a printed event.
type logArgs struct {
	Level     string `json:"level"`
	Subsystem string `json:"subsystem"`
}

func (c *chromeWriter) event(pid, tid int, e *Event) {
	out := chromeEvent{Name: e.Name, Cat: e.Subsystem, Phase: "X", Time: micros(e.Start - c.base), PID: pid, TID: tid}
	if len(e.Args) > 0 {
		out.Args = e.Args
	}
	switch e.Type {
	case SpanEvent:
		dur := micros(e.End - e.Start)
		out.Dur = &dur
	case InstantEvent:
		out.Phase, out.Scope = "i", "t"
	case LogEvent:
		out.Phase, out.Scope, out.Cat = "i", "t", "log"
		out.Args = logArgs{e.Level, e.Subsystem}
	}
	c.write(out)
}

// Flow is a segment on its way: an arrow from its send to its receive.
type Flow struct {
	From, To      int // recordings
	Send, Receive int // events of them
}

func (c *chromeWriter) flow(id int, f Flow, list []Recording) {
	send, receive := &list[f.From].Events[f.Send], &list[f.To].Events[f.Receive]
	// The end of an arrow binds to the span that holds it, whose last
	// nanosecond is no longer inside; and it must not lie before the start.
	end := max(send.Start, receive.Start, receive.End-1)
	c.write(chromeEvent{Name: "segment", Cat: "flow", Phase: "s", ID: id, Time: micros(send.Start - c.base),
		PID: max(list[f.From].Rank, 0), TID: c.tids[f.From][f.Send]})
	c.write(chromeEvent{Name: "segment", Cat: "flow", Phase: "f", Bind: "e", ID: id, Time: micros(end - c.base),
		PID: max(list[f.To].Rank, 0), TID: c.tids[f.To][f.Receive]})
}

// chromeFile is the file that WriteRecordings writes.
type chromeFile struct {
	Other  chromeOther `json:"otherData"`
	Events []struct {
		chromeEvent
		Args json.RawMessage `json:"args"`
	} `json:"traceEvents"`
}

// Read reads the recordings of a file: one that WriteRecordings has written, or those of
// all ranks that a merge has. Metadata and arrows follow from the rest, and are left out.
func Read(r io.Reader) ([]Recording, error) {
	var c chromeFile
	if err := json.NewDecoder(bufio.NewReader(r)).Decode(&c); err != nil {
		return nil, fmt.Errorf("%w: want Chrome JSON: %w", ErrFile, err)
	}
	if len(c.Other.Recordings) == 0 {
		return nil, fmt.Errorf("%w: a Chrome trace of another program, without recordings in otherData", ErrFile)
	}
	list := make([]Recording, len(c.Other.Recordings))
	byPID := map[int]int{}
	for i, h := range c.Other.Recordings {
		if err := h.check(); err != nil {
			return nil, err
		}
		list[i] = *h.Recording
		byPID[max(h.Rank, 0)] = i
	}
	for i, e := range c.Events {
		if e.Phase != "X" && e.Phase != "i" {
			continue
		}
		at, ok := byPID[e.PID]
		if !ok {
			return nil, fmt.Errorf("%w: event %d has pid %d, which is no rank of otherData", ErrFile, i, e.PID)
		}
		start := c.Other.Recordings[at].Base + int64(e.Time)
		out := Event{Type: SpanEvent, Subsystem: e.Cat, Name: e.Name, Start: start, End: start}
		var err error
		switch {
		case e.Phase == "X":
			if e.Dur == nil || *e.Dur < 0 {
				return nil, fmt.Errorf("%w: event %d is a span without a duration", ErrFile, i)
			}
			out.End += int64(*e.Dur)
		case e.Cat == "log":
			var log logArgs
			err = json.Unmarshal(e.Args, &log)
			out.Type, out.Subsystem, out.Level = LogEvent, log.Subsystem, log.Level
		default:
			out.Type = InstantEvent
		}
		if len(e.Args) > 0 && out.Type != LogEvent && err == nil {
			err = json.Unmarshal(e.Args, &out.Args)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: event %d: %w", ErrFile, i, err)
		}
		list[at].Events = append(list[at].Events, out)
	}
	for i, h := range c.Other.Recordings {
		if got := len(list[i].Events); got != h.Count {
			return nil, fmt.Errorf("%w: %d events of rank %d: its header says %d", ErrFile, got, h.Rank, h.Count)
		}
		sortEvents(list[i].Events)
	}
	return list, nil
}

// UnmarshalJSON reads microseconds with up to three decimals, exactly.
func (m *micros) UnmarshalJSON(b []byte) error {
	whole, fraction, _ := strings.Cut(string(bytes.TrimSpace(b)), ".")
	ns, err := strconv.ParseUint(whole+(fraction + "000")[:3], 10, 63)
	if err != nil || len(fraction) > 3 || ns > maxTime {
		return fmt.Errorf("trace: time %.40s: want microseconds with at most three decimals", b)
	}
	*m = micros(ns)
	return nil
}

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
