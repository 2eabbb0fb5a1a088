// Package trace is `if (DEBUG) printf` grown up: events of the layers that are
// printed, and a flight recorder that always runs.
//
// # Printed events
//
// Each subsystem has one atomic level, which is read before slog is called,
// so that an event which is off costs one load and no allocation:
//
//	if trace.Enabled(trace.Ring) {
//		trace.Debug(trace.Ring, "connected to neighbour", slog.Int("neighbour", 3))
//	}
//
// The guard is for Debug on hot paths, where even building the attributes
// would cost; Info, Warn and Error may be called without one.
//
// All levels start at warn. RINGCLI_DEBUG in the environment is a spec as Set
// takes it: 1 turns everything on, 0 silences everything. The build tag notrace
// compiles the prints out, guarded or not; the recorder stays.
//
// # The flight recorder
//
// A layer registers its kinds and records spans, when they end, and instants:
//
//	var reduceSpan = trace.NewKind(trace.Collective, "segment reduce", "seq", "position", "bytes")
//
//	begun := trace.Now()
//	...
//	reduceSpan.Span(begun, seq, position, bytes, 0)
//
// A record is 64 bytes without pointers in a buffer of its subsystem, behind a
// mutex; 64 Ki records are kept, the newest, and the last 2048 printed events
// with their texts. A span costs two readings of the clock and one copy, some
// 60 ns together, and no allocation. Since spans are recorded complete, no dump
// has an open one.
//
// The clock is the wall clock at the start of the process plus the monotonic
// time since. A text that is an argument is interned beforehand, and its name
// starts with "$".
//
// # Files
//
// WriteRecordings writes what Record returns, DumpOnFailure does so to a file of its
// own. Read reads it back, without loss. The format is Chrome JSON ("Trace Event
// Format", which Perfetto opens): a process a rank, a thread a lane, with further
// threads for spans that overlap; what identifies the recording is in "otherData".
// tracetest.CheckChrome checks such files.
//
// # Merging and showing
//
// Package align puts the ranks' recordings on rank 0's time axis. It knows the clocks
// from AddClockSample, and from the segments, which must not arrive before they
// are sent. Package timeline tells how the last operation went.
package trace
