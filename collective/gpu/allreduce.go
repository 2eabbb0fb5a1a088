package gpu

import (
	"context"
	"fmt"

	"ringcli/collective"
	"ringcli/collective/gpu/kernels"
	"ringcli/collective/reduce"
)

// vectors are a call's buffers on all ranks.
type vectors struct {
	call       collective.Call
	send, recv *Region
	// sendAt and recvAt are where they begin in their regions, the same on all ranks.
	sendAt, recvAt uint64
}

func (v *vectors) sent(rank, element int) uint64 {
	return v.send.at[rank] + v.sendAt + uint64(element*v.call.Type.Size())
}

func (v *vectors) received(rank, element int) uint64 {
	return v.recv.at[rank] + v.recvAt + uint64(element*v.call.Type.Size())
}

// allReduce runs a call that Plan has planned by IPC.
func (t *Team) allReduce(ctx context.Context, v *vectors) (err error) {
	if t.failure != nil {
		return t.failure
	}
	switch {
	case t.size == 1:
		err = t.copyTo(v.received(0, 0), v.sent(0, 0), v.call.Count*v.call.Type.Size())
	case v.call.Algorithm == collective.AlgorithmRing:
		err = t.byRing(v)
	default:
		err = t.byDoubling(v)
	}
	if err != nil { // the stream holds a part of it, and others wait for the rest
		t.rescueStream()
		t.ring.Fail(err)
		t.failure = t.ring.Failure().Settled(err)
		return t.failure
	}
	return t.finish(ctx)
}

// copyTo has the stream copy n bytes from one address to another, unless they are the same.
func (t *Team) copyTo(dst, src uint64, n int) error {
	if dst == src {
		return nil
	}
	return t.stream.OnDevice(dst, src, n)
}

// step has the stream combine two runs of elements. last is an average's last step.
func (t *Team) step(call *collective.Call, dst, a, b uint64, count int, last bool) error {
	if count == 0 {
		return nil
	}
	op := call.Reduction
	if op == reduce.Avg && !last {
		op = reduce.Sum
	}
	f, err := t.kernel(op, call.Type)
	if err != nil {
		return err
	}
	args := kernels.Args{Dst: dst, A: a, B: b, Count: uint64(count), Ranks: uint64(t.size)}
	return t.stream.Launch(f, kernels.Grid(uint64(count*call.Type.Size())), kernels.Block, args.Words()...)
}

// byRing goes round the ring: in step s of the first phase rank r takes chunk r-2-s from its left
// neighbour, where it begins or is half done, and in the second one chunk r-1-s, which is whole.
//
// Nothing is overwritten that is still to be read: a chunk that a rank overwrites with what is
// whole has been all round the ring, through its right neighbour first.
func (t *Team) byRing(v *vectors) error {
	n := t.size
	left, right := (t.rank+n-1)%n, (t.rank+1)%n
	chunk := func(c int) (lo, length int) {
		lo, hi := reduce.Chunk(v.call.Count, n, (c+2*n)%n)
		return lo, hi - lo
	}
	if err := t.tell(right); err != nil {
		return err
	}
	for s := range n - 1 {
		if err := t.await(left, fmt.Sprintf("step %d of %d of reduce-scatter", s, n-1)); err != nil {
			return err
		}
		lo, length := chunk(t.rank - 2 - s)
		from := v.received(left, lo)
		if s == 0 {
			from = v.sent(left, lo)
		}
		if err := t.step(&v.call, v.received(t.rank, lo), from, v.sent(t.rank, lo), length, s == n-2); err != nil {
			return err
		}
		if err := t.tell(right); err != nil {
			return err
		}
	}
	for s := range n - 1 {
		if err := t.await(left, fmt.Sprintf("step %d of %d of all-gather", s, n-1)); err != nil {
			return err
		}
		lo, length := chunk(t.rank - 1 - s)
		if err := t.copyTo(v.received(t.rank, lo), v.received(left, lo), length*v.call.Type.Size()); err != nil {
			return err
		}
		if s < n-2 {
			if err := t.tell(right); err != nil {
				return err
			}
		}
	}
	if err := t.tell(left); err != nil { // whose buffers are not read any more
		return err
	}
	return t.await(right, "the end of all-gather")
}

// byDoubling exchanges with ranks at distance p/2, ... 1, of which there are p, the largest power
// of two; the 2(n-p) first ranks are pairs, whose even one goes for both. What a rank shows the
// others is in its arena; a set of buffers is used again in the next call but one, in which the same
// ranks have read it that have told since that they are past it.
func (t *Team) byDoubling(v *vectors) error {
	power := 1
	for 2*power <= t.size {
		power *= 2
	}
	pairs, set, bytes, count := t.size-power, t.small%2, v.call.Count*v.call.Type.Size(), v.call.Count
	t.small++
	buffer := func(rank, i int) uint64 { return t.all.at[rank] + t.buffer(set, i) }
	result, sent, received := t.buffers()-1, v.sent(t.rank, 0), v.received(t.rank, 0)
	paired := t.rank < 2*pairs
	if paired && t.rank%2 == 1 {
		even := t.rank - 1
		if err := t.copyTo(buffer(t.rank, 0), sent, bytes); err != nil {
			return err
		}
		if err := t.tell(even); err != nil {
			return err
		}
		if err := t.await(even, "the end of recursive doubling"); err != nil {
			return err
		}
		return t.copyTo(received, buffer(even, result), bytes)
	}
	number, rankOf := t.rank-pairs, func(number int) int {
		if number < pairs {
			return 2 * number
		}
		return number + pairs
	}
	if paired {
		number = t.rank / 2
		if err := t.await(t.rank+1, "recursive doubling"); err != nil {
			return err
		}
		if err := t.step(&v.call, buffer(t.rank, 0), sent, buffer(t.rank+1, 0), count, false); err != nil {
			return err
		}
	} else if err := t.copyTo(buffer(t.rank, 0), sent, bytes); err != nil {
		return err
	}
	for i, distance := 0, power/2; distance > 0; i, distance = i+1, distance/2 {
		peer := rankOf(number ^ distance)
		if err := t.tell(peer); err != nil {
			return err
		}
		if err := t.await(peer, fmt.Sprintf("exchange %d of recursive doubling", i)); err != nil {
			return err
		}
		to := buffer(t.rank, i+1)
		if distance == 1 {
			to = received
		}
		if err := t.step(&v.call, to, buffer(t.rank, i), buffer(peer, i), count, distance == 1); err != nil {
			return err
		}
	}
	if !paired {
		return nil
	}
	if err := t.copyTo(buffer(t.rank, result), received, bytes); err != nil {
		return err
	}
	return t.tell(t.rank + 1)
}
