package trace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Recording is what one rank's flight recorder held: what a dump writes, a
// reader returns and Merge takes.
type Recording struct {
	Rank    int           `json:"rank"` // -1: the process was in no ring
	Size    int           `json:"size"` // ranks of the ring; 0: in no ring
	Run     string        `json:"run,omitempty"`
	Host    string        `json:"host"`
	PID     int           `json:"pid"`
	Written time.Time     `json:"written"`
	Reason  string        `json:"reason,omitempty"` // the failure that it was written for
	Aligned bool          `json:"aligned"`          // times are on the axis of a merge
	Lost    Lost          `json:"lost"`
	Clock   []ClockSample `json:"clock"`
	Source  string        `json:"-"` // the file that it was read from
	Events  []Event       `json:"-"` // in the order of their starts
}

// Lost counts what newer events have overwritten.
type Lost struct {
	Records uint64 `json:"records"` // spans and instants
	Logs    uint64 `json:"logs"`
}

// EventType says what an event is.
type EventType string

// The types of events.
const (
	SpanEvent    EventType = "span"
	InstantEvent EventType = "instant"
	LogEvent     EventType = "log" // a printed event; its name is the text
)

// Event is one record of a recording.
type Event struct {
	Type      EventType
	Subsystem string
	Name      string
	Level     string // of a LogEvent
	Start     int64  // ns since the Unix epoch, on the recording's axis
	End       int64  // ns; Start unless it is a span
	Args      Args
}

// Record returns what the flight recorder holds now. Events go on being
// recorded meanwhile; those that begin later than the call may be missing.
func Record() Recording {
	r := Recording{PID: os.Getpid(), Written: time.Now().Round(0)}
	r.Host, _ = os.Hostname() // without a name the process id and the rank remain
	output.Lock()
	r.Rank = output.rank
	output.Unlock()
	identity.Lock()
	r.Size, r.Run, r.Clock = identity.size, identity.run, slices.Clone(identity.samples)
	identity.Unlock()

	var records []record
	for s := range buffers {
		var lost uint64
		records, lost = buffers[s].copyOut(records)
		r.Lost.Records += lost
	}
	texts, lost := copyLogs()
	r.Lost.Logs = lost
	r.Events = make([]Event, 0, len(records)+len(texts))
	kinds.Lock()
	table := kinds.of
	kinds.Unlock()
	for i := range records {
		r.Events = append(r.Events, records[i].event(&table))
	}
	for i := range texts {
		r.Events = append(r.Events, texts[i].event())
	}
	sortEvents(r.Events)
	return r
}

