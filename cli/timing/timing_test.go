package timing

import (
	"math"
	"testing"
	"time"

	"ringcli/collective"
)

var (
	opAllReduce     = collective.OpAllReduce.String()
	opReduceScatter = collective.OpReduceScatter.String()
	opAllGather     = collective.OpAllGather.String()
)

func TestBandwidth(t *testing.T) {
	// 1e9 bytes in one second are 1 GB/s; the factors are nccl-tests'.
	for _, c := range []struct {
		operation string
		n         int
		busbw     float64
	}{
		{opAllReduce, 1, 0}, {opAllReduce, 2, 1}, {opAllReduce, 4, 1.5}, {opAllReduce, 8, 1.75},
		{opReduceScatter, 1, 0}, {opReduceScatter, 2, 0.5}, {opReduceScatter, 4, 0.75},
		{opAllGather, 2, 0.5}, {opAllGather, 8, 0.875},
	} {
		algbw, busbw := Bandwidth(c.operation, 1e9, c.n, 1e6)
		if algbw != 1 || busbw != c.busbw {
			t.Errorf("%s on %d ranks: %g, %g, want 1, %g", c.operation, c.n, algbw, busbw, c.busbw)
		}
	}
	if algbw, busbw := Bandwidth(opAllReduce, 64<<20, 4, 0); algbw != 0 || busbw != 0 {
		t.Errorf("in no time: %g, %g", algbw, busbw)
	}
}

func TestStopwatch(t *testing.T) {
	s := New()
	for i := 1; i <= 1000; i++ {
		s.Add(time.Duration(i) * time.Microsecond)
	}
	s.Add(-time.Second)  // a clock that was set back
	s.Add(2 * time.Hour) // beyond the range
	got := s.Times()
	for _, c := range []struct {
		name      string
		got, want float64
	}{{"p50", got.P50, 500}, {"p99", got.P99, 990}, {"p99.9", s.At(99.9), 1000}, {"max", got.Max, 3600e6}, {"min", got.Min, 0.001}} {
		if math.Abs(c.got-c.want) > c.want*2e-3 {
			t.Errorf("%s is %g us, want %g", c.name, c.got, c.want)
		}
	}
	if s.Count() != 1002 {
		t.Errorf("count is %d", s.Count())
	}
}

func TestTheSlowestRankCounts(t *testing.T) {
	got := Times{1, 5, 3, 9, 2}.Slowest(Times{2, 4, 4, 1, 3})
	if want := (Times{2, 5, 4, 9, 3}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{7}, 0}, {[]float64{12, 8, 10, 1000, 9}, 20}, {[]float64{5, 10, 10, 11, 12, 10, 10, 10, 4}, 0}, {[]float64{1, 5, 10, 11, 90}, 50},
	} {
		if got := Spread(c.values); got != c.want {
			t.Errorf("the quartiles of %v are within %g %%, want %g", c.values, got, c.want)
		}
	}
}
