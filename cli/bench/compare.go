package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"ringcli/cli/bench/batch"
	"ringcli/cli/session"
	"ringcli/cli/timing"
	gpus "ringcli/collective/gpu"
	"ringcli/verbs/route"
)

const (
	// Each variant has its turn at a size compareFewest times, and if that is
	// over before compareSpan up to compareMost times. A machine that is slow for a
	// moment spoils a round or two, and the median leaves them out.
	compareFewest, compareMost = 5, 15
	compareSpan                = time.Second
	// compareTime bounds a variant's turn: with three of them a round is still shorter
	// than most disturbances are apart.
	compareTime = batch.Length / 2
	// compareTie is the difference below which a variant is not ahead of the one
	// that led at the size before: less is noise, and crossovers that come and go
	// with it would say nothing.
	compareTie = 0.03
)

// compare measures an operation at one size in several variants by turns. A mean time is
// the median of the rounds'. If it was stopped, the error is batch.Stopped.
func compare(ctx context.Context, m *session.Member, s *session.Session, o operation, list Variants) (row CompareRow, err error) {
	auto, v, err := prepare(ctx, m, o.by(Variant{}))
	if err != nil {
		return row, err
	}
	defer func() { err = v.free(err) }()
	row.Variants, row.Auto = list, variantOf(auto.plan)
	s.Progress.Begin("%s", o)
	defer s.Progress.End()
	r := rounds{m: m, s: s, o: o, list: list, v: v, begun: time.Now(), counts: make([]int, len(list))}
	for range list {
		r.watches = append(r.watches, timing.New())
	}
	possibleOf(m, o.bytes()) // and once more afterwards
	means, err := r.compare(ctx)
	if err != nil {
		return row, err
	}
	r.possible = possibleOf(m, o.bytes())
	for w := range list {
		result, err := r.resultOf(ctx, w, means.of(w))
		if err != nil {
			return row, err
		}
		row.Each = append(row.Each, result)
		if result.Time.Mean < row.Each[row.Best].Time.Mean {
			row.Best = w
		}
	}
	return row, nil
}

// turns says how long a variant's turn in a round is.
func (o operation) turns() string {
	if o.Span > 0 {
		return batch.SpanLength.String()
	}
	return fmt.Sprintf("at most %s and %d iterations", compareTime, o.Iters)
}

// compare warms up and lets all variants have their turns, as often as the leader's clock
// says: if --duration is given, for so long each.
func (r *rounds) compare(ctx context.Context) (means roundMeans, err error) {
	fewest, most, limit := compareFewest, compareMost, compareSpan
	if r.o.Duration > 0 {
		fewest, most, limit = 1, math.MaxInt-1, r.o.Duration*time.Duration(len(r.list))
	}
	turn, longest := compareTime, r.o.Iters
	if r.o.Span > 0 {
		turn, longest = batch.SpanLength, math.MaxInt
	}
	for _, w := range r.list {
		runs, err := r.o.by(w).on(r.m, r.v)
		if err != nil {
			return nil, err
		}
		_, err = batch.Run(ctx, r.m, r.s, batch.Repetition{Warmup: r.o.Warmup, WarmSpan: r.o.WarmSpan}, func(warm, _ int) (float64, error) {
			_, err := r.o.iterate(ctx, runs, warm, nil)
			return 0, err
		})
		if err != nil {
			return nil, err
		}
	}
	r.begun = time.Now()
	iters := slices.Repeat([]int{1}, len(r.list))
	for r.done <= fewest || r.done <= most && r.spent < limit {
		r.s.Progress.Step("round %d", r.done+1)
		now, err := r.next(ctx, iters)
		if err != nil {
			return nil, err
		}
		for w, us := range now {
			iters[w] = min(fitting(turn, us), longest)
		}
		means = append(means, withoutPilot(now, r.done == 1, turn))
	}
	return means, nil
}

// resultOf runs a variant once more, checks that if it was asked for, and puts the ranks'
// results together.
func (r *rounds) resultOf(ctx context.Context, w int, means []float64) (result Measurement, err error) {
	m, o := r.m, r.o.by(r.list[w])
	runs, err := o.on(m, r.v)
	if err != nil {
		return result, err
	}
	mine := RankMeasurement{Rank: m.Comm.Rank(), Time: r.watches[w].Times(), LinkRate: linkRate(m), Possible: r.possible}
	if runs.Path == gpus.IPC || runs.backend != nil {
		mine.Possible = Possible{}
	}
	mine.Time.Mean = timing.ThreePlaces(timing.Median(means))
	before := m.Comm.Stats()
	var c checking
	if o.check {
		if err := c.next(ctx, m, o, r.v); err != nil {
			return result, err
		}
		mine.Wrong, mine.First = &c.wrong, c.first
	} else if err := runs.run(ctx); err != nil {
		return result, err
	}
	after := m.Comm.Stats()
	effort := Effort{after.CopiedAllGather - before.CopiedAllGather, after.RTS - before.RTS}
	each, err := session.Share(ctx, m, told{RankMeasurement: mine, Effort: effort, Host: route.ThisHost().BootID})
	if err != nil {
		return result, err
	}
	all := ofHosts(each)
	var most Effort
	for _, t := range each {
		most = Effort{max(most.Copied, t.Effort.Copied), max(most.Handshakes, t.Effort.Handshakes)}
	}
	result = resultOf(m, o, runs, r.counts[w], means, all)
	result.Effort, result.Corruption, result.Buffers = &most, c.Corruption(), r.v.from
	return result, nil
}
