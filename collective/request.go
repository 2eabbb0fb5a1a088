package collective

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"ringcli/collective/reduce"
	"ringcli/collective/sharedmem"
	"ringcli/ring"
	"ringcli/ring/bootstrap"
	"ringcli/trace"
)

// request is a call as its caller made it.
type request struct {
	op         Operation
	send, recv uint64
	count      int
	typ        reduce.Type
	red        reduce.Op
	options    CallOptions
	plain      bool // the buffers are not registered: for Direct
}

// prepared is a request with all that can be found out before it runs. The one of
// before is kept, since who calls once often calls again.
type prepared struct {
	request
	version uint64 // of the Comm; 0 is never
	call    call
	digest  uint64
	in, out vector
	role    *role          // in another algorithm than the ring, eagerly
	direct  sharedmem.Call // over shared memory
}

func (c *Comm) do(ctx context.Context, r request) error {
	if err := c.enter(ctx); err != nil {
		return fmt.Errorf("%s: %w", r.op, err)
	}
	defer c.leave()
	return c.perform(ctx, &r)
}

// perform runs a request; the caller has the turn.
func (c *Comm) perform(ctx context.Context, r *request) (err error) {
	p := &c.prepared
	if p.version != c.current || p.request != *r {
		if err := c.prepare(ctx, *r); err != nil {
			return err
		}
	}
	c.counted = p.call.protocol != Direct
	switch {
	case c.size == 1:
		err = c.alone(ctx, &p.call, *r, p.in, p.out)
	case p.call.protocol == Direct:
		err = c.shared.run(ctx, p)
	case p.role != nil:
		err = c.runExchange(ctx, p.call, p.in, p.out, p.role)
	default:
		err = c.passes(ctx, p.call, p.in, p.out)
	}
	if err != nil {
		err = c.fail(c.explain(p.call, c.news(err)))
		c.token.Release() // unless the operation had ended
		return err
	}
	return nil
}

// A peer that fails takes its memory and queue pairs back at once, while the news of
// why, which names who is at fault, go from rank to rank. A rank that stumbles over
// the one waits so long for the other, with so long between two looks: hops take
// microseconds to milliseconds.
const newsTravel, newsTick = 250 * time.Millisecond, time.Millisecond

// news returns why the ring failed where that explains an error, else the error.
func (c *Comm) news(err error) error {
	var completion *ring.CompletionError
	if !errors.Is(err, errView) && !errors.As(err, &completion) {
		return err
	}
	for begun := time.Now(); !c.ring.Failed(); time.Sleep(newsTick) {
		if time.Since(begun) > newsTravel {
			return err
		}
	}
	return c.ring.Err()
}

// prepare finds out how a request is to be run. Errors of usage are found before
// anything is sent, and harm nothing.
func (c *Comm) prepare(ctx context.Context, r request) (err error) {
	c.prepared.version = 0
	p := prepared{request: r}
	if p.call, err = c.plan(r.op, r.count, r.typ, r.red, r.options); err != nil {
		return err
	}
	if p.in, p.out, err = c.vectors(r); err != nil {
		return fmt.Errorf("%s: %w", r.op, err)
	}
	if err := c.arrange(ctx, &p); err != nil {
		return c.fail(c.explain(p.call, err))
	}
	p.digest, p.version = p.call.digest(), c.current
	if c.shared != nil && p.call.protocol == Direct {
		p.direct = c.shared.call(&p)
	}
	c.prepared = p
	return nil
}

// arrange has the ranks agree, and make the edges that the call needs, unless that
// was done. What they make may be on further devices, where buffers have other keys.
func (c *Comm) arrange(ctx context.Context, p *prepared) (err error) {
	r := p.request
	if !c.agreed {
		if err := c.agree(ctx); err != nil {
			return err
		}
		if p.call, err = c.plan(r.op, r.count, r.typ, r.red, r.options); err != nil {
			return err
		}
	}
	if k := &p.call; k.algorithm != AlgorithmRing && k.protocol != Direct {
		if p.role, err = c.roleIn(ctx, k); err != nil {
			c.seq++ // it is this operation's failure
			return err
		}
	}
	p.in, p.out, err = c.vectors(r)
	return err
}

// explain adds what was running to an error that does not say.
func (c *Comm) explain(k call, err error) error {
	var disagreement *DisagreementError
	var verdict *ring.Verdict
	if errors.As(err, &disagreement) || errors.As(err, &verdict) || strings.Contains(err.Error(), operationText(c.seq)) {
		return err
	}
	return fmt.Errorf("operation %d, %s: %w", c.seq, k, err)
}

