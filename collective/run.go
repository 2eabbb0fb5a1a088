package collective

import (
	"context"
	"errors"
	"fmt"

	"ringcli/collective/fifo"
	"ringcli/collective/journal"
	"ringcli/collective/program"
	"ringcli/collective/sharedmem"
	"ringcli/configs/usage"
	"ringcli/ring"
	"ringcli/trace"
)

// prepared is a call with all that can be found out before it runs. The one of
// before is kept, since a caller often makes the same call again.
type prepared struct {
	asked     Call // as its caller made it
	call      Call // as it runs
	signature sharedmem.Signature
	version   uint64 // of the Comm; 0 is never
	in, out   vector
	role      *role          // in another algorithm than the ring, eagerly
	inside    inside         // what goes with it
	shared    sharedmem.Call // over shared memory
}

// Run runs a call.
func (c *Comm) Run(ctx context.Context, k Call) (err error) { return c.run(ctx, k, nil, nil) }

// RunRecorded is Run with a journal.
func (c *Comm) RunRecorded(ctx context.Context, k Call) (*journal.Journal, error) {
	j := &journal.Journal{}
	return j, c.run(ctx, k, j, nil)
}

// run runs a call in its turn, or in the one of its caller if that is nil, and notes in a
// journal, if there is one, what it sends and receives.
func (c *Comm) run(ctx context.Context, k Call, j *journal.Journal, turn *fifo.Turn) (err error) {
	if err := c.enter(ctx, turn); err != nil {
		return fmt.Errorf("%s: %w", k.Op, err)
	}
	defer c.leave()
	p := &c.prepared
	if p.version != c.current || p.asked != k {
		if err := c.prepare(ctx, &k); err != nil {
			return err
		}
	}
	c.counted = p.call.Protocol != Direct
	c.flow.journal = j
	switch {
	case c.size == 1:
		err = c.alone(ctx, p)
	case p.call.Protocol == Direct:
		err = c.shared.run(ctx, p)
	case p.role != nil:
		err = c.runScript(ctx, p)
	default:
		err = c.runPrograms(ctx, p)
	}
	if err != nil {
		err = c.fail(c.explain(p.call, c.news(ctx, err)))
		c.token.Release() // unless the operation had ended
		return err
	}
	return nil
}

// news returns what is behind an error, where a peer cannot be reached: it may be gone.
func (c *Comm) news(ctx context.Context, err error) error {
	var view *viewError
	var completion *ring.CompletionError
	var failed *ring.QueuePairError
	switch {
	case errors.As(err, &failed):
		return c.ring.Explain(ctx, failed.Peer, err)
	case errors.As(err, &view):
		return c.ring.Explain(ctx, view.peer, err)
	case errors.As(err, &completion):
		return c.ring.Explain(ctx, completion.Peer, err)
	}
	return err
}

// prepare finds out how a call is to be run. Errors of usage are found before
// anything is sent, and harm nothing.
func (c *Comm) prepare(ctx context.Context, k *Call) (err error) {
	c.prepared.version = 0
	p := prepared{asked: *k}
	if p.call, err = c.Plan(p.asked); err != nil {
		return err
	}
	if p.in, p.out, err = c.vectors(k); err != nil {
		return fmt.Errorf("%s: %w", k.Op, err)
	}
	if err := c.arrange(ctx, &p); errors.Is(err, ErrUnregistered) {
		return fmt.Errorf("%s: %w", k.Op, err)
	} else if err != nil {
		return c.fail(c.explain(p.call, err))
	}
	p.signature, p.version = p.call.Signature(), c.current
	switch {
	case c.shared != nil && p.call.Protocol == Direct:
		p.shared = c.shared.call(&p)
	case p.role != nil:
		if err := c.within.prepare(&p); err != nil {
			return c.fail(c.explain(p.call, err))
		}
	}
	c.prepared = p
	return nil
}

// arrange has the ranks agree, and make the edges that the call needs, unless that
// was done. What they make may be on further devices, where buffers have other keys.
func (c *Comm) arrange(ctx context.Context, p *prepared) (err error) {
	if !c.agreed {
		if err := c.agree(ctx); err != nil {
			return err
		}
		if p.call, err = c.Plan(p.asked); err != nil {
			return err
		}
	}
	k := &p.call
	if k.Unregistered && k.Protocol != Direct {
		return ErrUnregistered
	}
	if k.Algorithm != AlgorithmRing && k.Protocol != Direct {
		if p.role, err = c.roleIn(ctx, k); err != nil {
			c.seq++ // it is this operation's failure
			return err
		}
	}
	p.in, p.out, err = c.vectors(&p.asked)
	return err
}

