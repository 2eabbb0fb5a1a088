// Package batch repeats a measurement in batches, between which the ranks tell each other how it goes.
package batch

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/bench/windows"
	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/session"
)

// Length is how long the iterations between two batches should take: long beside
// the gather between them, short beside the time of a person who waits for a
// Ctrl-C to take effect. It is also short beside the timeout, by batchShare, which is
// what a busy CPU that ranks wait on in turns slows them down by: the
// ranks that wait for the next batch must not give up because the iterations have
// become slower than those before.
const (
	Length     = 200 * time.Millisecond
	batchShare = 400
	// leastShare bounds by the timeout, likewise, a batch of the least that a Repetition has.
	leastShare = 8
)

// What is measured if nobody says how often: iterations as in nccl-tests, and as many
// more as last LeastSpan, since 20 of a microsecond say how late the ranks came to
// them. The median of leastBatches or more leaves out what disturbs a few.
const (
	LeastIters   = 20
	LeastWarmup  = 5
	LeastSpan    = session.DefaultBenchSpan
	leastBatches = 10
	// SpanLength is a batch of those, and longer by meetings where the ranks need long to meet before
	// it: they leave a meeting as far apart, which must not be what is measured.
	SpanLength = LeastSpan / leastBatches
	meetings   = 5
)

// Repetition is how often something is repeated.
type Repetition struct {
	Warmup   int           // iterations that are not measured
	Iters    int           // iterations that are
	Duration time.Duration // measure for so long instead, if above zero
	// WarmSpan and Span are how long is warmed up and measured at least, the latter in
	// batches of SpanLength; zero if it was said how many iterations.
	WarmSpan, Span time.Duration
	Batch          time.Duration // of the iterations between two batches; zero: Length
	// Least is how many iterations a batch has even if it takes longer than Batch,
	// up to longest: where iterations overlap, the mean of a few says too much.
	Least   int
	longest time.Duration
	// Talk, if it is set, is how ranks talk between batches, but for the first, when
	// they may be in different commands.
	Talk *Talk
	// Heard, if it is set, is called on all ranks alike with what they tell of a batch of so
	// many iterations, whose mean was us.
	Heard func(all []windows.Told, iters int, us float64) error
	Kept  *windows.Keeper // has what this rank tells of a batch; nil: nothing is told
}

// batchTold is what ranks tell each other between two batches.
type batchTold struct {
	Stop bool         `json:"stop,omitempty"` // this rank wants to stop
	Warm int          `json:"warm"`           // how many iterations come next that are not measured, and
	Next int          `json:"next"`           // how many that are; the leader's count
	Mean float64      `json:"mean"`           // of those of the last batch, in us; 0: there were none
	Told windows.Told `json:"told,omitzero"`  // of that batch, where ranks talk
}

// nextBatch is called on all ranks between two batches. Every rank learns how many
// iterations the leader wants next, how long those of the last batch took on the slowest
// rank, and whether any rank wants to stop: then all do, at the same place, and the ring
// can be used again.
func nextBatch(ctx context.Context, m *session.Member, s *session.Session, own batchTold, t *Talk) (next batchTold, told []windows.Told, err error) {
	own.Stop = s.Stopping()
	var all []batchTold
	if t == nil {
		all, err = session.Share(ctx, m, own)
	} else {
		var words []Said
		words, err = t.Share(ctx, own.say())
		for _, w := range words {
			all = append(all, w.batch())
		}
	}
	if err != nil {
		return next, nil, err
	}
	for rank, t := range all {
		if t.Next < 0 || t.Warm < 0 {
			return next, nil, fmt.Errorf("rank %d wants %d iterations next: expected 0 or more; do all ranks run the same version?", rank, min(t.Next, t.Warm))
		}
		told = append(told, t.Told)
		next.Stop, next.Mean = next.Stop || t.Stop, max(next.Mean, t.Mean)
	}
	next.Warm, next.Next = all[0].Warm, all[0].Next
	return next, told, nil
}

// Batched is how far a Repetition is.
type Batched struct {
	Done           int // iterations that were measured
	warmed         int
	batches        int // that measured
	warmTook, took time.Duration
	begun          time.Time     // the first batch that measures
	mean           time.Duration // of an iteration in the last batch; 0: there was none
	meeting        time.Duration // what the ranks' last Talk took this rank
	Means          []float64     // of the batches that measured, in us, of the slowest rank
}

