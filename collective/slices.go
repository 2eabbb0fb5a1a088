package collective

import (
	"context"
	"fmt"
	"runtime"

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

// AllReduce is Comm.AllReduce for plain slices of one length, which may be the
// same slice. They are copied into registered memory of the Comm and back;
// Comm.Alloc saves both.
func AllReduce[T Element](ctx context.Context, c *Comm, send, recv []T, op reduce.Op) error {
	if len(send) != len(recv) {
		return usage.Errorf("%s: %d elements to send and %d to receive: expected as many", OpAllReduce, len(send), len(recv))
	}
	return c.doSlices(ctx, OpAllReduce, memory.AsBytes(send), memory.AsBytes(recv), len(send), TypeOf[T](), op)
}

// ReduceScatter is Comm.ReduceScatter for plain slices. recv has the length of
// the own chunk of send (reduce.Chunk).
func ReduceScatter[T Element](ctx context.Context, c *Comm, send, recv []T, op reduce.Op) error {
	lo, hi := reduce.Chunk(len(send), c.size, c.rank)
	if len(recv) != hi-lo {
		return usage.Errorf("%s: %d elements to receive: expected %d, the chunk of rank %d of %d in %d elements", OpReduceScatter, len(recv), hi-lo, c.rank, c.size, len(send))
	}
	return c.doSlices(ctx, OpReduceScatter, memory.AsBytes(send), memory.AsBytes(recv), len(send), TypeOf[T](), op)
}

// AllGather is Comm.AllGather for plain slices. send has the length of the own
// chunk of recv (reduce.Chunk).
func AllGather[T Element](ctx context.Context, c *Comm, send, recv []T) error {
	lo, hi := reduce.Chunk(len(recv), c.size, c.rank)
	if len(send) != hi-lo {
		return usage.Errorf("%s: %d elements to send: expected %d, the chunk of rank %d of %d in %d elements", OpAllGather, len(send), hi-lo, c.rank, c.size, len(recv))
	}
	return c.doSlices(ctx, OpAllGather, memory.AsBytes(send), memory.AsBytes(recv), len(recv), TypeOf[T](), reduce.Sum)
}

// doSlices runs an operation: directly on the slices where ranks share memory, else
// in place on a registered copy.
func (c *Comm) doSlices(ctx context.Context, op Operation, from, to []byte, count int, t reduce.Type, red reduce.Op) error {
	if err := c.enter(ctx); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	defer c.leave()
	r := Call{Op: op, Send: memory.Addr(from), Recv: memory.Addr(to), Count: count, Type: t, Reduction: red, plain: true}
	directly, err := c.directly(ctx, &r)
	if err != nil {
		return err
	}
	if directly {
		onHeap(from)
		onHeap(to)
		err := c.perform(ctx, &r)
		runtime.KeepAlive(from)
		runtime.KeepAlive(to)
		return err
	}
	size := t.Size()
	buffer, err := c.grow(&c.slices, uint64(count*size))
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	// Where the operation finds its input and leaves its result, in place.
	send, recv := r.Buffers(c.size, c.rank)
	whole := buffer.Bytes()
	first, last := whole[send.Lo*size:send.Hi*size], whole[recv.Lo*size:recv.Hi*size]
	r.Send, r.Recv, r.plain = buffer.addr+uint64(send.Lo*size), buffer.addr+uint64(recv.Lo*size), false
	copy(first, from)
	c.counted = true
	c.live.CopiedSlices += uint64(len(from) + len(to))
	if err := c.perform(ctx, &r); err != nil {
		return err
	}
	copy(to, last)
	return nil
}

// directly tells whether a call on plain memory runs over shared memory, after the
// ranks have agreed.
func (c *Comm) directly(ctx context.Context, r *Call) (bool, error) {
	if c.prepared.version == c.current && c.prepared.asked == *r {
		return true, nil // no other is prepared
	}
	k, err := c.Plan(*r)
	if err != nil {
		return false, err
	}
	if !c.agreed {
		if err = c.agree(ctx); err == nil {
			k, err = c.Plan(*r)
		}
		if err != nil {
			return false, c.fail(c.explain(k, err))
		}
	}
	return k.Protocol == Direct, nil
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
