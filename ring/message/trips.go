package message

import (
	"log/slog"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"ringcli/trace"
)

// PingResult is what one rank measured to a neighbour: whole round
// trips, verified at both ends.
type PingResult struct {
	Peer  int           `json:"peer"`
	Count int           `json:"count"` // round trips measured
	Bytes int           `json:"bytes"` // of a message, its header included
	Min   time.Duration `json:"min"`
	P50   time.Duration `json:"p50"`
	P99   time.Duration `json:"p99"`
	Max   time.Duration `json:"max"`
}

// Trips are the times of round trips, but for the first of each ping.
type Trips struct {
	least, most time.Duration
	histogram   *hdrhistogram.Histogram
}

// NewTrips returns none.
func NewTrips() Trips {
	// Nanosecond to minute, to three digits.
	return Trips{histogram: hdrhistogram.New(1, int64(time.Minute), 3)}
}

// Add notes the time of one round trip.
func (t *Trips) Add(number uint32, trip time.Duration) {
	if number == 0 {
		return
	}
	if t.least == 0 || trip < t.least {
		t.least = trip
	}
	t.most = max(t.most, trip)
	// A trip beyond a minute is beyond the histogram, not beyond Max.
	_ = t.histogram.RecordValue(min(int64(trip), int64(time.Minute)))
}

// Result is that of so many, of messages of so many bytes.
func (t *Trips) Result(peer, count, bytes int) PingResult {
	p50, p99 := time.Duration(t.histogram.ValueAtQuantile(50)), time.Duration(t.histogram.ValueAtQuantile(99))
	trace.Debug(trace.Ring, "ping", slog.Int("neighbour", peer), slog.Int("count", count), slog.Duration("p50", p50))
	return PingResult{Peer: peer, Count: count, Bytes: bytes, Min: t.least, Max: t.most, P50: p50, P99: p99}
}
