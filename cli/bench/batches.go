package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"ringcli/cli/bench/windows"
	"ringcli/cli/exit"
	"ringcli/cli/session"
)

// batchTime is how long the iterations between two batches should take: long beside
// the gather between them, short beside the time of a person who waits for a
// Ctrl-C to take effect. It is also short beside the timeout, by batchShare, which is
// what a busy CPU that ranks wait on in turns slows them down by: the
// ranks that wait for the next batch must not give up because the iterations have
// become slower than those before.
const (
	batchTime  = 200 * time.Millisecond
	batchShare = 400
	// leastShare bounds by the timeout, likewise, a batch of the least that a repetition has.
	leastShare = 8
)

// What is measured if nobody says how often: iterations as in nccl-tests, and as many
// more as last leastSpan, since 20 of a microsecond say how late the ranks came to
// them. The median of leastBatches or more leaves out what disturbs a few.
const (
	leastIters   = 20
	leastWarmup  = 5
	leastSpan    = 50 * time.Millisecond
	leastBatches = 10
	// spanTime is a batch of those, and longer by meetings where the ranks need long to meet before
	// it: they leave a meeting as far apart, which must not be what is measured.
	spanTime = leastSpan / leastBatches
	meetings = 5
)

// Span is leastSpan: tests alone change it, of which most need few iterations.
var Span = leastSpan

// repetition is how often something is repeated.
type repetition struct {
	warmup   int           // iterations that are not measured
	iters    int           // iterations that are
	duration time.Duration // measure for so long instead, if above zero
	// warmSpan and span are how long is warmed up and measured at least, the latter in
	// batches of spanTime; zero if it was said how many iterations.
	warmSpan, span time.Duration
	batch          time.Duration // of the iterations between two batches; zero: batchTime
	// least is how many iterations a batch has even if it takes longer than batch,
	// up to longest: where iterations overlap, the mean of a few says too much.
	least   int
	longest time.Duration
	// talk, if it is set, is how ranks talk between batches, but for the first, when
	// they may be in different commands.
	talk *talk
	// heard, if it is set, is called on all ranks alike with what they tell of a batch of so
	// many iterations, whose mean was us.
	heard func(all []windows.Told, iters int, us float64) error
	kept  *windows.Keeper // has what this rank tells of a batch; nil: nothing is told
}

// batchTold is what ranks tell each other between two batches.
type batchTold struct {
	Stop  bool         `json:"stop,omitempty"`  // this rank wants to stop
	Visit bool         `json:"visit,omitempty"` // a command of this rank wants the queue pairs
	Warm  int          `json:"warm"`            // how many iterations come next that are not measured, and
	Next  int          `json:"next"`            // how many that are; the leader's count
	Mean  float64      `json:"mean"`            // of those of the last batch, in us; 0: there were none
	Told  windows.Told `json:"told,omitzero"`   // of that batch, where ranks talk
}

// nextBatch is called on all ranks between two batches. Every rank learns how many
// iterations the leader wants next, how long those of the last batch took on the slowest
// rank, and whether any rank wants to stop: then all do, at the same place, and the ring
// can be used again.
func nextBatch(ctx context.Context, m *session.Member, s *session.Session, own batchTold, t *talk) (next batchTold, told []windows.Told, err error) {
	own.Stop, own.Visit = s.Stopping(), s.Visits.Wanted()
	var all []batchTold
	if t == nil {
		all, err = session.Share(ctx, m, own)
	} else {
		var words []said
		words, err = t.share(ctx, own.say())
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
		next.Stop, next.Visit, next.Mean = next.Stop || t.Stop, next.Visit || t.Visit, max(next.Mean, t.Mean)
	}
	next.Warm, next.Next = all[0].Warm, all[0].Next
	if next.Visit {
		err = receive(ctx, m, s)
	}
	return next, told, err
}

// visitRound is how long the ranks that wait for another's visit hear nothing of it:
// short beside every timeout.
const visitRound = 200 * time.Millisecond

