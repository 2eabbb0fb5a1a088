package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"ringcli/cli/bench/batch"
	"ringcli/cli/session"
	"ringcli/cli/timing"
)

// rounds measures one operation in several variants, in one pair of buffers. In a round
// each has its turn, so that what disturbs one disturbs all, and the median of the
// rounds leaves out what disturbs a few.
type rounds struct {
	m        *session.Member
	s        *session.Session
	o        operation
	list     Variants
	v        vectors
	possible Possible // of this rank

	begun   time.Time           // by the own clock
	spent   time.Duration       // since then by rank 0's clock, when it was told last
	done    int                 // rounds
	counts  []int               // of iterations on this rank, by variant
	watches []*timing.Stopwatch // of each variant's iterations on this rank; nil if only the means count
}

// roundTold is what ranks tell each other after a round.
type roundTold struct {
	Stop  bool          `json:"stop,omitempty"` // this rank wants to stop
	Spent time.Duration `json:"spent"`          // by this rank's clock; the leader's counts
	Means []float64     `json:"means"`          // of an iteration, by variant, in us; 0: sat out
}

// next is a round: so many iterations of each variant. It returns their mean times in us,
// of the slowest rank, which are the same on all ranks; 0 is that of a variant that sat
// out.
func (r *rounds) next(ctx context.Context, iters []int) ([]float64, error) {
	means := make([]float64, len(r.list))
	for i := range r.list {
		w := (i + r.done) % len(r.list) // nobody is always the first
		if iters[w] == 0 {
			continue
		}
		var err error
		if means[w], err = r.turn(ctx, w, iters[w], r.done == 0 || iters[w] > 1); err != nil {
			return nil, err
		}
	}
	all, err := session.Share(ctx, r.m, roundTold{Stop: r.s.Stopping(), Spent: time.Since(r.begun), Means: means})
	if err != nil {
		return nil, err
	}
	slowest := make([]float64, len(means))
	for rank, told := range all {
		if told.Stop {
			return nil, batch.ErrStopped
		}
		if len(told.Means) != len(means) {
			return nil, fmt.Errorf("rank %d has measured %d ways, rank %d %d: do all ranks run the same version?", rank, len(told.Means), r.m.Comm.Rank(), len(means))
		}
		for w, us := range told.Means {
			slowest[w] = max(slowest[w], us)
		}
	}
	r.spent = all[0].Spent
	r.done++
	return slowest, nil
}

// turn runs one variant's iterations and returns their mean time in us, without the
// first, which the other ranks may come late to.
func (r *rounds) turn(ctx context.Context, w, n int, warm bool) (float64, error) {
	runs, err := r.o.by(r.list[w]).on(r.m, r.v)
	if err != nil {
		return 0, err
	}
	if warm {
		if err := runs.run(ctx); err != nil {
			return 0, err
		}
	}
	var watch *timing.Stopwatch
	if r.watches != nil {
		watch = r.watches[w]
	}
	r.counts[w] += n
	return r.o.iterate(ctx, runs, n, watch)
}

// fitting is how many iterations of so many us fit a turn; at least one.
func fitting(turn time.Duration, us float64) int {
	return max(1, int(float64(turn)/float64(time.Microsecond)/max(us, 1e-3)))
}

// withoutPilot are the times of a round that count. A first one that was a single
// iteration of many only told how many there can be.
func withoutPilot(means []float64, first bool, turn time.Duration) []float64 {
	if !first {
		return means
	}
	means = slices.Clone(means)
	for w, us := range means {
		if us < float64(turn.Microseconds())/2 {
			means[w] = 0
		}
	}
	return means
}

// roundMeans has the mean time of an iteration by round and variant, in us, of the
// slowest rank; 0 is that of a variant that sat the round out.
type roundMeans [][]float64

// of are one variant's.
func (r roundMeans) of(w int) []float64 {
	var means []float64
	for _, round := range r {
		if round[w] > 0 {
			means = append(means, round[w])
		}
	}
	return means
}
