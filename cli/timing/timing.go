package timing

import (
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"ringcli/collective/plan"
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

// Slowest merges the times of all ranks: an operation is as slow as its
// slowest rank, so each figure is the maximum over the ranks.
func (t Times) Slowest(u Times) Times {
	return Times{max(t.Min, u.Min), max(t.P50, u.P50), max(t.P99, u.P99), max(t.Max, u.Max), max(t.Mean, u.Mean)}
}

// Stopwatch collects the times of iterations in bounded memory, however long
// the run: a histogram with three significant digits from 1 ns to an hour.
type Stopwatch struct {
	h       *hdrhistogram.Histogram
	longest time.Duration // since Begin
}

// New returns a stopwatch that has measured nothing.
func New() *Stopwatch {
	return &Stopwatch{h: hdrhistogram.New(1, int64(time.Hour), 3)}
}

// Begin begins a stretch, of which Longest tells.
func (s *Stopwatch) Begin() { s.longest = 0 }

// Longest is the longest iteration since Begin in microseconds.
func (s *Stopwatch) Longest() float64 { return float64(s.longest) / 1e3 }

// Add takes an iteration up.
func (s *Stopwatch) Add(d time.Duration) {
	s.longest = max(s.longest, d)
	// Out of range is only what takes more than an hour; it counts as an hour.
	_ = s.h.RecordValue(min(max(int64(d), 1), int64(time.Hour)))
}

// At returns a quantile (0 to 100) in microseconds.
func (s *Stopwatch) At(q float64) float64 { return float64(s.h.ValueAtQuantile(q)) / 1e3 }

// Count is how many iterations there were.
func (s *Stopwatch) Count() int { return int(s.h.TotalCount()) }

// Times are the percentiles.
func (s *Stopwatch) Times() Times {
	return Times{
		Min: float64(s.h.Min()) / 1e3, P50: s.At(50), P99: s.At(99), Max: float64(s.h.Max()) / 1e3,
		Mean: math.Round(s.h.Mean()) / 1e3, // whole nanoseconds, like the others
	}
}

// Bandwidth returns nccl-tests' two bandwidths in GB/s (1e9 bytes) of an
// operation over n ranks on a vector of so many bytes in all that takes so many
// microseconds (nccl-tests, doc/PERFORMANCE.md). busbw is what each link of a
// ring carries.
func Bandwidth(operation string, bytes uint64, n int, us float64) (algbw, busbw float64) {
	op, err := plan.ParseOperation(operation)
	if err != nil || us <= 0 || n < 1 {
		return 0, 0
	}
	algbw = float64(bytes) / us / 1e3
	return SixPlaces(algbw), SixPlaces(algbw * op.BusFactor(n))
}

// SixPlaces rounds to what is measured: kB/s of GB/s, packets per second of Mpps.
func SixPlaces(gb float64) float64 { return math.Round(gb*1e6) / 1e6 }

// ThreePlaces rounds microseconds to nanoseconds.
func ThreePlaces(us float64) float64 { return math.Round(us*1e3) / 1e3 }

// Spread is how far the quartiles of the values are from their median at most, in
// percent of it.
func Spread(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	middle := Median(v)
	if middle <= 0 {
		return 0
	}
	quarter := (len(v) - 1) / 4
	return math.Round(max(middle-v[quarter], v[len(v)-1-quarter]-middle)/middle*1e3) / 10
}

// Median is the middle of the values, or the mean of the two in the middle.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
