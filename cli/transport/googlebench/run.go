// Package googlebench measures as Google Benchmark does, and writes JSON with the names of its
// fields (schema version 1), so that its tools/compare.py lays a run of ours beside one of a
// program in C++ (google/benchmark, src/json_reporter.cc).
package googlebench

import (
	"context"
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// Benchmark is a function that repeats something, and its name.
type Benchmark struct {
	Name     string // with its arguments, as in BM_Copy/8192/real_time
	Family   int    // index of those that differ by arguments alone, from 0
	Instance int    // its place among them, from 0
	Bytes    uint64 // that one iteration moves
	// Begin and End are called before and after all that is measured; nil is nothing to do.
	Begin, End func(context.Context) error
	// Iterate repeats it n times.
	Iterate func(ctx context.Context, n int) error
	// Counters are derived from what was measured; nil is none.
	Counters func(r *Row) []Counter
}

// Counter is a figure beside those that every row has.
type Counter struct {
	Name  string
	Value float64
	Rate  bool // per second, in units of 1024
}

// Row is what was measured of a benchmark.
type Row struct {
	Benchmark  *Benchmark
	Iterations int
	Real, CPU  float64 // us an iteration
	Counters   []Counter
}

// Rate is bytes per second; 0 where none are moved.
func (r *Row) Rate() float64 {
	if r.Benchmark.Bytes == 0 || r.Real == 0 {
		return 0
	}
	return float64(r.Benchmark.Bytes) / (r.Real / 1e6)
}

// Time says how long a benchmark runs: the time that its iterations take at least, or how many
// there are.
type Time struct {
	Least      time.Duration
	Iterations int // 0: as many as Least takes
}

// mostIterations of one row (benchmark_runner.cc, kMaxIterations).
const mostIterations = 1_000_000_000

// Measure runs a benchmark and returns its row.
func (b *Benchmark) Measure(ctx context.Context, least Time) (row Row, err error) {
	if b.Begin != nil {
		if err := b.Begin(ctx); err != nil {
			return row, err
		}
	}
	if b.End != nil {
		defer func() {
			if e := b.End(ctx); err == nil {
				err = e
			}
		}()
	}
	n := max(least.Iterations, 1)
	real, cpu, err := b.timed(ctx, n)
	for err == nil && least.Iterations == 0 && real < least.Least && n < mostIterations {
		n = next(n, real, least.Least)
		real, cpu, err = b.timed(ctx, n)
	}
	if err != nil {
		return row, err
	}
	row = Row{Benchmark: b, Iterations: n, Real: microseconds(real) / float64(n), CPU: microseconds(cpu) / float64(n)}
	if rate := row.Rate(); rate > 0 {
		row.Counters = append(row.Counters, Counter{"bytes_per_second", rate, true})
	}
	if b.Counters != nil {
		row.Counters = append(row.Counters, b.Counters(&row)...)
	}
	return row, nil
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// timed repeats it n times and returns how long that took, by the clock and of the CPUs of this
// process.
func (b *Benchmark) timed(ctx context.Context, n int) (real, cpu time.Duration, err error) {
	before, begun := cpuTime(), time.Now()
	if err = b.Iterate(ctx, n); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", b.Name, err)
	}
	return max(time.Since(begun), 1), cpuTime() - before, nil
}

// cpuTime is that of all threads, of user and system.
func cpuTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // never fails
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// next is how many iterations to try after n took so long (benchmark_runner.cc,
// PredictNumItersNeeded).
func next(n int, took, least time.Duration) int {
	multiplier := least.Seconds() * 1.4 / max(took.Seconds(), 1e-9)
	if took.Seconds()/least.Seconds() <= 0.1 {
		multiplier = 10
	}
	return min(int(math.Round(max(multiplier*float64(n), float64(n)+1))), mostIterations)
}
