package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ringcli/cli/render"
	"ringcli/collective"
	"ringcli/collective/reduce"
	"ringcli/configs"
)

const (
	// tuneMost rounds tell medians apart that differ by tuneGain, on machines that
	// are not quiet; more would go to sizes that are settled.
	tuneMost = 9
	// tuneTurn bounds a way's turn, if it is not a single iteration: a round over all
	// ways is then shorter than most disturbances are apart.
	tuneTurn = 20 * time.Millisecond
	// tuneHopeless times slower than the fastest is a way that is not tried again at
	// this size: by one measurement, and by the median of some.
	tuneHopelessOnce, tuneHopeless = 4, 1.5
)

// tuning measures a ring. All ranks have the same in it: what they decide by is
// what they have told each other.
type tuning struct {
	s      *Session
	m      *Member
	list   ways
	budget time.Duration
	begun  time.Time     // by the own clock
	spent  time.Duration // by rank 0's, when it was told last

	points     [][]tunePoint // by operation, then by size
	rounds     int
	iterations int // on this rank
	short      bool
}

// tuneTold is what ranks tell each other after a round.
type tuneTold struct {
	Stop  bool          `json:"stop,omitempty"` // this rank wants to stop
	Spent time.Duration `json:"spent"`          // by this rank's clock; the leader's counts
	Means []float64     `json:"means"`          // of an iteration, by way, in us; 0: sat out
}

// run measures size by size: when the budget is spent, what is missing is the
// longest, of all operations alike.
func (t *tuning) run(ctx context.Context) error {
	if err := t.s.Out.Note(render.Faint, "%s; times are medians in us", t.title()); err != nil {
		return err
	}
	left := len(tunedSizes) * len(tunedOperations)
	for _, size := range tunedSizes {
		for i, op := range tunedOperations {
			if t.short = t.short || !t.affordable(t.points[i], size); t.short {
				return nil
			}
			p, err := t.point(ctx, op, size, (t.budget-t.spent)/time.Duration(left))
			if err != nil {
				if isStopped(err) {
					return errStopped("%d of %d sizes; nothing is kept", len(tunedSizes)*len(tunedOperations)-left, len(tunedSizes)*len(tunedOperations))
				}
				return err
			}
			left--
			t.points[i] = append(t.points[i], p)
			if err := t.s.Out.Print(t.pointRow(p)); err != nil {
				return err
			}
		}
	}
	return nil
}

// affordable tells whether what is left of the budget will do for the rounds that
// a size needs, if its time grows like its length.
func (t *tuning) affordable(before []tunePoint, size int64) bool {
	left := t.budget - t.spent
	if len(before) == 0 {
		return left > 0
	}
	last := before[len(before)-1]
	least := 0.0
	for w, us := range last.times(len(t.list)) {
		if w == last.standard || us < tuneHopeless*slices.Min(last.times(len(t.list))) {
			least += us
		}
	}
	return left > time.Duration(least*float64(size)/float64(last.bytes)*float64(time.Microsecond))*tuneRounds
}

