package transport

import (
	"context"
	"fmt"

	"ringcli/verbs"
	"ringcli/verbs/objects"
)

// Operation is what a Transfer does.
type Operation uint8

const (
	Write Operation = iota // to the peer
	Read                   // from the peer
)

func (o Operation) String() string { return [...]string{"write", "read"}[o] }

// Transfer is one of a batch.
type Transfer struct {
	Op     Operation
	Local  View
	Remote RemoteBuffer
	// Notify has a write resolve a WaitForWrite of the peer, once all of it is there.
	Notify bool
}

// transfer is a future with what it is for.
type transfer struct {
	Future
	Transfer
	next  uint64 // bytes that have been posted
	first bool   // nothing has been posted
}

// flight is a request that was posted.
type flight struct {
	*transfer         // nil: a message of the transports themselves
	message   message // then
	last      bool    // ends the transfer
}

// message is what transports say to each other, as immediate data of an empty SEND.
type message uint32

const (
	hello message = 1 + iota
	goodbye
	heartbeat
)

// Write writes a view to the peer's memory. notify has it resolve a WaitForWrite there, once
// all of it is there; the next write may come before anybody has looked. Until the
// future is resolved the bytes must not be changed. The context bounds the transfer, which is
// canceled as Future.Cancel says.
func (t *Transport) Write(ctx context.Context, local View, remote RemoteBuffer, notify bool) *Future {
	return t.submit(ctx, &transfer{Transfer: Transfer{Write, local, remote, notify}})
}

// Read reads the peer's memory into a view.
func (t *Transport) Read(ctx context.Context, local View, remote RemoteBuffer) *Future {
	return t.submit(ctx, &transfer{Transfer: Transfer{Read, local, remote, false}})
}

func (t *Transport) submit(ctx context.Context, x *transfer) *Future {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(ctx, x)
	t.pump()
	return &x.Future
}

// Batch makes transfers in their order, which are posted together: the device is told once
// where it can. The futures are in the same order.
func (t *Transport) Batch(ctx context.Context, list ...Transfer) []*Future {
	made := make([]transfer, len(list))
	futures := make([]*Future, len(list))
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range list {
		made[i].Transfer = list[i]
		futures[i] = &made[i].Future
		t.add(ctx, &made[i])
	}
	t.pump()
	return futures
}

// add puts a transfer in the queue, or resolves it with what is wrong. It needs the lock.
func (t *Transport) add(ctx context.Context, x *transfer) {
	x.t, x.first = t, true
	if err := t.check(ctx, x); err != nil {
		x.resolve(0, err)
		return
	}
	x.watch(ctx, x.Op.String())
	t.waiting.push(x)
}

// check tells what is wrong with a transfer; else it holds its memory.
func (t *Transport) check(ctx context.Context, x *transfer) error {
	local, remote := &x.Local, &x.Remote
	what := func() string { return fmt.Sprintf("%s of %d bytes at %#x", x.Op, local.length, remote.Addr) }
	switch {
	case ctx.Err() != nil:
		return ended(ctx, x.Op.String())
	case t.err != nil:
		return t.err
	case t.ending:
		return failed(ErrClosed, "%s: the transport is closed", what())
	case t.stage != connected:
		return failed(ErrNotConnected, "%s before Connect", what())
	case local.memory == nil:
		return failed(ErrInvalidArgument, "%s without a view: expected one of a Memory", what())
	case local.memory.adapter != t.adapter:
		return failed(ErrInvalidArgument, "%s: the view is of memory on %s of another loop, this transport is on %s: register it with this transport", what(), local.memory.Device(), t.adapter.Name())
	case remote.Key.domain != t.pair.peer.domain:
		return failed(ErrWrongPeer, "%s: its key is of another process, loop or device than %s", what(), t.pair.peer.who())
	case !within(remote.Addr, local.length, remote.Key.addr, remote.Key.length):
		return failed(ErrBounds, "%s: %s has registered %d bytes at %#x", what(), t.pair.peer.name, remote.Key.length, remote.Key.addr)
	case x.Op > Read || x.Op == Read && x.Notify:
		return failed(ErrInvalidArgument, "%s that notifies: only a write can", what())
	case !local.memory.acquire():
		return failed(ErrClosed, "%s: the memory of its view is closed", what())
	}
	return nil
}