// explain adds what was running to an error that does not say.
func (c *Comm) explain(k Call, err error) error {
	var (
		disagreement *DisagreementError
		verdict      *ring.Verdict
		mesh         meshError
		stall        *ring.StallError
		corruption   *CorruptionError
	)
	if errors.As(err, &stall) && stall.Await != nil && !errors.Is(err, ErrTimeout) {
		return err // it tells what waits
	}
	if errors.As(err, &disagreement) || errors.As(err, &verdict) || errors.As(err, &mesh) || errors.As(err, &corruption) {
		return err
	}
	return fmt.Errorf("operation %d, %s: %w", c.seq, k, err)
}

// runPrograms runs what a call consists of round the ring: one program, or with Sync
// one for each phase and a barrier between them.
func (c *Comm) runPrograms(ctx context.Context, p *prepared) error {
	k := &p.call
	if !k.Sync {
		return c.runPass(ctx, k, p.in, p.out, k.Op.Program())
	}
	barrier, err := c.Plan(Call{Op: OpBarrier, CallOptions: CallOptions{Algorithm: AlgorithmRing, Protocol: Eager}})
	if err != nil {
		return err
	}
	if err := c.runPass(ctx, k, p.in, p.out, (*program.Program).ReduceScatter); err != nil {
		return err
	}
	if err := c.runPass(ctx, &barrier, vector{}, vector{}, barrier.Op.Program()); err != nil {
		return err
	}
	return c.runPass(ctx, k, p.out, p.out, (*program.Program).AllGather)
}

func (c *Comm) runPass(ctx context.Context, k *Call, in, out vector, fill func(*program.Program)) error {
	p := &c.pass
	defer p.recordEnd()
	if err := p.start(ctx, k, in, out, fill); err != nil {
		return err
	}
	if copies(k, in, out) {
		// The own chunk sets out before it is copied to its place.
		if _, err := p.post(); err != nil {
			return err
		}
		c.copyOwn(k, in, out)
	}
	return p.run(ctx)
}

func (c *Comm) runScript(ctx context.Context, p *prepared) error {
	x := &c.scriptRun
	defer x.recordEnd()
	inside := &p.inside
	if err := x.start(ctx, p); err != nil {
		return err
	}
	if err := c.within.perform(ctx, p, &inside.before); err != nil {
		return err
	}
	if copies(&p.call, p.in, p.out) && !inside.copied {
		// As in the ring, what needs nothing else sets out first.
		if _, err := x.post(); err != nil {
			return err
		}
		c.copyOwn(&p.call, p.in, p.out)
	}
	return x.run(ctx)
}

// alone is every operation on a ring of one. An average over one rank leaves
// the bits as they are.
func (c *Comm) alone(ctx context.Context, p *prepared) error {
	begun := trace.Now()
	c.seq++
	defer func() { recordOperation(begun, trace.Now(), &p.call, c.seq) }()
	if err := c.stopped(ctx); err != nil {
		return err
	}
	c.live.Operations++
	if p.in.base != p.out.base {
		c.copyOwn(&p.call, p.in, p.out)
	}
	return nil
}

// copies tells whether what the own send buffer holds is part of the result, as it
// is, and not there yet.
func copies(k *Call, in, out vector) bool { return !k.Op.Reduces() && in.base != out.base }

// copyOwn copies what both of the own buffers hold.
func (c *Comm) copyOwn(k *Call, in, out vector) {
	send, recv := k.Buffers(c.size, c.rank)
	size, lo := k.Type.Size(), max(send.Lo, recv.Lo)
	n := max(0, min(send.Hi, recv.Hi)-lo) * size
	copy(out.bytes(lo, n, size), in.bytes(lo, n, size))
	c.live.CopiedOwn += uint64(n)
}

// vectors finds the registered memory of a call's buffers.
func (c *Comm) vectors(k *Call) (in, out vector, err error) {
	if !k.Op.OnVectors() {
		return in, out, nil
	}
	size := uint64(k.Type.Size())
	send, recv := k.Buffers(c.size, c.rank)
	sendLen, recvLen := uint64(send.Len())*size, uint64(recv.Len())*size
	// Of a buffer that begins later, the base is where element 0 would be.
	sendOffset, recvOffset := uint64(send.Lo)*size, uint64(recv.Lo)*size
	inPlace := k.Send-sendOffset == k.Recv-recvOffset
	if !inPlace && sendLen > 0 && recvLen > 0 && k.Send < k.Recv+recvLen && k.Recv < k.Send+sendLen {
		return in, out, usage.Errorf("send buffer [%#x, +%d) and receive buffer [%#x, +%d) overlap: expected disjoint ones, or %s",
			k.Send, sendLen, k.Recv, recvLen, k.InPlaceRule(sendOffset, recvOffset))
	}
	if k.Unregistered {
		in.base, out.base = k.Send, k.Recv
	} else {
		if in, err = c.lookup("send", k.Send, sendLen); err != nil {
			return in, out, err
		}
		if out, err = c.lookup("receive", k.Recv, recvLen); err != nil {
			return in, out, err
		}
	}
	in.base -= sendOffset
	out.base -= recvOffset
	return in, out, nil
}
