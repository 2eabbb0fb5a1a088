package trace

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// record is one span or instant: a cache line without pointers, so that
// recording allocates nothing and the garbage collector has nothing to scan.
type record struct {
	start int64 // ns, trace clock
	end   int64 // ns; instantEnd for an instant
	args  [maxArgs]uint64
	kind  Kind
	_     [14]byte // to 64 bytes
}

const instantEnd = -1

// Records is how many records the flight recorder keeps: 64 Ki of 64 bytes are
// 4 MiB, of which only what was ever written takes memory. An all-reduce of
// 1 GiB by 8 ranks in segments of 256 KiB has 21 Ki spans; they fit.
const Records = collectiveRecords + wireRecords + 4*otherRecords

// Each subsystem has a buffer of its own, so that packets do not push out
// operations, nor operations the bring-up.
const (
	collectiveRecords = 32 << 10
	wireRecords       = 24 << 10
	otherRecords      = 2 << 10
)

// buffer keeps the last records of a subsystem.
type buffer struct {
	mu      sync.Mutex // guards all of it; uncontended it costs about 10 ns
	next    uint64     // records ever written; the next goes to next modulo len(records)
	records []record
	_       [80]byte // the locks of two subsystems share no cache line
}

var buffers = [subsystems]buffer{
	Bootstrap:  {records: make([]record, otherRecords)},
	Verbs:      {records: make([]record, otherRecords)},
	Wire:       {records: make([]record, wireRecords)},
	Ring:       {records: make([]record, otherRecords)},
	Collective: {records: make([]record, collectiveRecords)},
	Repl:       {records: make([]record, otherRecords)},
}

func (b *buffer) add(r *record) {
	b.mu.Lock()
	b.records[b.next%uint64(len(b.records))] = *r
	b.next++
	b.mu.Unlock()
}

// recorderOn is read before anything else is done.
var recorderOn atomic.Bool

func init() { recorderOn.Store(true) }

// SetRecorder switches the flight recorder, which is on from the start. What
// it has recorded stays.
func SetRecorder(on bool) { recorderOn.Store(on) }

// RecorderOn tells whether the flight recorder is on.
func RecorderOn() bool { return recorderOn.Load() }

// Span records the span from start to now. It does nothing if start is 0, so a
// span is `start := trace.Now(); ...; kind.Span(start, a, b, c, d)`.
func (k Kind) Span(start Stamp, a, b, c, d uint64) {
	if start != 0 {
		k.record(int64(start), Clock(), a, b, c, d)
	}
}

// SpanAt records a span whose end is known, for several spans that share a
// reading of the clock. It does nothing if start or end is 0.
func (k Kind) SpanAt(start, end Stamp, a, b, c, d uint64) {
	if start != 0 && end != 0 {
		k.record(int64(start), int64(end), a, b, c, d)
	}
}

// Instant records something that happens now and takes no time.
func (k Kind) Instant(a, b, c, d uint64) {
	if recorderOn.Load() {
		k.record(Clock(), instantEnd, a, b, c, d)
	}
}

func (k Kind) record(start, end int64, a, b, c, d uint64) {
	buffers[k.subsystem()].add(&record{start: start, end: end, args: [maxArgs]uint64{a, b, c, d}, kind: k})
}

// chunk is how many records are copied with the lock held: 32 KiB, some
// microseconds, so that a dump does not stall who records.
const chunk = 512

// copyOut appends the records to list, the oldest first, and returns how many
// were overwritten before or while they were copied.
func (b *buffer) copyOut(list []record) ([]record, uint64) {
	size := uint64(len(b.records))
	b.mu.Lock()
	last := b.next
	b.mu.Unlock()
	lost := uint64(0)
	for i := uint64(0); i < last; {
		b.mu.Lock()
		if b.next > size && i < b.next-size {
			lost += min(b.next-size, last) - i
			i = min(b.next-size, last)
		}
		for end := min(last, i+chunk); i < end; i++ {
			list = append(list, b.records[i%size])
		}
		b.mu.Unlock()
	}
	return list, lost
}

// Stamp is a time of this process's trace clock in nanoseconds since the Unix
// epoch; 0 says that the recorder was off.
type Stamp int64

// The trace clock is the wall clock at the start plus the monotonic time since
// then, so that it never jumps. time.Since of a fixed start reads the
// monotonic clock alone, which takes half of time.Now (22 against 41 ns here).
var (
	clockStart   = time.Now()
	clockStartNS = clockStart.UnixNano()
)

// Clock returns the trace clock in nanoseconds since the Unix epoch. It runs
// whether or not the recorder is on, and never goes back.
func Clock() int64 { return clockStartNS + int64(time.Since(clockStart)) }

// Now returns the trace clock for the start of a span, or 0 if the recorder is
// off.
func Now() Stamp {
	if !recorderOn.Load() {
		return 0
	}
	return Stamp(Clock())
}

// At is Now of a time that was read already.
func At(t time.Time) Stamp {
	if !recorderOn.Load() {
		return 0
	}
	return Stamp(clockStartNS + int64(t.Sub(clockStart)))
}

// LogTexts is how many printed events the recorder keeps, 256 bytes each.
const LogTexts = 2048

// logText is a printed event with its text.
type logText struct {
	at        int64
	subsystem Subsystem
	level     int8 // a slog.Level
	length    uint8
	clipped   bool
	text      [244]byte
}

var logs struct {
	mu   sync.Mutex // guards the rest
	next uint64
	list [LogTexts]logText
}

// plain renders attributes for the recorder.
var plain = textHandler{}

// recordLog keeps a printed event.
func recordLog(s Subsystem, l slog.Level, msg string, attrs []slog.Attr) {
	line := lines.Get().(*[]byte)
	defer lines.Put(line)
	b := appendMessage((*line)[:0], msg)
	for _, a := range attrs {
		b = plain.appendAttr(b, "", a)
	}
	*line = b
	logs.mu.Lock()
	defer logs.mu.Unlock()
	e := &logs.list[logs.next%LogTexts]
	logs.next++
	n := copy(e.text[:], b)
	e.at, e.subsystem, e.level, e.length, e.clipped = Clock(), s, int8(l), uint8(n), n < len(b)
}

// copyLogs returns the printed events, the oldest first, and how many were
// overwritten.
func copyLogs() (list []logText, lost uint64) {
	logs.mu.Lock()
	defer logs.mu.Unlock()
	lost = max(logs.next, LogTexts) - LogTexts
	for i := lost; i < logs.next; i++ {
		list = append(list, logs.list[i%LogTexts])
	}
	return list, lost
}
