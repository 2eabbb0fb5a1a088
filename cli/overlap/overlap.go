package overlap

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"slices"
	"time"

	"ringcli/cli/exit"
	"ringcli/cli/session"
	"ringcli/cli/timing"
	"ringcli/collective"
	"ringcli/collective/reduce/reference"
	"ringcli/configs/codes"
)

// flight is the operations that are in flight at once on this rank, each with buffers of
// its own.
type flight struct {
	m       *session.Member
	calls   []collective.Call
	buffers []*collective.Buffer // of each call, to send and to receive
	sums    []uint32             // of what Run receives, by call
}

// newFlight makes n calls alike, but for their inputs. It fails on all ranks alike.
func newFlight(ctx context.Context, m *session.Member, k collective.Call, n int) (f *flight, err error) {
	f = &flight{m: m}
	send, recv := k.Buffers(m.Comm.Size(), m.Comm.Rank())
	size := k.Type.Size()
	for i := 0; i < n && err == nil; i++ {
		var b [2]*collective.Buffer
		for side, length := range [...]int{send.Len() * size, recv.Len() * size} {
			if b[side], err = m.Comm.Alloc(uint64(length)); err != nil {
				break
			}
			f.buffers = append(f.buffers, b[side])
		}
		if err != nil {
			break
		}
		reference.Fill(b[0].Bytes(), k.Type, k.Reduction, m.Comm.Rank(), send.Lo, uint64(i))
		k.Send, k.Recv = b[0].Addr(), b[1].Addr()
		f.calls = append(f.calls, k)
	}
	if err := m.Agree(ctx, err); err != nil {
		return nil, errors.Join(err, f.free())
	}
	return f, nil
}

func (f *flight) free() error {
	var errs []error
	for _, b := range f.buffers {
		errs = append(errs, b.Free())
	}
	return errors.Join(errs...)
}

