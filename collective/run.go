package collective

import (
	"context"
	"errors"
	"fmt"

	"ringcli/collective/buffer"
	"ringcli/collective/exec"
	"ringcli/collective/fifo"
	"ringcli/collective/hostteam"
	"ringcli/collective/journal"
	"ringcli/collective/reduce"
	"ringcli/configs/usage"
	"ringcli/ring"
)

// Prepared is a call with all that can be found out before it runs, which [Comm.Prepare] makes. It may be
// run any number of times.
type Prepared struct {
	c       *Comm
	asked   Call // as its caller made it
	version uint64
	exec.Job
	direct *hostteam.Direct // over shared memory
}

// AllReduce leaves the reduction of all ranks' count elements of type t at send in recv, on each
// rank. The addresses lie in buffers of this Comm's, and may be the same.
func (c *Comm) AllReduce(ctx context.Context, send, recv uint64, count int, t reduce.Type, op reduce.Op, o CallOptions) error {
	return c.Run(ctx, Call{Op: OpAllReduce, Send: send, Recv: recv, Count: count, Type: t, Reduction: op, CallOptions: o})
}

// ReduceScatter is AllReduce whose result is scattered: recv holds this rank's chunk of the count
// elements.
func (c *Comm) ReduceScatter(ctx context.Context, send, recv uint64, count int, t reduce.Type, op reduce.Op, o CallOptions) error {
	return c.Run(ctx, Call{Op: OpReduceScatter, Send: send, Recv: recv, Count: count, Type: t, Reduction: op, CallOptions: o})
}

// AllGather leaves all ranks' chunks, of count elements together, in recv on each rank, whose own chunk is
// at send.
func (c *Comm) AllGather(ctx context.Context, send, recv uint64, count int, t reduce.Type, o CallOptions) error {
	return c.Run(ctx, Call{Op: OpAllGather, Send: send, Recv: recv, Count: count, Type: t, CallOptions: o})
}

// Broadcast leaves the root's count elements at send in recv on each rank; send counts at the
// root alone.
func (c *Comm) Broadcast(ctx context.Context, send, recv uint64, count int, t reduce.Type, root int, o CallOptions) error {
	return c.Run(ctx, Call{Op: OpBroadcast, Send: send, Recv: recv, Count: count, Type: t, Root: root, CallOptions: o})
}

// Reduce is AllReduce whose result is the root's alone; recv counts there alone.
func (c *Comm) Reduce(ctx context.Context, send, recv uint64, count int, t reduce.Type, op reduce.Op, root int, o CallOptions) error {
	return c.Run(ctx, Call{Op: OpReduce, Send: send, Recv: recv, Count: count, Type: t, Reduction: op, Root: root, CallOptions: o})
}

// Barrier returns when every rank has called it.
func (c *Comm) Barrier(ctx context.Context) error { return c.Run(ctx, Call{Op: OpBarrier}) }

// Prepare finds out how a call is to be run, and makes the edges that it needs, unless that was done. The
// first one of a kind is collective: all ranks make it, between the same two operations of each.
// Errors of usage are found before anything is sent, and harm nothing.
func (c *Comm) Prepare(ctx context.Context, k Call) (*Prepared, error) {
	if err := c.enter(ctx, nil); err != nil {
		return nil, fmt.Errorf("%s: %w", k.Op, err)
	}
	defer c.leave()
	p := &Prepared{c: c}
	if err := p.prepare(ctx, k); err != nil {
		return nil, err
	}
	return p, nil
}

// Run runs the call in its turn. All ranks do, in the same order as their other calls.
func (p *Prepared) Run(ctx context.Context) error {
	c := p.c
	if err := c.enter(ctx, nil); err != nil {
		return fmt.Errorf("%s: %w", p.asked.Op, err)
	}
	defer c.leave()
	return p.run(ctx, nil)
}

// Run prepares a call, unless it is the one of before, and runs it.
func (c *Comm) Run(ctx context.Context, k Call) error { return c.run(ctx, k, nil, nil) }

// RunRecorded is Run with a journal.
func (c *Comm) RunRecorded(ctx context.Context, k Call) (*journal.Journal, error) {
	j := &journal.Journal{}
	return j, c.run(ctx, k, j, nil)
}

// run is Run in a turn that was taken before, or in the one of its caller if that is nil, with a
// journal, if there is one.
func (c *Comm) run(ctx context.Context, k Call, j *journal.Journal, turn *fifo.Turn) error {
	if err := c.enter(ctx, turn); err != nil {
		return fmt.Errorf("%s: %w", k.Op, err)
	}
	defer c.leave()
	p := &c.prepared
	if p.asked != k {
		p.version = 0
		if err := p.prepare(ctx, k); err != nil {
			return err
		}
	}
	return p.run(ctx, j)
}

// run runs the call that is prepared, again if what that rests on has changed. It needs the lock.
func (p *Prepared) run(ctx context.Context, j *journal.Journal) (err error) {
	c := p.c
	if p.version != c.current {
		if err := p.prepare(ctx, p.asked); err != nil {
			return err
		}
	}
	if p.direct != nil {
		err = c.shared.Run(ctx, p.direct)
	} else {
		c.counted = true
		err = c.exec.Run(ctx, &p.Job, j)
	}
	if err != nil {
		err = c.failed(&p.Call, err)
	}
	return err
}

