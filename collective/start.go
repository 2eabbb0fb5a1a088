package collective

import (
	"context"
	"fmt"

	"ringcli/collective/async"
	"ringcli/collective/fifo"
)

// Handle is an operation in flight.
type Handle = async.Handle

// Start begins a call of any operation and returns while it is in flight: Start of
// OpAllReduce is what other libraries name AllReduceAsync. Calls that were started, and
// those of Run that come after them, run one at a time in this order, which must be that of
// all ranks. The handle resolves when the call has ended, and always: with nil, or with the
// error that Run would have returned. Errors of usage that this rank can find alone are
// returned at once, by Start, and so is why a Comm can do nothing more.
//
// Until then the buffers belong to the call: nobody may write to them, nor read the receive
// buffer, nor free them. A second call in flight that would use them is refused, unless both
// only read. Run is not: its turn comes when the calls before it have ended.
//
// When ctx ends, the call is cancelled, also before its turn: that fails the ring as with
// Run, so all that are in flight resolve, on all ranks.
func (c *Comm) Start(ctx context.Context, k Call) (*Handle, error) {
	planned, err := c.Plan(k)
	if err != nil {
		return nil, err
	}
	_, _, err = c.vectors(&k)
	if over := c.Err(); over != nil { // of which nothing is registered any more
		err = over
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.Op, err)
	}
	size := uint64(k.Type.Size())
	send, recv := k.Buffers(c.Size(), c.Rank())
	t := async.Task{
		Name:   k.Op.String(),
		Reads:  async.Span{Addr: k.Send, Len: uint64(send.Len()) * size},
		Writes: async.Span{Addr: k.Recv, Len: uint64(recv.Len()) * size},
		Run:    func(ctx context.Context, turn *fifo.Turn) error { return c.run(ctx, k, nil, turn) },
		Cancel: func(cause error) { _ = c.fail(fmt.Errorf("%s: cancelled before its turn: %w", planned, cause)) },
	}
	return c.pool.Flying.Start(ctx, &c.lock, t)
}