// point measures one operation at one size, for about its share of the budget.
func (t *tuning) point(ctx context.Context, op collective.Operation, size int64, share time.Duration) (p tunePoint, err error) {
	m := t.m
	o := operation{op: op, typ: reduce.Float32, red: reduce.Sum, count: int(size) / reduce.Float32.Size()}
	plan, err := m.comm.Plan(o.call())
	if err != nil {
		return p, err
	}
	p = tunePoint{op: op, bytes: size, standard: slices.Index(t.list, wayOf(plan))}
	if p.standard < 0 {
		return p, fmt.Errorf("tune: the built-in choice for %s of %d bytes is %s: expected one of %v", op, size, wayOf(plan), t.list)
	}
	v, err := m.allocate(o)
	if err := m.agree(ctx, err); err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, v.free()) }()
	m.fill(o, v, 0)
	t.s.Progress.Begin("tune: %s of %s", op, configs.FormatSize(uint64(size)))
	defer t.s.Progress.End()

	began := t.spent
	iters := slices.Repeat([]int{1}, len(t.list))
	for round := 0; ; round++ {
		means := make([]float64, len(t.list))
		for i := range t.list {
			w := (i + round) % len(t.list) // nobody is always the first
			if iters[w] == 0 {
				continue
			}
			c := o
			c.options = t.list[w].in(c.options)
			if means[w], err = t.turn(ctx, c, v, iters[w], round == 0 || iters[w] > 1); err != nil {
				return p, err
			}
		}
		if means, err = t.tell(ctx, means); err != nil {
			return p, err
		}
		t.rounds++
		t.s.Progress.Step("round %d, %s of %s", round+1, t.spent.Truncate(time.Second), t.budget)
		slice := min(share/time.Duration((tuneMost+1)*len(t.list)), tuneTurn)
		p.rounds = append(p.rounds, settled(means, round == 0, slice))
		p.next(iters, means, slice)
		over := t.spent-began > share && len(p.rounds) > tuneRounds || t.spent > t.budget
		if round == tuneMost || over && round > 0 {
			return p, nil
		}
	}
}

// settled are the times of a round that count. A first one that was a single
// iteration of many only told how many there can be.
func settled(means []float64, first bool, slice time.Duration) []float64 {
	if !first {
		return means
	}
	means = slices.Clone(means)
	for w, us := range means {
		if us < float64(slice.Microseconds())/2 {
			means[w] = 0
		}
	}
	return means
}

// next says how many iterations each way has in the next round: as many as fit a
// slice, and none once there is no hope. The default stays, to be measured against.
func (p tunePoint) next(iters []int, means []float64, slice time.Duration) {
	times := p.times(len(iters))
	fastest, median := means[p.standard], times[p.standard]
	for w, us := range means {
		if us > 0 {
			fastest = min(fastest, us)
		}
		median = min(median, times[w])
	}
	for w, us := range means {
		if iters[w] == 0 {
			continue
		}
		iters[w] = max(1, int(float64(slice)/float64(time.Microsecond)/max(us, 1e-3)))
		slow := us > tuneHopelessOnce*fastest && iters[w] == 1
		if column := p.column(w); len(column) >= tuneRounds {
			slow = slow || times[w] > tuneHopeless*median
		}
		if slow && w != p.standard {
			iters[w] = 0
		}
	}
}

// turn runs one way's iterations and returns their mean time in us, without the
// first, which the other ranks may come late to.
func (t *tuning) turn(ctx context.Context, o operation, v vectors, n int, warm bool) (float64, error) {
	if warm {
		if err := t.m.once(ctx, o, v); err != nil {
			return 0, err
		}
	}
	begun := time.Now()
	for range n {
		if err := t.m.once(ctx, o, v); err != nil {
			return 0, err
		}
	}
	t.iterations += n
	return max(float64(time.Since(begun))/float64(time.Microsecond)/float64(n), 1e-3), nil
}

// tell shares a round's times: the slowest rank's count.
func (t *tuning) tell(ctx context.Context, mine []float64) ([]float64, error) {
	all, err := shareOut(ctx, t.m, tuneTold{Stop: t.s.stopping(), Spent: time.Since(t.begun), Means: mine})
	if err != nil {
		return nil, err
	}
	slowest := make([]float64, len(mine))
	for rank, told := range all {
		if told.Stop {
			return nil, errStopped("some rounds")
		}
		if len(told.Means) != len(mine) {
			return nil, fmt.Errorf("tune: rank %d has measured %d ways, rank %d %d: do all ranks run the same version?", rank, len(told.Means), t.m.comm.Rank(), len(mine))
		}
		for w, us := range told.Means {
			slowest[w] = max(slowest[w], us)
		}
	}
	t.spent = all[0].Spent
	return slowest, nil
}