// pump posts what waits, as much as there is room for, at once. It needs the lock.
func (t *Transport) pump() {
	if t.waiting.len() == 0 || !t.established() {
		return
	}
	batch := t.requests[:0]
	for free := t.pair.sendDepth - controlDepth - t.flying.len(); free > 0 && t.waiting.len() > 0; free-- {
		x := *t.waiting.first()
		batch = append(batch, t.request(x, len(batch)))
		last := x.isPosted()
		t.fly(flight{transfer: x, last: last})
		if last {
			t.waiting.pop() // what it held goes over to the request
		} else {
			x.Local.memory.users.Add(1)
		}
	}
	t.post(batch)
}

// fly notes a request that is about to be posted.
func (t *Transport) fly(f flight) {
	if t.flying.len() == 0 {
		t.moved = objects.Clock()
	}
	t.flying.push(f)
}

func (x *transfer) isPosted() bool { return !x.first && x.next == x.Local.length }

// request is the next one of a transfer; i is its place in the batch.
func (t *Transport) request(x *transfer, i int) verbs.WorkRequest {
	n := min(x.Local.length-x.next, pieceMost)
	r := verbs.WorkRequest{
		ID: t.pair.requestID(0), Opcode: verbs.OpWrite, Flags: verbs.FlagSignaled,
		RKey: x.Remote.Key.rkey, RemoteAddr: x.Remote.Addr + x.next,
	}
	if n > 0 {
		t.sges[i] = verbs.SGE{Addr: x.Local.addr + x.next, Length: uint32(n), LKey: x.Local.memory.mr.LKey()}
		r.SGL = t.sges[i : i+1]
	}
	x.next += n
	x.first = false
	switch {
	case x.Op == Read:
		r.Opcode = verbs.OpRead
	case x.Notify && x.isPosted():
		r.Opcode = verbs.OpWriteImm
	}
	if x.Op == Write && n <= uint64(t.pair.inline) && x.Local.memory.region == nil { // the host reads what is inline
		r.Flags |= verbs.FlagInline
	}
	return r
}

// post posts requests that are noted in flying.
func (t *Transport) post(batch []verbs.WorkRequest) {
	if len(batch) == 0 {
		return
	}
	n, err := t.pair.qp.PostSend(batch)
	if err == nil {
		return
	}
	err = t.pair.peer.failed(ErrInternal, "post: %v", err)
	t.failLocked(err)
	for _, f := range t.flying.takeBack(len(batch) - n) {
		f.land(err)
	}
}

// say sends a message to the peer, if there is room. It needs the lock.
func (t *Transport) say(m message) {
	if t.flying.len() == t.pair.sendDepth {
		return
	}
	t.fly(flight{message: m})
	t.requests[0] = verbs.WorkRequest{ID: t.pair.requestID(0), Opcode: verbs.OpSendImm, Flags: verbs.FlagSignaled, Imm: uint32(m)}
	t.post(t.requests[:1])
}

const waitForWrite = "wait for a write" // in errors

// WaitForWrite returns a future that one notifying write of the peer resolves: each
// resolves one, in the order of the calls, whether it has come already or not. The context
// bounds the waiting; one that ends leaves the turn to the next.
func (t *Transport) WaitForWrite(ctx context.Context) *Future {
	f := &Future{t: t}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.arrivals.len() > 0:
		f.resolve(t.arrivals.pop(), nil)
	case ctx.Err() != nil:
		f.resolve(0, ended(ctx, waitForWrite))
	case t.err != nil:
		f.resolve(0, t.err)
	case t.ending:
		f.resolve(0, failed(ErrClosed, waitForWrite+": the transport is closed"))
	case t.stage != connected:
		f.resolve(0, failed(ErrNotConnected, waitForWrite+" before Connect"))
	default:
		f.watch(ctx, waitForWrite)
		t.waiters.push(f)
	}
	return f
}