// sortEvents orders by start; of spans that start together the longest, which
// holds the others, is first.
func sortEvents(events []Event) {
	slices.SortStableFunc(events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
}

func (r *record) event(table *[subsystems][]kindInfo) Event {
	s := r.kind.subsystem()
	info := kindInfo{name: "unregistered"}
	if i := int(r.kind&0xff) - 1; i >= 0 && i < len(table[s]) {
		info = table[s][i]
	}
	e := Event{Type: SpanEvent, Subsystem: s.String(), Name: info.name, Start: r.start, End: r.end}
	if r.end == instantEnd {
		e.Type, e.End = InstantEvent, r.start
	}
	e.Args = make(Args, len(info.args))
	for i, name := range info.args {
		e.Args[i] = Arg{Name: name, Value: r.args[i]}
		if name[0] == '$' {
			e.Args[i] = Arg{Name: name[1:], Text: interned(r.args[i]), IsText: true}
		}
	}
	return e
}

func (l *logText) event() Event {
	text := string(bytes.ToValidUTF8(l.text[:l.length], nil))
	if l.clipped {
		text += "..."
	}
	return Event{Type: LogEvent, Subsystem: l.subsystem.String(), Name: text,
		Level: levelName(slog.Level(l.level)), Start: l.at, End: l.at}
}

// ClockSample is one comparison with a neighbour's trace clock.
type ClockSample struct {
	Peer   int   `json:"peer"`
	At     int64 `json:"at"`     // own trace clock, ns since the Unix epoch
	Offset int64 `json:"offset"` // the peer's clock minus the own, ns
	RTT    int64 `json:"rtt"`    // ns; the true offset is within RTT/2 of Offset
}

// maxClockSamples bounds the list: at one a second the last 8 minutes are kept
// whole, and of the time before a thinning half, the better ones.
const maxClockSamples = 1024

// identity is what the recorder knows of its process beside the rank, which
// output has.
var identity struct {
	sync.Mutex
	size    int
	run     string
	samples []ClockSample
}

// SetRing says how many ranks the ring has, for dumps; 0: no ring. run names the run: it
// must be the same text on all ranks and differ between runs, so that Merge can refuse to
// mix them.
func SetRing(size int, run string) {
	identity.Lock()
	defer identity.Unlock()
	identity.size, identity.run = size, run
}

// AddClockSample keeps a comparison of clocks for Merge: when the own Clock()
// was at, the peer's was at+offset, to within rtt/2. All are nanoseconds. The
// list is bounded: when full, the older half loses the worse of every two.
func AddClockSample(peer int, at, offset, rtt int64) {
	identity.Lock()
	defer identity.Unlock()
	if len(identity.samples) >= maxClockSamples {
		identity.samples = thin(identity.samples)
	}
	identity.samples = append(identity.samples, ClockSample{peer, at, offset, rtt})
}

// thin drops of every two in the older half the one with the longer round trip.
func thin(samples []ClockSample) []ClockSample {
	half := len(samples) / 2
	kept := samples[:0]
	for i := 0; i+1 < half; i += 2 {
		kept = append(kept, slices.MinFunc(samples[i:i+2], func(a, b ClockSample) int { return cmp.Compare(a.RTT, b.RTT) }))
	}
	return append(kept, samples[half&^1:]...)
}

// Arg is a named argument: a number, or a text.
type Arg struct {
	Name   string
	Value  uint64
	Text   string
	IsText bool
}

// Args are the arguments of an event in their order. As JSON they are an
// object.
type Args []Arg

// Value returns the number of that name, or 0.
func (a Args) Value(name string) uint64 { return a.named(name).Value }

// Text returns the text of that name, or "".
func (a Args) Text(name string) string { return a.named(name).Text }

func (a Args) named(name string) (arg Arg) {
	if i := slices.IndexFunc(a, func(arg Arg) bool { return arg.Name == name }); i >= 0 {
		arg = a[i]
	}
	return arg
}

// MarshalJSON writes an object with the arguments in their order.
func (a Args) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, arg := range a {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSONString(b, arg.Name)
		b = append(b, ':')
		if arg.IsText {
			b = appendJSONString(b, arg.Text)
		} else {
			b = strconv.AppendUint(b, arg.Value, 10)
		}
	}
	return append(b, '}'), nil
}

func appendJSONString(b []byte, s string) []byte {
	quoted, _ := json.Marshal(s) // a string can always be marshalled
	return append(b, quoted...)
}

// UnmarshalJSON reads an object of numbers and texts, in its order.
func (a *Args) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("trace: arguments %.60q: want an object", b)
	}
	*a = nil
	for d.More() {
		name, err := d.Token()
		value, next := d.Token()
		if err = cmp.Or(err, next); err != nil {
			return err
		}
		arg := Arg{Name: name.(string)} // the decoder has seen to it
		switch v := value.(type) {
		case string:
			arg.Text, arg.IsText = v, true
		case json.Number:
			if arg.Value, err = strconv.ParseUint(v.String(), 10, 64); err != nil {
				return fmt.Errorf("trace: argument %q is %s: want a whole number of 64 bits", arg.Name, v)
			}
		default:
			return fmt.Errorf("trace: argument %q is %v: want a number or a text", arg.Name, value)
		}
		*a = append(*a, arg)
	}
	return nil
}
