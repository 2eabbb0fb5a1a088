package bench

import (
	"cmp"
	"context"
	"fmt"
	"time"

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

// repetition is how often something is repeated.
type repetition struct {
	warmup   int           // iterations that are not measured
	iters    int           // iterations that are
	duration time.Duration // measure for so long instead, if above zero
	batch    time.Duration // of the iterations between two batches; zero: batchTime
	// least is how many iterations a batch has even if it takes longer than batch,
	// up to longest: where iterations overlap, the mean of a few says too much.
	least   int
	longest time.Duration
}

// batchTold is what ranks tell each other between two batches.
type batchTold struct {
	Stop bool `json:"stop,omitempty"` // this rank wants to stop
	Next int  `json:"next"`           // how many iterations come next; the leader's counts
}

// nextBatch is called on all ranks between two batches. Every rank learns how many
// iterations the leader wants next, and whether any rank wants to stop: then all
// do, at the same place, and the ring can be used again.
func nextBatch(ctx context.Context, m *session.Member, s *session.Session, next int) (n int, stop bool, err error) {
	all, err := session.Share(ctx, m, batchTold{Stop: s.Stopping(), Next: next})
	if err != nil {
		return 0, false, err
	}
	for rank, t := range all {
		if t.Next < 0 {
			return 0, false, fmt.Errorf("rank %d wants %d iterations next: expected 0 or more; do all ranks run the same version?", rank, t.Next)
		}
		if rank == 0 {
			n = t.Next
		}
		stop = stop || t.Stop
	}
	return n, stop, nil
}

// inBatches calls run for one batch after the other, at the same time on all
// ranks, until the repetition is through or a rank wants to stop, which is errSome. The first batch is a
// single iteration, which tells how many fit the others. The first warm of a
// batch's iterations are not measured, so that what the talk between batches does to the ranks'
// timing is over before measuring begins.
func inBatches(ctx context.Context, m *session.Member, s *session.Session, p repetition, run func(warm, n int) error) error {
	p.batch = min(batchTime, s.Config.Duration("timeout")/batchShare)
	p.longest = s.Config.Duration("timeout") / leastShare
	warm, left := p.warmup, p.iters
	var (
		begun time.Time     // of the first batch that measures
		mean  time.Duration // of an iteration in the last batch
	)
	for p.duration > 0 || warm+left > 0 {
		n, stop, err := nextBatch(ctx, m, s, p.next(warm, left, mean, begun))
		switch {
		case n == 0 || err != nil:
			return err
		case stop:
			return errSome
		}
		w := min(n, warm)
		n -= w
		t := time.Now()
		if n > 0 && begun.IsZero() {
			begun = t
		}
		if err := run(w, n); err != nil {
			return err
		}
		mean = max(time.Since(t)/time.Duration(w+n), 1)
		warm, left = warm-w, left-n
	}
	return nil
}

// next is how many iterations the next batch has; 0 is the end.
func (p repetition) next(warm, left int, mean time.Duration, begun time.Time) int {
	if p.duration > 0 {
		left = int(p.duration / max(mean, 1))
		if !begun.IsZero() {
			rest := p.duration - time.Since(begun)
			if rest <= 0 {
				return 0
			}
			left = int(rest / max(mean, 1))
		}
		left = max(left, 1)
	}
	if mean == 0 {
		return 1
	}
	least := min(p.least, int(p.longest/mean))
	return min(warm+left, max(1, least, int(cmp.Or(p.batch, batchTime)/mean)))
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
