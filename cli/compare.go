package cli

import (
	"context"
	"errors"
	"math"
	"time"

	"ringcli/collective"
)

const (
	// Each way has its turn at a size compareFewest times, and if that is
	// over before compareSpan up to compareMost times. A machine that is slow for a
	// moment spoils a round or two, and the median leaves them out.
	compareFewest, compareMost = 5, 15
	compareSpan                = time.Second
	// compareTime bounds a way's turn: with three of them and their
	// warm-up a round is still shorter than most disturbances are apart.
	compareTime = batchTime / 2
	// compareTie is the difference below which a way is not ahead of the one
	// that led at the size before: less is noise, and crossovers that come and go
	// with it would say nothing.
	compareTie = 0.03
)

// contestant is one way at one size.
type contestant struct {
	operation
	plan  collective.Plan
	watch *stopwatch
	means []float64 // of an iteration in each round, us
}

// compare measures an operation at one size in several ways by turns, in one pair
// of buffers: A B C, A B C. A mean time is the median of the rounds'. If it was
// stopped, the error is errStopped.
func (m *Member) compare(ctx context.Context, s *Session, o operation, list ways) (row CompareRow, err error) {
	plan, err := m.comm.Plan(o.by(way{}).call())
	if err != nil { // the same on all ranks: nothing has been begun
		return row, sharedError(ExitUsage, "%w", err)
	}
	row.Ways, row.Auto = list, wayOf(plan)
	field := make([]*contestant, len(list))
	for i, w := range list {
		c := &contestant{operation: o, watch: newStopwatch()}
		c.options = w.in(o.options)
		if c.plan, err = m.comm.Plan(c.call()); err != nil {
			return row, sharedError(ExitUsage, "%w", err)
		}
		field[i] = c
	}
	if err := m.agree(ctx, checkMemory(o.bytes(), o.buffersFor(), m.ranksHere())); err != nil {
		return row, err
	}
	v, err := m.allocate(o)
	if err := m.agree(ctx, err); err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, v.free()) }()
	m.fill(o, v, 0)
	if err := m.rounds(ctx, s, o, v, field); err != nil {
		return row, err
	}
	for _, c := range field {
		result, err := m.resultOfRounds(ctx, c, v)
		if err != nil {
			return row, err
		}
		row.Each = append(row.Each, result)
		if result.Time.Mean < row.Each[row.Best].Time.Mean {
			row.Best = len(row.Each) - 1
		}
	}
	return row, nil
}

// rounds lets all ways have their turns, as often as the leader's clock says:
// if --duration is given, for so long each.
func (m *Member) rounds(ctx context.Context, s *Session, o operation, v vectors, field []*contestant) error {
	fewest, most, limit := compareFewest, compareMost, compareSpan
	if o.duration > 0 {
		fewest, most, limit = 1, math.MaxInt, o.duration*time.Duration(len(field))
	}
	begun := time.Now()
	for round := 0; ; round++ {
		another := 0
		if round < fewest || round < most && time.Since(begun) < limit {
			another = 1
		}
		if another, stop, err := m.takeTurn(ctx, s, another); another == 0 || stop || err != nil {
			return errors.Join(err, stoppedIf(stop && another > 0))
		}
		for _, c := range field {
			if err := m.round(ctx, s, c, v, round); err != nil {
				return err
			}
		}
	}
}

// round is one way's turn.
func (m *Member) round(ctx context.Context, s *Session, c *contestant, v vectors, round int) error {
	s.Progress.Begin("%s, round %d", c.operation, round+1)
	defer s.Progress.End()
	p := pace{warmup: c.warmup, iters: c.iters, limit: compareTime}
	if round > 0 {
		p.warmup = min(c.warmup, 1) // the caches have another way's data
	}
	w := newStopwatch()
	stopped, err := m.inBatches(ctx, s, p, func(warm, n int) error {
		for i := range warm + n {
			t := time.Now()
			if err := m.once(ctx, c.operation, v); err != nil {
				return err
			}
			if i >= warm {
				w.add(time.Since(t))
			}
			s.Progress.Step("%d/%d", w.count(), c.iters)
		}
		return nil
	})
	if w.count() > 0 {
		c.means = append(c.means, w.times().Mean)
		c.watch.h.Merge(w.h)
	}
	return errors.Join(err, stoppedIf(stopped))
}

// stoppedIf is an error that isStopped recognises. It is worded anew by who
// knows how much was done.
func stoppedIf(stopped bool) error {
	if !stopped {
		return nil
	}
	return errStopped("some rounds")
}

// resultOfRounds checks one run, if that was asked for, and puts the ranks'
// results together.
func (m *Member) resultOfRounds(ctx context.Context, c *contestant, v vectors) (result Measurement, err error) {
	mine := RankMeasurement{Rank: m.comm.Rank(), Time: c.watch.times()}
	mine.Time.Mean = sixPlaces(median(c.means))
	if c.check {
		wrong, first, err := m.checked(ctx, c.operation, v)
		if err != nil {
			return result, err
		}
		mine.Wrong, mine.First = &wrong, first
	}
	all, err := shareOut(ctx, m, mine)
	if err != nil {
		return result, err
	}
	return m.resultOf(c.operation, c.plan, c.watch.count(), all), nil
}