// prepare needs the lock.
func (p *Prepared) prepare(ctx context.Context, k Call) (err error) {
	c := p.c
	p.version, p.asked, p.direct, p.Job = 0, k, nil, exec.Job{}
	if p.Call, err = c.Plan(k); err != nil {
		return err
	}
	if p.In, p.Out, err = c.vectors(&k); err != nil {
		return fmt.Errorf("%s: %w", k.Op, err)
	}
	if err := p.arrange(ctx); errors.Is(err, ErrUnregistered) {
		return fmt.Errorf("%s: %w", k.Op, err)
	} else if err != nil {
		return c.fail(c.during(&p.Call, err))
	}
	p.Signature, p.version = p.Call.Signature(), c.current
	return nil
}

// arrange has the ranks agree, and make the edges that the call needs, unless that
// was done. What they make may be on further devices, where buffers have other keys.
func (p *Prepared) arrange(ctx context.Context) (err error) {
	c, k := p.c, &p.Call
	if !c.agreed {
		if err := c.agree(ctx); err != nil {
			return err
		}
		if *k, err = c.Plan(p.asked); err != nil {
			return err
		}
	}
	g, direct := c.agreement.Load(), k.Protocol == Direct
	if k.Unregistered && !direct {
		return ErrUnregistered
	}
	if k.Algorithm != AlgorithmRing && !direct {
		changed := false
		if p.Role, changed, err = c.exec.Role(ctx, k, g); err != nil {
			c.watch.Seq++ // it is this operation's failure
			return err
		}
		if changed {
			c.current = c.pool.Version.Add(1)
		}
	}
	if p.In, p.Out, err = c.vectors(&p.asked); err != nil {
		return err
	}
	p.ScriptIn, p.ScriptOut, p.Signature = p.In, p.Out, k.Signature()
	switch {
	case direct && c.shared != nil:
		p.direct = c.shared.Prepare(k, &p.In, &p.Out)
	case p.Role != nil && p.Role.Between && c.within != nil:
		return c.within.Stages(&p.Job, g.Hosts)
	case k.Sync:
		p.Barrier, err = c.Plan(Call{Op: OpBarrier, CallOptions: CallOptions{Algorithm: AlgorithmRing, Protocol: Eager}})
	}
	return err
}

// failed fails the Comm, after it has asked the other ranks who is at fault: where a peer cannot be
// reached it may be gone.
func (c *Comm) failed(k *Call, err error) error {
	peer := -1
	var view *hostteam.ViewError
	var completion *ring.CompletionError
	var failed *ring.QueuePairError
	switch {
	case errors.As(err, &failed):
		peer = failed.Peer
	case errors.As(err, &view):
		peer = view.Peer
	case errors.As(err, &completion):
		peer = completion.Peer
	}
	if peer >= 0 {
		err = c.ring.Stalls().Explain(context.Background(), peer, err) // it has its deadline
	}
	err = c.fail(c.during(k, err))
	c.watch.Token.Release() // unless the operation had ended
	return err
}

// during adds what was running to an error that does not say.
func (c *Comm) during(k *Call, err error) error {
	var (
		disagreement *DisagreementError
		verdict      *ring.Verdict
		mesh         exec.MeshError
		stall        *ring.StallError
		corruption   *CorruptionError
	)
	if errors.As(err, &stall) && stall.Await != nil && !errors.Is(err, ErrTimeout) {
		return err // it tells what waits
	}
	if errors.As(err, &disagreement) || errors.As(err, &verdict) || errors.As(err, &mesh) || errors.As(err, &corruption) {
		return err
	}
	return fmt.Errorf("operation %d, %s: %w", c.watch.Seq, k, err)
}

// vectors finds the registered memory of a call's buffers.
func (c *Comm) vectors(k *Call) (in, out buffer.Vector, err error) {
	if !k.Op.OnVectors() {
		return in, out, nil
	}
	size := uint64(k.Type.Size())
	send, recv := k.Buffers(c.Size(), c.Rank())
	sendLen, recvLen := uint64(send.Len())*size, uint64(recv.Len())*size
	// Of a buffer that begins later, the base is where element 0 would be.
	sendOffset, recvOffset := uint64(send.Lo)*size, uint64(recv.Lo)*size
	inPlace := k.Send-sendOffset == k.Recv-recvOffset
	if !inPlace && sendLen > 0 && recvLen > 0 && k.Send < k.Recv+recvLen && k.Recv < k.Send+sendLen {
		return in, out, usage.Errorf("send buffer [%#x, +%d) and receive buffer [%#x, +%d) overlap: expected disjoint ones, or %s",
			k.Send, sendLen, k.Recv, recvLen, k.InPlaceRule(sendOffset, recvOffset))
	}
	if k.Unregistered {
		in.Base, out.Base = k.Send, k.Recv
	} else {
		if in, err = c.pool.Lookup("send", k.Send, sendLen); err != nil {
			return in, out, err
		}
		if out, err = c.pool.Lookup("receive", k.Recv, recvLen); err != nil {
			return in, out, err
		}
	}
	in.Base -= sendOffset
	out.Base -= recvOffset
	return in, out, nil
}
