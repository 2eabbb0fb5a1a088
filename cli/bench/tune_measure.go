package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"ringcli/cli/bench/batch"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/cli/tables"
	"ringcli/collective"
	"ringcli/collective/reduce"
	"ringcli/configs"
)

const (
	// tuneMost rounds tell medians apart that differ by tuneGain, on machines that
	// are not quiet; more would go to sizes that are settled.
	tuneMost = 9
	// tuneTurn bounds a variant's turn, if it is not a single iteration: a round over all
	// variants is then shorter than most disturbances are apart.
	tuneTurn = 20 * time.Millisecond
	// tuneHopeless times slower than the fastest is a variant that is not tried again at
	// this size: by one measurement, and by the median of some.
	tuneHopelessOnce, tuneHopeless = 4, 1.5
)

// tuning measures a ring. All ranks have the same in it: what they decide by is
// what they have told each other.
type tuning struct {
	s      *session.Session
	m      *session.Member
	list   Variants
	budget time.Duration
	begun  time.Time     // by the own clock
	spent  time.Duration // by rank 0's, when it was told last

	points     [][]tunePoint // by operation, then by size
	rounds     int
	iterations int // on this rank
	short      bool
}

// run measures size by size: when the budget is spent, what is missing is the
// longest, of all operations alike.
func (t *tuning) run(ctx context.Context) error {
	if err := t.s.Out.Note(render.Faint, "%d ways on %d ranks of %s%s, %d sizes from %d bytes to %s, %d operations, about %s; times are medians in us",
		len(t.list), t.m.Comm.Size(), t.m.Table.Devices, t.m.Conditions(), len(tunedSizes), tunedSizes[0], configs.FormatSize(uint64(tunedSizes[len(tunedSizes)-1])),
		len(tables.Operations), t.budget); err != nil {
		return err
	}
	left := tunedPoints()
	for at, size := range tunedSizes {
		for i, op := range tables.Operations {
			size := size
			if !op.OnVectors() {
				size = 0
			}
			if size == 0 && at > 0 {
				continue
			}
			if t.short = t.short || !t.affordable(t.points[i], size); t.short {
				return nil
			}
			p, err := t.point(ctx, op, size, (t.budget-t.spent)/time.Duration(left))
			if err != nil {
				if batch.IsStopped(err) {
					return batch.Stopped("%d of %d sizes; nothing is kept", tunedPoints()-left, tunedPoints())
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
	auto, v, err := prepare(ctx, m, o)
	if err != nil {
		return p, err
	}
	defer func() { err = v.free(err) }()
	p = tunePoint{op: op, bytes: size, standard: slices.Index(t.list, variantOf(auto.plan))}
	if p.standard < 0 {
		return p, fmt.Errorf("tune: the built-in choice for %s of %d bytes is %s: expected one of %v", op, size, variantOf(auto.plan), t.list)
	}
	t.s.Progress.Begin("tune: %s of %s", op, configs.FormatSize(uint64(size)))
	defer t.s.Progress.End()

	r := rounds{m: m, s: t.s, o: o, list: t.list, v: v, begun: t.begun, counts: make([]int, len(t.list))}
	defer func() {
		t.rounds += r.done
		for _, n := range r.counts {
			t.iterations += n
		}
	}()
	began := t.spent
	turn := min(share/time.Duration((tuneMost+1)*len(t.list)), tuneTurn)
	iters := make([]int, len(t.list))
	for i, w := range t.list {
		if w.runs(m.Comm, op) {
			iters[i] = 1
		}
	}
	for {
		means, err := r.next(ctx, iters)
		if err != nil {
			return p, err
		}
		t.spent = r.spent
		t.s.Progress.Step("round %d, %s of %s", r.done, t.spent.Truncate(time.Second), t.budget)
		p.rounds = append(p.rounds, withoutPilot(means, r.done == 1, turn))
		p.next(iters, means, turn)
		over := t.spent-began > share && len(p.rounds) > tuneRounds || t.spent > t.budget
		if r.done > tuneMost || over && r.done > 1 {
			return p, nil
		}
	}
}

// next says how many iterations each variant has in the next round: as many as fit a
// turn, and none once there is no hope. The default stays, to be measured against.
func (p tunePoint) next(iters []int, means []float64, turn time.Duration) {
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
		iters[w] = fitting(turn, us)
		slow := us > tuneHopelessOnce*fastest && iters[w] == 1
		if column := p.rounds.of(w); len(column) >= tuneRounds {
			slow = slow || times[w] > tuneHopeless*median
		}
		if slow && w != p.standard {
			iters[w] = 0
		}
	}
}