// Run calls run for one batch after the other, at the same time on all
// ranks, until the Repetition is through or a rank wants to stop, which is ErrStopped. The first batch is a
// single iteration, which tells how many fit the others. The first warm of a
// batch's iterations are not measured, so that what the Talk between batches does to the ranks'
// timing is over before measuring begins. run returns the mean time of those that are, in
// us; 0 if this rank has none.
func Run(ctx context.Context, m *session.Member, s *session.Session, p Repetition, run func(warm, n int) (mean float64, err error)) (b Batched, err error) {
	timeout := s.Config.Duration("timeout")
	p.Batch, p.longest = min(cmp.Or(p.Batch, Length), timeout/batchShare), timeout/leastShare
	own, iters := batchTold{}, 0 // iters: of the last batch
	var t *Talk                  // after the first batch
	for {
		own.Warm, own.Next = p.next(b)
		if p.Kept != nil {
			own.Told = p.Kept.Last
		}
		began := time.Now()
		next, all, err := nextBatch(ctx, m, s, own, t)
		b.meeting = time.Since(began)
		if err == nil && p.Heard != nil && iters > 0 {
			err = p.Heard(all, iters, next.Mean)
		}
		if err != nil {
			return b, err
		}
		iters = next.Next
		t = p.Talk
		if next.Mean > 0 {
			b.Means = append(b.Means, next.Mean)
		}
		switch {
		case next.Warm+next.Next == 0:
			return b, nil
		case next.Stop:
			return b, ErrStopped
		}
		began = time.Now()
		if next.Next > 0 && b.begun.IsZero() {
			b.begun = began
		}
		if own.Mean, err = run(next.Warm, next.Next); err != nil {
			return b, err
		}
		took := time.Since(began)
		b.mean = max(took/time.Duration(next.Warm+next.Next), 1)
		b.warmed, b.Done = b.warmed+next.Warm, b.Done+next.Next
		if next.Next > 0 {
			b.took += took
			b.batches++
		} else {
			b.warmTook += took
		}
	}
}

// next is how many iterations the next batch has, those before that are not measured
// and those that are; none is the end.
func (p Repetition) next(b Batched) (warm, n int) {
	mean, batch := max(b.mean, 1), cmp.Or(p.Batch, Length)
	fitting := func(t time.Duration) int { return max(1, int(t/mean)) }
	warm, left := max(0, p.Warmup-b.warmed), max(0, p.Iters-b.Done)
	switch {
	case p.Duration > 0:
		rest := p.Duration
		if !b.begun.IsZero() {
			rest -= time.Since(b.begun)
		}
		if rest <= 0 {
			return 0, 0
		}
		left = fitting(rest)
	case b.mean > 0 && b.warmTook < p.WarmSpan && b.Done == 0:
		return min(max(warm, fitting(p.WarmSpan-b.warmTook)), fitting(batch)), 0
	case p.Span > 0 && warm > 0 && b.mean > 0:
		return min(warm, fitting(batch)), 0
	case p.Span > 0 && b.mean > 0:
		if left == 0 && b.took >= p.Span && b.batches >= leastBatches {
			return 0, 0
		}
		if n = max(fitting(min(batch, max(SpanLength, meetings*b.meeting))), min(p.Least, fitting(p.Span))); n > 1 {
			warm = 1
		}
		return warm, n
	}
	n = min(warm+left, 1)
	if b.mean > 0 {
		n = min(warm+left, max(fitting(batch), min(p.Least, int(p.longest/mean))))
	}
	warm = min(warm, n)
	return warm, n - warm
}

// Stopped is the error of a command which was asked to stop and did so on all
// ranks together.
func Stopped(format string, args ...any) error {
	return exit.Sharedf(exit.Interrupted, "interrupted after %s; the ring is usable", fmt.Sprintf(format, args...))
}

// ErrStopped is worded anew by who knows how much was done.
var ErrStopped = Stopped("some rounds")

// IsStopped recognises the error of Stopped.
func IsStopped(err error) bool {
	return err != nil && exit.IsShared(err) && exit.Code(err) == exit.Interrupted
}

// Flags are those of everything that is repeated.
func Flags(fs *pflag.FlagSet) {
	command.NumberFlag(fs, "iters", "", LeastIters, 1, mostIters, "the iterations to measure", fmt.Sprintf("iterations measured; not given: at least so many, and for %s", LeastSpan))
	command.NumberFlag(fs, "warmup", "w", LeastWarmup, 0, mostIters, "the iterations before", "iterations before that; likewise")
	command.DurationFlag(fs, "duration", 0, "measure for this long instead of --iters")
}

const mostIters = 1 << 40

// Of reads the flags.
func Of(s *session.Session, fs *pflag.FlagSet) Repetition {
	p := Repetition{Iters: command.NumberOf(fs, "iters"), Warmup: command.NumberOf(fs, "warmup"), Duration: command.Value[time.Duration](fs, "duration")}
	if !fs.Changed("iters") && p.Duration == 0 {
		if p.Span = s.BenchSpan; !fs.Changed("warmup") {
			p.WarmSpan = p.Span
		}
	}
	return p
}