// run runs them one after the other.
func (f *flight) run(ctx context.Context) error {
	for _, k := range f.calls {
		if err := f.m.Comm.Run(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// start runs them in flight, does something meanwhile, and returns when all have ended: the
// last one first, after which none may be left.
func (f *flight) start(ctx context.Context, meanwhile func()) (err error) {
	handles := make([]*collective.Handle, 0, len(f.calls))
	for _, k := range f.calls {
		h, e := f.m.Comm.Start(ctx, k)
		if e != nil {
			err = e
			break
		}
		handles = append(handles, h)
	}
	meanwhile()
	for i, h := range slices.Backward(handles) {
		// The context is that of the operations, too: they end with it.
		<-h.Done()
		err = errors.Join(err, h.Err())
		for _, earlier := range handles[:i] {
			select {
			case <-earlier.Done():
			default:
				err = errors.Join(err, fmt.Errorf("operation %d in flight has ended before one that was started before it", i))
			}
		}
	}
	return err
}

// sum is what each call has received.
func (f *flight) sum() (sums []uint32) {
	for i := range f.calls {
		sums = append(sums, crc32.ChecksumIEEE(f.buffers[2*i+1].Bytes()))
	}
	return sums
}

// expect keeps what Run receives as what is right.
func (f *flight) expect(ctx context.Context) error {
	if err := f.run(ctx); err != nil {
		return err
	}
	f.sums = f.sum()
	return nil
}

// check is how many calls in flight receive something else.
func (f *flight) check(ctx context.Context) (wrong uint64, err error) {
	for i := range f.calls {
		clear(f.buffers[2*i+1].Bytes())
	}
	if err := f.start(ctx, func() {}); err != nil {
		return 0, err
	}
	for i, sum := range f.sum() {
		if sum != f.sums[i] {
			wrong++
		}
	}
	return wrong, nil
}

// compute does so many steps of arithmetic in registers: xorshift64 (Marsaglia, "Xorshift
// RNGs", 2003).
func compute(steps int) {
	x := uint64(88172645463325252)
	for range steps {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	runtime.KeepAlive(x) // nor does the compiler leave it out
}

// stepsIn is how many steps of compute take so long: as the fastest of some tries says, since
// others share the CPU.
func stepsIn(d time.Duration) int {
	const pilot, tries = 1 << 20, 5
	best := time.Hour
	for range tries {
		begun := time.Now()
		compute(pilot)
		best = min(best, max(time.Since(begun), 1))
	}
	return max(1, int(float64(d)*pilot/float64(best)))
}

// The ways that take turns.
const (
	communicates = iota
	computes
	inSequence
	overlapped
	ways
)

// rankTold is what a rank tells the others.
type rankTold struct {
	Stop  bool          `json:"stop,omitempty"`
	Takes time.Duration `json:"takes,omitempty"` // the communication
	Wrong uint64        `json:"wrong,omitempty"`
	Us    [ways]float64 `json:"us"` // the medians
}

// measure has all ranks communicate, compute, do one after the other, and both at once, by
// turns.
func measure(ctx context.Context, s *session.Session, k collective.Call, o asked) (result Overlap, err error) {
	m := s.Member
	plan, err := m.Comm.Plan(k)
	if err != nil { // the same on all ranks: nothing has been begun
		return result, exit.Sharedf(exit.Usage, "%w", err)
	}
	f, err := newFlight(ctx, m, k, o.inFlight)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, f.free()) }()
	if err := f.expect(ctx); err != nil {
		return result, err
	}
	var own rankTold
	if own.Wrong, err = f.check(ctx); err != nil {
		return result, err
	}
	if own.Takes, err = f.takes(ctx); err != nil {
		return result, err
	}
	all, err := session.Share(ctx, m, own)
	if err != nil {
		return result, err
	}
	span := o.compute
	if span == 0 {
		for _, told := range all {
			span = max(span, told.Takes)
		}
	}
	steps := stepsIn(span)
	var times [ways][]float64
	done := 0
	for ; done < o.iters; done++ {
		if all, err = session.Share(ctx, m, rankTold{Stop: s.Stopping()}); err != nil {
			return result, err
		}
		if slices.ContainsFunc(all, func(t rankTold) bool { return t.Stop }) {
			break
		}
		for way := range ways {
			us, err := f.timed(ctx, way, steps)
			if err != nil {
				return result, err
			}
			times[way] = append(times[way], us)
		}
	}
	if done == 0 {
		return result, exit.Sharedf(exit.Interrupted, "interrupted before the first iteration; the ring is usable")
	}
	wrong, err := f.check(ctx)
	if err != nil {
		return result, err
	}
	own = rankTold{Wrong: own.Wrong + wrong}
	for way := range own.Us {
		own.Us[way] = timing.ThreePlaces(timing.Median(times[way]))
	}
	if all, err = session.Share(ctx, m, own); err != nil {
		return result, err
	}
	result = resultOf(m, plan, o.inFlight, done, all)
	switch {
	case result.Wrong > 0:
		err = codes.With(codes.WrongData, exit.Sharedf(exit.Critical, "wrong data: %d results of %s in flight are not those of one at a time", result.Wrong, plan.Op))
	case done < o.iters:
		err = exit.Sharedf(exit.Interrupted, "interrupted after %d of %d iterations; the ring is usable", done, o.iters)
	}
	return result, err
}

// takes is how long the communication takes: the least of a few.
func (f *flight) takes(ctx context.Context) (time.Duration, error) {
	const tries = 3
	least := time.Hour
	for range tries {
		us, err := f.timed(ctx, communicates, 0)
		if err != nil {
			return 0, err
		}
		least = min(least, time.Duration(us*float64(time.Microsecond)))
	}
	return least, nil
}

// timed is how long one way takes, in us, which all ranks begin together.
func (f *flight) timed(ctx context.Context, way, steps int) (us float64, err error) {
	if err := f.m.Comm.Barrier(ctx); err != nil {
		return 0, err
	}
	begun := time.Now()
	switch way {
	case communicates:
		err = f.run(ctx)
	case computes:
		compute(steps)
	case inSequence:
		err = f.run(ctx)
		compute(steps)
	case overlapped:
		err = f.start(ctx, func() { compute(steps) })
	}
	return float64(time.Since(begun)) / float64(time.Microsecond), err
}
