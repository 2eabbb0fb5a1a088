package trace

import (
	"sync"
	"sync/atomic"
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
