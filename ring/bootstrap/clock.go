package bootstrap

import (
	"context"
	"strconv"
	"time"
)

// clockBurst is how many comparisons a burst has: enough for one of them to meet
// no queue on its way.
const clockBurst = 8

// reading is a comparison of two clocks with NTP's four timestamps (RFC 5905,
// section 8), in nanoseconds since the Unix epoch: T1 and t4 by the asker's
// clock, T2 and T3 by the answerer's. T1 and T3 are taken by the writers right
// before they write, T2 and t4 by the readers right after the read.
type reading struct {
	T1 int64 `json:"t1_ns"` // the question was sent
	T2 int64 `json:"t2_ns"` // it arrived
	T3 int64 `json:"t3_ns"` // the answer was sent
	t4 int64 // it arrived
}

// offset is the answerer's clock minus the asker's. It is wrong by at most half
// of rtt, the time that both frames were under way.
func (r *reading) offset() (at, offset, rtt int64) {
	return r.T1 + (r.t4-r.T1)/2, ((r.T2 - r.T1) + (r.T3 - r.t4)) / 2, (r.t4 - r.T1) - (r.T3 - r.T2)
}

// sampleClock compares this rank's trace clock with the right neighbour's and records
// the result. It needs the exchange; its errors are those of Ask. In a ring of one there
// is nothing to compare.
func (a *asks) sampleClock(ctx context.Context) error {
	if a.own.size == 1 {
		return nil
	}
	r, err := a.inquire(ctx, right, question{Kind: "clock", Clock: new(reading)})
	switch {
	case err != nil:
		return err
	case r.Clock == nil:
		return &AnswerError{Rank: a.own.neighbour(right), Kind: "clock", Text: "no time, but " + strconv.Quote(r.Error)}
	}
	// A clock that was set back meanwhile tells nothing.
	if at, offset, rtt := r.Clock.offset(); rtt >= 0 {
		a.own.cfg.Sample(a.own.neighbour(right), at, offset, rtt)
	}
	return nil
}

// compareClocks samples the right neighbour's clock, in a burst once the ring is
// connected and then once a second. Errors end the connection or the ring, which
// others report.
func (a *asks) compareClocks() {
	for n := 1; a.sampleClock(a.life.ring) == nil; n++ {
		if n < clockBurst {
			continue
		}
		select {
		case <-a.life.ring.Done():
			return
		case <-time.After(clockPause):
		}
	}
}
