package collective

import (
	"context"

	"ringcli/collective/reduce"
)

// Calls by the name of their operation, which are shorter.

func (c *Comm) AllReduce(ctx context.Context, sendAddr, recvAddr uint64, count int, t reduce.Type, op reduce.Op, o CallOptions) error {
	return c.Run(ctx, Call{Op: OpAllReduce, Send: sendAddr, Recv: recvAddr, Count: count, Type: t, Reduction: op, CallOptions: o})
}

func (c *Comm) ReduceScatter(ctx context.Context, sendAddr, recvAddr uint64, count int, t reduce.Type, op reduce.Op, o CallOptions) error {
	return c.Run(ctx, Call{Op: OpReduceScatter, Send: sendAddr, Recv: recvAddr, Count: count, Type: t, Reduction: op, CallOptions: o})
}

func (c *Comm) AllGather(ctx context.Context, sendAddr, recvAddr uint64, count int, t reduce.Type, o CallOptions) error {
	return c.Run(ctx, Call{Op: OpAllGather, Send: sendAddr, Recv: recvAddr, Count: count, Type: t, CallOptions: o})
}
