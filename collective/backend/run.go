package backend

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"ringcli/collective"
	"ringcli/collective/async"
	"ringcli/collective/fifo"
	"ringcli/collective/reduce"
	"ringcli/configs/usage"
)

// barrierBytes holds the one element of a barrier.
const barrierBytes = 4

// issue is a call of a library's function, without the communicator and the stream, which
// come last.
type issue struct {
	name string
	fn   uintptr
	args []uintptr
}

// issues are the library's calls for one of ours. Its reduce-scatter and all-gather have
// chunks of one length: where the ranks do not divide the vector, a group of reductions or
// of broadcasts, one for each rank's chunk, is the same.
func (v *vendor) issues(k collective.Call) ([]issue, error) {
	if k.Op == collective.OpBarrier {
		at := uintptr(v.scratch.Addr())
		return []issue{{"ncclAllReduce", v.lib.allReduce, []uintptr{at, at, 1, uintptr(dataTypes[reduce.Float32].value), uintptr(redOps[reduce.Sum].value)}}}, nil
	}
	typ, err := numberOf(dataTypes, "element type", k.Type, v.name, v.version)
	if err != nil {
		return nil, err
	}
	op := 0
	if k.Op.Reduces() {
		if op, err = numberOf(redOps, "reduction", k.Reduction, v.name, v.version); err != nil {
			return nil, err
		}
	}
	send, recv, count, root := uintptr(k.Send), uintptr(k.Recv), uintptr(k.Count), uintptr(k.Root)
	t, o, size := uintptr(typ), uintptr(op), k.Type.Size()
	even := k.Count%v.size == 0
	chunk := count / uintptr(v.size)
	switch k.Op {
	case collective.OpAllReduce:
		return []issue{{"ncclAllReduce", v.lib.allReduce, []uintptr{send, recv, count, t, o}}}, nil
	case collective.OpBroadcast:
		if v.rank != k.Root {
			send = recv // which nobody reads
		}
		return []issue{{"ncclBroadcast", v.lib.broadcast, []uintptr{send, recv, count, t, root}}}, nil
	case collective.OpReduce:
		if v.rank != k.Root {
			recv = send // which nobody writes
		}
		return []issue{{"ncclReduce", v.lib.reduce, []uintptr{send, recv, count, t, o, root}}}, nil
	case collective.OpReduceScatter:
		if even {
			return []issue{{"ncclReduceScatter", v.lib.reduceScatter, []uintptr{send, recv, chunk, t, o}}}, nil
		}
	case collective.OpAllGather:
		if even {
			return []issue{{"ncclAllGather", v.lib.allGather, []uintptr{send, recv, chunk, t}}}, nil
		}
	default:
		return nil, usage.Errorf("%s has no operation %s", v.name, k.Op)
	}
	var list []issue
	for rank := range v.size {
		lo, hi := reduce.Chunk(k.Count, v.size, rank)
		if lo == hi {
			continue
		}
		at, n := uintptr(lo*size), uintptr(hi-lo)
		if k.Op == collective.OpReduceScatter {
			to := recv
			if rank != v.rank {
				to = send + at
			}
			list = append(list, issue{"ncclReduce", v.lib.reduce, []uintptr{send + at, to, n, t, o, uintptr(rank)}})
			continue
		}
		from := send
		if rank != v.rank {
			from = recv + at
		}
		list = append(list, issue{"ncclBroadcast", v.lib.broadcast, []uintptr{from, recv + at, n, t, uintptr(rank)}})
	}
	return list, nil
}

// check refuses what the library would fail at, or worse.
func (v *vendor) check(k collective.Call) error {
	switch {
	case !k.Op.Valid():
		return usage.Errorf("%s has no operation %s", v.name, k.Op)
	case k.Op == collective.OpBarrier:
		return nil
	case !k.Type.Valid():
		return usage.Errorf("%s has no element type %s", v.name, k.Type)
	case k.Count < 0:
		return usage.Errorf("%s: %s of %d elements: expected 0 or more", v.name, k.Op, k.Count)
	case k.Root < 0 || k.Root >= v.size:
		return usage.Errorf("%s: %s with root %d: expected a rank from 0 to %d", v.name, k.Op, k.Root, v.size-1)
	case k.CallOptions != collective.CallOptions{}:
		return usage.Errorf("%s chooses its algorithm, protocol and segments itself: expected none of them with %s", v.name, k.Op)
	}
	send, recv := k.Buffers(v.size, v.rank)
	size := uint64(k.Type.Size())
	for _, b := range []struct {
		what    string
		addr, n uint64
	}{{"send", k.Send, uint64(send.Len()) * size}, {"receive", k.Recv, uint64(recv.Len()) * size}} {
		if err := v.reaches(k.Op, b.what, b.addr, b.n); err != nil {
			return err
		}
	}
	return nil
}

