package cli

import (
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"ringcli/collective"
)

// Times are the percentiles of an operation's time over its iterations, in
// microseconds.
type Times struct {
	Min  float64 `json:"min"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

// slowest merges the times of all ranks: an operation is as slow as its
// slowest rank, so each figure is the maximum over the ranks.
func (t Times) slowest(u Times) Times {
	return Times{max(t.Min, u.Min), max(t.P50, u.P50), max(t.P99, u.P99), max(t.Max, u.Max), max(t.Mean, u.Mean)}
}

// stopwatch collects the times of iterations in bounded memory, however long
// the run: a histogram with three significant digits from 1 ns to an hour.
type stopwatch struct{ h *hdrhistogram.Histogram }

// newStopwatch returns a stopwatch that has measured nothing.
func newStopwatch() *stopwatch {
	return &stopwatch{hdrhistogram.New(1, int64(time.Hour), 3)}
}

// add takes an iteration up.
func (s *stopwatch) add(d time.Duration) {
	// Out of range is only what takes more than an hour; it counts as an hour.
	_ = s.h.RecordValue(min(max(int64(d), 1), int64(time.Hour)))
}

// at returns a quantile (0 to 100) in microseconds.
func (s *stopwatch) at(q float64) float64 { return float64(s.h.ValueAtQuantile(q)) / 1e3 }

// count is how many iterations there were.
func (s *stopwatch) count() int { return int(s.h.TotalCount()) }

// times are the percentiles.
func (s *stopwatch) times() Times {
	return Times{
		Min: float64(s.h.Min()) / 1e3, P50: s.at(50), P99: s.at(99), Max: float64(s.h.Max()) / 1e3,
		Mean: math.Round(s.h.Mean()) / 1e3, // whole nanoseconds, like the others
	}
}

// Bandwidth returns nccl-tests' two bandwidths in GB/s (1e9 bytes) of an
// operation over n ranks on a vector of so many bytes in all that takes so many
// microseconds (nccl-tests, doc/PERFORMANCE.md). busbw is what each link of a
// ring carries.
func Bandwidth(operation string, bytes uint64, n int, us float64) (algbw, busbw float64) {
	op, err := collective.ParseOperation(operation)
	if err != nil || us <= 0 || n < 1 {
		return 0, 0
	}
	algbw = float64(bytes) / us / 1e3
	return sixPlaces(algbw), sixPlaces(algbw * op.BusFactor(n))
}

// sixPlaces rounds to what is measured: kB/s of GB/s, packets per second of Mpps.
func sixPlaces(gb float64) float64 { return math.Round(gb*1e6) / 1e6 }

// median is the middle of the values, or the mean of the two in the middle.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
