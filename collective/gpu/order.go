package gpu

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ringcli/verbs/memory"
)

// order is how far ranks have come, as they tell each other.
type order struct {
	sent    []uint32 // to each rank: the last number
	awaited []uint32 // from each rank, likewise
	waits   []wait   // of the operation that runs, in their order
	last    int      // the rank that was told last; -1 is none
}

// wait is one of the stream's.
type wait struct {
	from  int
	value uint32
	what  string
	// told is whom the stream tells before that, and told what; -1 is nobody.
	told    int
	telling uint32
}

// tell has the stream tell a rank that what comes before has run.
func (t *Team) tell(rank int) error {
	t.order.sent[rank]++
	t.order.last = rank
	return t.stream.Write(t.all.at[rank]+uint64(t.rank*lineBytes), t.order.sent[rank])
}

// await has the stream wait for what a rank tells next.
func (t *Team) await(rank int, what string) error {
	t.order.awaited[rank]++
	value := t.order.awaited[rank]
	w := wait{from: rank, value: value, what: what, told: t.order.last}
	if w.told >= 0 {
		w.telling = t.order.sent[w.told]
	}
	t.order.waits = append(t.order.waits, w)
	return t.stream.Await(t.arena.Addr()+uint64(rank*lineBytes), value)
}

const (
	// lookTime is how often it is looked whether the ring lives.
	lookTime = 20 * time.Millisecond
	// rescueTime is enough for a copy of a few bytes, and for a stream to run out for which
	// nothing has to be waited any more.
	rescueTime = 2 * time.Second
)

// finish waits until the stream has run out, for the ring's timeout. If it does not, the team has
// failed, and the ring with it.
func (t *Team) finish(ctx context.Context) error {
	defer func() { t.order.waits, t.order.last = t.order.waits[:0], -1 }()
	whole, cancel := context.WithTimeout(ctx, t.ring.Timeout())
	defer cancel()
	for {
		look, cancel := context.WithTimeout(whole, lookTime)
		err := t.stream.Wait(look)
		cancel()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, context.DeadlineExceeded) && whole.Err() == nil && !t.ring.Failed():
			continue
		case t.ring.Failed():
			err = t.ring.Err()
		case ctx.Err() != nil:
			err = fmt.Errorf("%s: %w", t.standing(), context.Cause(ctx))
		case whole.Err() != nil:
			err = fmt.Errorf("%s within %s: %w", t.culprit(ctx), t.ring.Timeout(), context.DeadlineExceeded)
		}
		t.rescueStream()
		t.ring.Fail(err)
		t.failure = t.ring.Failure().Settled(err)
		return t.failure
	}
}

// numbersNow are those that the other ranks have told this one.
func (t *Team) numbersNow() ([]uint32, error) {
	ctx, cancel := context.WithTimeout(context.Background(), rescueTime)
	defer cancel()
	if err := t.rescue.FromDevice(t.block.Addr(), t.arena.Addr(), t.numbers()); err != nil {
		return nil, err
	}
	if err := t.rescue.Wait(ctx); err != nil {
		return nil, err
	}
	return memory.Slice[uint32](t.block.Addr(), t.numbers()/4), nil
}

// standing is what a rank's stream waits for, as far as that rank knows.
type standing struct {
	Rank    int      `json:"rank"`
	From    int      `json:"from"` // the rank; -1: its device has work of its own to do
	What    string   `json:"what"`
	Told    int      `json:"told"`    // whom it tells before that, -1 is nobody,
	Telling uint32   `json:"telling"` // and the number
	Numbers []uint32 `json:"numbers"` // that it has been told, by rank
}

func (s standing) String() string {
	if s.From < 0 {
		return fmt.Sprintf("rank %d's device has not done its own work", s.Rank)
	}
	return fmt.Sprintf("rank %d has not come to %s", s.From, s.What)
}

// standing says what the stream waits for.
func (t *Team) standing() standing {
	s := standing{Rank: t.rank, From: -1, Numbers: make([]uint32, t.size)}
	numbers, err := t.numbersNow()
	if err != nil {
		return s
	}
	for rank := range s.Numbers {
		s.Numbers[rank] = numbers[rank*lineBytes/4]
	}
	for _, w := range t.order.waits {
		if int32(s.Numbers[w.from]-w.value) < 0 {
			s.From, s.What, s.Told, s.Telling = w.from, w.what, w.told, w.telling
			break
		}
	}
	return s
}

// culprit says whose device all others wait for in the end. A stream that has not told what it
// tells before its wait has not come to that. Where ranks do not say how they stand, since they are
// not in the operation, it is what this rank waits for itself.
func (t *Team) culprit(ctx context.Context) standing {
	own := t.standing()
	// Ranks come to this together, and one whose device does nothing any more has waited for that
	// first.
	ctx, cancel := context.WithTimeout(ctx, 2*rescueTime)
	defer cancel()
	all, err := gather(ctx, t, "wait of devices", own)
	if err != nil {
		return own
	}
	at := own
	for range all { // there is no circle, but for ranks that have looked at different times
		if at.From >= 0 && at.Told >= 0 && int32(all[at.Told].Numbers[at.Rank]-at.Telling) < 0 {
			at.From = -1
		}
		if at.From >= 0 {
			at = all[at.From]
		}
	}
	return at
}

// rescueStream has the stream run out: all that it waits for is written.
func (t *Team) rescueStream() {
	// A half of its own: a device that comes back late may still copy to the other one.
	half := t.block.Addr() + uint64(t.numbers())
	numbers := memory.Slice[uint32](half, t.numbers()/4)
	for rank, value := range t.order.awaited {
		numbers[rank*lineBytes/4] = value
	}
	ctx, cancel := context.WithTimeout(context.Background(), rescueTime)
	defer cancel()
	if t.rescue.ToDevice(t.arena.Addr(), half, t.size*lineBytes) == nil {
		_ = t.rescue.Wait(ctx) // if that fails, so does the next
		_ = t.stream.Wait(ctx) // its error is not what came first
	}
}
