package trace

import "time"

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