// reaches refuses memory that is not the device's.
func (v *vendor) reaches(op collective.Operation, what string, addr, n uint64) error {
	if n == 0 {
		return nil
	}
	needed := fmt.Sprintf("%s: %s needs a %s buffer of %d bytes of %s memory", v.name, op, what, n, v.device.Place)
	if addr == 0 {
		return usage.Errorf("%s, and none is given", needed)
	}
	// Of a runtime that cannot tell whose an address is the allocation says enough.
	place, known := v.device.PlaceOf(addr)
	start, length, err := v.device.Allocation(addr)
	switch {
	case known && place != v.device.Place, !known && err != nil:
		return usage.Errorf("%s, and %s memory is given, at %#x", needed, place, addr)
	case err == nil && addr-start+n > uint64(length):
		return usage.Errorf("%s, and of the allocation that %#x is in %d are left", needed, addr, start+uint64(length)-addr)
	}
	return nil
}

// Run is as Backend has it.
func (v *vendor) Run(ctx context.Context, k collective.Call) error { return v.run(ctx, k, nil) }

// run runs a call in its turn, or in the one of its caller if that is nil.
func (v *vendor) run(ctx context.Context, k collective.Call, turn *fifo.Turn) error {
	if turn == nil {
		var own fifo.Turn
		own, turn = v.lock.Reserve(), &own
	}
	if err := turn.Wait(ctx); err != nil {
		v.abort(err)
		return fmt.Errorf("%s: %s: cancelled: %w", v.name, k.Op, err)
	}
	defer v.lock.Unlock()
	if err := v.Err(); err != nil {
		return err
	}
	if err := v.check(k); err != nil {
		return err
	}
	list, err := v.issues(k)
	if err != nil {
		return err
	}
	if k.Op != collective.OpBarrier && k.Count == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, v.timeout())
	defer cancel()
	if err = v.await(ctx, k.Op.String(), func() error { return v.give(ctx, list) }); err != nil {
		v.abort(err) // of which the other ranks would hear nothing
		return fmt.Errorf("%s: %s: %w", v.name, k.Op, err)
	}
	return nil
}

// give gives the library its calls, as one if they are several, and waits until the stream
// has run them.
func (v *vendor) give(ctx context.Context, list []issue) error {
	if len(list) > 1 {
		if err := v.do(ctx, "ncclGroupStart", func(uintptr) uintptr { return call(v.lib.groupStart) }); err != nil {
			return err
		}
	}
	var failed error
	for _, i := range list {
		var code int32
		code, failed = v.within(func(comm uintptr) uintptr { return call(i.fn, append(slices.Clone(i.args), comm, v.stream.Raw())...) })
		if len(list) > 1 && code == inProgress {
			continue // the group's end says more
		}
		if failed == nil {
			failed = v.pending(ctx, i.name, code)
		}
		if failed != nil {
			break
		}
	}
	if len(list) > 1 { // after a failure, too
		if err := v.do(ctx, "ncclGroupEnd", func(uintptr) uintptr { return call(v.lib.groupEnd) }); failed == nil {
			failed = err
		}
	}
	if failed != nil {
		return failed
	}
	return v.ran(ctx)
}

// How the stream is waited for: spin while a short operation takes, then let others have the
// processor, then sleep.
const spins, yields = 256, 4096

// ran waits until the stream has run all, the communicator reports an error, or it is aborted.
func (v *vendor) ran(ctx context.Context) error {
	for i := 0; ; i++ {
		if v.aborting() {
			return v.Err()
		}
		done, err := v.stream.Done()
		if err != nil {
			return err
		}
		if done || i%spins == spins-1 {
			code, err := v.asynchronous()
			if err == nil && code != inProgress {
				err = v.code("ncclCommGetAsyncError", code)
			}
			if done || err != nil {
				return err
			}
		}
		switch {
		case i < spins:
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case i < yields:
			runtime.Gosched()
		default:
			time.Sleep(pollEvery)
		}
	}
}

// Start is as Backend has it.
func (v *vendor) Start(ctx context.Context, k collective.Call) (*collective.Handle, error) {
	if err := v.Err(); err != nil {
		return nil, err
	}
	if err := v.check(k); err != nil {
		return nil, err
	}
	if _, err := v.issues(k); err != nil {
		return nil, err
	}
	send, recv := k.Buffers(v.size, v.rank)
	size := uint64(k.Type.Size())
	return v.flying.Start(ctx, &v.lock, async.Task{
		Name:   k.Op.String(),
		Reads:  async.Span{Addr: k.Send, Len: uint64(send.Len()) * size},
		Writes: async.Span{Addr: k.Recv, Len: uint64(recv.Len()) * size},
		Run:    func(ctx context.Context, turn *fifo.Turn) error { return v.run(ctx, k, turn) },
		Cancel: func(cause error) { v.abort(fmt.Errorf("%s: cancelled before its turn: %w", k.Op, cause)) },
	})
}