// passes runs the programs that a call consists of.
func (c *Comm) passes(ctx context.Context, k call, in, out vector) error {
	switch {
	case k.op == OpReduceScatter:
		return c.runPass(ctx, k, in, out, (*program).reduceScatter)
	case k.op == OpAllReduce && !k.sync:
		return c.runPass(ctx, k, in, out, (*program).allReduce)
	case k.op == OpAllReduce:
		if err := c.runPass(ctx, k, in, out, (*program).reduceScatter); err != nil {
			return err
		}
		barrier, err := c.plan(OpBarrier, 0, k.typ, k.red, CallOptions{Algorithm: AlgorithmRing, Protocol: Eager})
		if err != nil {
			return err
		}
		if err := c.runPass(ctx, barrier, vector{}, vector{}, (*program).allGather); err != nil {
			return err
		}
		return c.runPass(ctx, k, out, out, (*program).allGather)
	default:
		// A barrier is an all-gather of nothing: its last segment comes when
		// every rank has sent its own.
		return c.runPass(ctx, k, in, out, (*program).allGather)
	}
}

func (c *Comm) runPass(ctx context.Context, k call, in, out vector, program func(*program)) error {
	p := &c.pass
	defer p.recordEnd()
	if err := p.start(ctx, k, in, out, program); err != nil {
		return err
	}
	if k.op == OpAllGather && in.base != out.base {
		// The own chunk sets out before it is copied to its place.
		if _, err := p.post(); err != nil {
			return err
		}
		c.copyOwn(int(k.count), c.rank, k.typ.Size(), in, out)
	}
	return p.run(ctx)
}

func (c *Comm) runExchange(ctx context.Context, k call, in, out vector, r *role) error {
	x := &c.exchange
	defer x.recordEnd()
	if err := x.start(ctx, k, in, out, r); err != nil {
		return err
	}
	if k.op == OpAllGather && in.base != out.base {
		// As in the ring, what needs nothing else sets out first.
		if _, err := x.post(); err != nil {
			return err
		}
		c.copyOwn(int(k.count), c.rank, k.typ.Size(), in, out)
	}
	return x.run(ctx)
}

// alone is every operation on a ring of one. An average over one rank leaves
// the bits as they are.
func (c *Comm) alone(ctx context.Context, k *call, r request, in, out vector) error {
	begun := trace.Now()
	c.seq++
	defer func() { recordOperation(begun, trace.Now(), k, c.seq) }()
	if err := c.stopped(ctx); err != nil {
		return err
	}
	c.live.Operations++
	if r.op != OpBarrier && in.base != out.base {
		c.copyOwn(r.count, 0, r.typ.Size(), in, out)
	}
	return nil
}

func (c *Comm) copyOwn(count, chunk, size int, in, out vector) {
	lo, hi := reduce.Chunk(count, c.size, chunk)
	n := (hi - lo) * size
	copy(out.bytes(lo, n, size), in.bytes(lo, n, size))
	c.live.CopiedOwn += uint64(n)
}

// vectors finds the registered memory of a request's buffers.
func (c *Comm) vectors(r request) (in, out vector, err error) {
	if r.op == OpBarrier {
		return in, out, nil
	}
	size := uint64(r.typ.Size())
	lo, hi := reduce.Chunk(r.count, c.size, c.rank)
	whole, own, offset := uint64(r.count)*size, uint64(hi-lo)*size, uint64(lo)*size
	sendLen, recvLen := whole, whole
	inPlace := r.send == r.recv
	switch r.op {
	case OpReduceScatter:
		recvLen, inPlace = own, r.recv == r.send+offset
	case OpAllGather:
		sendLen, inPlace = own, r.send == r.recv+offset
	}
	if !inPlace && r.send < r.recv+recvLen && r.recv < r.send+sendLen {
		return in, out, bootstrap.Usagef("send buffer [%#x, +%d) and receive buffer [%#x, +%d) overlap: expected disjoint ones, or %s",
			r.send, sendLen, r.recv, recvLen, inPlaceRule(r, offset))
	}
	if r.plain {
		in.base, out.base = r.send, r.recv
	} else {
		if in, err = c.lookup("send", r.send, sendLen); err != nil {
			return in, out, err
		}
		if out, err = c.lookup("receive", r.recv, recvLen); err != nil {
			return in, out, err
		}
	}
	// Of a buffer with the own chunk only, the base is where element 0 would be.
	switch r.op {
	case OpReduceScatter:
		out.base -= offset
	case OpAllGather:
		in.base -= offset
	}
	return in, out, nil
}

func inPlaceRule(r request, offset uint64) string {
	switch r.op {
	case OpReduceScatter:
		return fmt.Sprintf("the receive buffer at %#x for in place", r.send+offset)
	case OpAllGather:
		return fmt.Sprintf("the send buffer at %#x for in place", r.recv+offset)
	}
	return "equal ones for in place"
}