// receive lets in who visits, on all ranks at the same boundary. It returns when no visit
// goes on anywhere.
func receive(ctx context.Context, m *session.Member, s *session.Session) error {
	type visiting struct {
		GoesOn bool `json:"goes_on,omitempty"`
	}
	for first := true; ; first = false {
		all, err := session.Share(ctx, m, visiting{s.Visits.Serve(ctx, first, visitRound)})
		if err != nil || !slices.Contains(all, visiting{true}) {
			return err
		}
	}
}

// batched is how far a repetition is.
type batched struct {
	warmed, done   int
	batches        int // that measured
	warmTook, took time.Duration
	begun          time.Time     // the first batch that measures
	mean           time.Duration // of an iteration in the last batch; 0: there was none
	meeting        time.Duration // what the ranks' last talk took this rank
	means          []float64     // of the batches that measured, in us, of the slowest rank
}

// inBatches calls run for one batch after the other, at the same time on all
// ranks, until the repetition is through or a rank wants to stop, which is errSome. The first batch is a
// single iteration, which tells how many fit the others. The first warm of a
// batch's iterations are not measured, so that what the talk between batches does to the ranks'
// timing is over before measuring begins. run returns the mean time of those that are, in
// us; 0 if this rank has none.
func inBatches(ctx context.Context, m *session.Member, s *session.Session, p repetition, run func(warm, n int) (mean float64, err error)) (b batched, err error) {
	timeout := s.Config.Duration("timeout")
	p.batch, p.longest = min(cmp.Or(p.batch, batchTime), timeout/batchShare), timeout/leastShare
	own, iters := batchTold{}, 0 // iters: of the last batch
	var t *talk                  // after the first batch
	for {
		own.Warm, own.Next = p.next(b)
		if p.kept != nil {
			own.Told = p.kept.Last
		}
		began := time.Now()
		next, all, err := nextBatch(ctx, m, s, own, t)
		b.meeting = time.Since(began)
		if err == nil && p.heard != nil && iters > 0 {
			err = p.heard(all, iters, next.Mean)
		}
		if err != nil {
			return b, err
		}
		iters = next.Next
		t = p.talk
		if next.Mean > 0 {
			b.means = append(b.means, next.Mean)
		}
		switch {
		case next.Warm+next.Next == 0:
			return b, nil
		case next.Stop:
			return b, errSome
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
		b.warmed, b.done = b.warmed+next.Warm, b.done+next.Next
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
func (p repetition) next(b batched) (warm, n int) {
	mean, batch := max(b.mean, 1), cmp.Or(p.batch, batchTime)
	fitting := func(t time.Duration) int { return max(1, int(t/mean)) }
	warm, left := max(0, p.warmup-b.warmed), max(0, p.iters-b.done)
	switch {
	case p.duration > 0:
		rest := p.duration
		if !b.begun.IsZero() {
			rest -= time.Since(b.begun)
		}
		if rest <= 0 {
			return 0, 0
		}
		left = fitting(rest)
	case b.mean > 0 && b.warmTook < p.warmSpan && b.done == 0:
		return min(max(warm, fitting(p.warmSpan-b.warmTook)), fitting(batch)), 0
	case p.span > 0 && warm > 0 && b.mean > 0:
		return min(warm, fitting(batch)), 0
	case p.span > 0 && b.mean > 0:
		if left == 0 && b.took >= p.span && b.batches >= leastBatches {
			return 0, 0
		}
		if n = max(fitting(min(batch, max(spanTime, meetings*b.meeting))), min(p.least, fitting(p.span))); n > 1 {
			warm = 1
		}
		return warm, n
	}
	n = min(warm+left, 1)
	if b.mean > 0 {
		n = min(warm+left, max(fitting(batch), min(p.least, int(p.longest/mean))))
	}
	warm = min(warm, n)
	return warm, n - warm
}

// errStopped is that of a command which was asked to stop and did so on all
// ranks together.
func errStopped(format string, args ...any) error {
	return exit.Sharedf(exit.Interrupted, "interrupted after %s; the ring is usable", fmt.Sprintf(format, args...))
}

// errSome is worded anew by who knows how much was done.
var errSome = errStopped("some rounds")

// IsStopped recognises errStopped.
func IsStopped(err error) bool {
	return err != nil && exit.IsShared(err) && exit.Code(err) == exit.Interrupted
}
