// Package plain runs collectives over plain Go slices. Where ranks share memory it
// works on the slices themselves, elsewhere on a registered copy: memory of
// [collective.Comm.Alloc] saves that. No command of ringcli uses it.
package plain

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"ringcli/collective"
	"ringcli/collective/reduce"
	"ringcli/configs/usage"
	"ringcli/verbs/memory"
)

// Float16 is the bits of an IEEE 754 binary16 number.
type Float16 uint16

// BFloat16 is the bits of a bfloat16 number, the upper half of a float32.
type BFloat16 uint16

// Element is an element type of plain Go slices.
type Element interface {
	int8 | uint8 | int32 | uint32 | int64 | uint64 | Float16 | BFloat16 | float32 | float64
}

// TypeOf returns the element type of T.
func TypeOf[T Element]() reduce.Type {
	var zero T
	switch any(zero).(type) {
	case int8:
		return reduce.Int8
	case uint8:
		return reduce.Uint8
	case int32:
		return reduce.Int32
	case uint32:
		return reduce.Uint32
	case int64:
		return reduce.Int64
	case uint64:
		return reduce.Uint64
	case Float16:
		return reduce.Float16
	case BFloat16:
		return reduce.BFloat16
	case float32:
		return reduce.Float32
	}
	return reduce.Float64
}

// Comm is a collective.Comm for plain slices. Calls of several goroutines run one at
// a time.
type Comm struct {
	comm *collective.Comm
	// refused is the last call that does not run on the slices themselves.
	refused atomic.Pointer[collective.Call]

	mu     sync.Mutex         // held while a copy is in use
	copied *collective.Buffer // guarded by mu; nil until needed
}

// New makes a Comm of one that runs calls on addresses, which owns its memory.
func New(c *collective.Comm) *Comm { return &Comm{comm: c} }

// AllReduce reduces slices of one length over all ranks, which may be the same slice;
// every rank gets the whole result.
func AllReduce[T Element](ctx context.Context, c *Comm, send, recv []T, op reduce.Op) error {
	if len(send) != len(recv) {
		return usage.Errorf("%s: %d elements to send and %d to receive: expected as many", collective.OpAllReduce, len(send), len(recv))
	}
	return run(ctx, c, collective.OpAllReduce, send, recv, len(send), op)
}

// ReduceScatter reduces send over all ranks; recv gets the own chunk of the result,
// whose length it has (reduce.Chunk).
func ReduceScatter[T Element](ctx context.Context, c *Comm, send, recv []T, op reduce.Op) error {
	n, rank := c.comm.Size(), c.comm.Rank()
	if lo, hi := reduce.Chunk(len(send), n, rank); len(recv) != hi-lo {
		return usage.Errorf("%s: %d elements to receive: expected %d, the chunk of rank %d of %d in %d elements",
			collective.OpReduceScatter, len(recv), hi-lo, rank, n, len(send))
	}
	return run(ctx, c, collective.OpReduceScatter, send, recv, len(send), op)
}

// AllGather gives every rank all chunks in recv. send is the own one, whose length it
// has (reduce.Chunk).
func AllGather[T Element](ctx context.Context, c *Comm, send, recv []T) error {
	n, rank := c.comm.Size(), c.comm.Rank()
	if lo, hi := reduce.Chunk(len(recv), n, rank); len(send) != hi-lo {
		return usage.Errorf("%s: %d elements to send: expected %d, the chunk of rank %d of %d in %d elements",
			collective.OpAllGather, len(send), hi-lo, rank, n, len(recv))
	}
	return run(ctx, c, collective.OpAllGather, send, recv, len(recv), reduce.Sum)
}

// Broadcast gives every rank the root's send in recv, which is as long on all. Off the root
// send is not looked at. It may be recv.
func Broadcast[T Element](ctx context.Context, c *Comm, send, recv []T, root int) error {
	if c.comm.Rank() != root {
		send = nil
	} else if len(send) != len(recv) {
		return usage.Errorf("%s: %d elements to send and %d to receive: expected as many at the root", collective.OpBroadcast, len(send), len(recv))
	}
	return c.run(ctx, collective.Call{Op: collective.OpBroadcast, Root: root, Count: len(recv), Type: TypeOf[T]()}, memory.AsBytes(send), memory.AsBytes(recv))
}

// Reduce reduces send of all ranks, which are of one length, into the root's recv. Off the
// root recv is not looked at. It may be send.
func Reduce[T Element](ctx context.Context, c *Comm, send, recv []T, op reduce.Op, root int) error {
	if c.comm.Rank() != root {
		recv = nil
	} else if len(send) != len(recv) {
		return usage.Errorf("%s: %d elements to send and %d to receive: expected as many at the root", collective.OpReduce, len(send), len(recv))
	}
	return c.run(ctx, collective.Call{Op: collective.OpReduce, Root: root, Count: len(send), Type: TypeOf[T](), Reduction: op}, memory.AsBytes(send), memory.AsBytes(recv))
}

func run[T Element](ctx context.Context, c *Comm, op collective.Operation, send, recv []T, count int, red reduce.Op) error {
	return c.run(ctx, collective.Call{Op: op, Count: count, Type: TypeOf[T](), Reduction: red}, memory.AsBytes(send), memory.AsBytes(recv))
}

// run runs an operation: on the slices where ranks share memory, else on a copy.
func (c *Comm) run(ctx context.Context, k collective.Call, from, to []byte) error {
	k.Send, k.Recv, k.Unregistered = memory.Addr(from), memory.Addr(to), true
	if refused := c.refused.Load(); refused == nil || *refused != k {
		onHeap(from)
		onHeap(to)
		err := c.comm.Run(ctx, k)
		runtime.KeepAlive(from)
		runtime.KeepAlive(to)
		if !errors.Is(err, collective.ErrUnregistered) {
			return err
		}
		again := k
		c.refused.Store(&again)
	}
	return c.runCopied(ctx, k, from, to)
}

// runCopied runs a call in place on a registered copy.
func (c *Comm) runCopied(ctx context.Context, k collective.Call, from, to []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	size := k.Type.Size()
	if need := k.Count * size; c.copied == nil || c.copied.Len() < need {
		next, err := c.comm.Alloc(uint64(need))
		if err == nil && c.copied != nil {
			err = c.copied.Free()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", k.Op, err)
		}
		c.copied = next
	}
	send, recv := k.Buffers(c.comm.Size(), c.comm.Rank())
	whole, base := c.copied.Bytes(), c.copied.Addr()
	k.Send, k.Recv, k.Unregistered = base+uint64(send.Lo*size), base+uint64(recv.Lo*size), false
	copy(whole[send.Lo*size:], from)
	if err := c.comm.Run(ctx, k); err != nil {
		return err
	}
	copy(to, whole[recv.Lo*size:])
	return nil
}

// onHeap has the compiler keep b's array on the heap, where it stays at its address:
// that of a stack moves when the stack grows, and addresses are numbers here. A
// runtime.Pinner does the same in the time that a short operation takes.
func onHeap(b []byte) {
	if heap.never {
		heap.slice = b
	}
}

var heap struct {
	never bool // always false, which the compiler does not know
	slice []byte
}
