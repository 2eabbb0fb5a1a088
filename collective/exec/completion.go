package exec

import (
	"context"
	"fmt"

	"ringcli/collective/sharedmem"
	"ringcli/ring"
	"ringcli/ring/message"
	"ringcli/trace"
	"ringcli/verbs"
)

// poll takes completions and acts on them.
func (f *flow) poll() (bool, error) {
	x := f.x
	n, err := x.Token.Poll(x.completions[:])
	if err != nil {
		return false, fmt.Errorf("poll: %w", err)
	}
	if n > 0 {
		f.now = trace.Now()
		x.Times.Ran(f.now)
	}
	moved := false
	for i := range n {
		wc := &x.completions[i]
		if err := f.complete(wc); err != nil {
			return false, err
		}
		id, kind, value := ring.ParseWRID(wc.ID)
		switch kind {
		case wrCheck: // that a device answers is no progress
		case wrDetached: // nor is it what an earlier operation has left
			moved = moved || x.channelAt(id).flights[value].seq == f.seq
		default:
			moved = true
		}
	}
	return moved, nil
}

func (f *flow) complete(wc *verbs.Completion) error {
	id, kind, value := ring.ParseWRID(wc.ID)
	if wc.Status != verbs.Success {
		return f.x.Ring.Failure().Completion(wc)
	}
	ch := f.x.channelAt(id)
	if ch == nil {
		return f.without(f.x.Ring.Edge(id), wc)
	}
	switch kind {
	case ring.WRRecv:
		var err error
		if wc.Opcode == verbs.WCRecvWriteImm {
			err = f.written(ch, wc.Imm)
		} else {
			msg := ch.edge.Message(value, wc.ByteLen)
			switch {
			case ring.StalePing(msg): // it is dropped
			case id.First() == ring.Left.Edge() && message.KindOf(msg) == message.Ping:
				f.x.Token.Defer(*wc) // the neighbour is done here, and pings all ranks
				return nil
			default:
				err = f.message(ch, msg)
			}
		}
		if err != nil {
			return err
		}
		if err := ch.edge.Repost(value); err != nil {
			return fmt.Errorf("post a receive to %s: %w", ch, err)
		}
		return nil
	case ring.WRMessage, wrCheck:
		ch.edge.Outstanding--
		return nil
	case wrDetached:
		ch.attach(value, f.now)
		return nil
	case wrWrite:
		ch.edge.Outstanding--
		f.engine.delivered(ch)
		return nil
	case wrRead:
		ch.edge.Outstanding--
		if f.rendezvous == nil {
			return fmt.Errorf("%w: a READ completed that was not posted", sharedmem.ErrProtocol)
		}
		return f.rendezvous.read(ch)
	}
	return fmt.Errorf("%w: a completion of unknown kind %d", sharedmem.ErrProtocol, kind)
}

// without acts on a completion of an edge that has no channel here yet.
func (f *flow) without(e *ring.Edge, wc *verbs.Completion) error {
	id, kind, value := ring.ParseWRID(wc.ID)
	switch {
	case e == nil:
	case kind == ring.WRRecv && wc.Opcode == verbs.WCRecv:
		return e.Repost(value) // a credit to an earlier Comm; see channel.told
	case kind == ring.WRRecv:
		f.x.Token.Defer(*wc) // the peer is ahead, in the operation that makes the channel here
		return nil
	case kind == ring.WRMessage || kind == wrCheck:
		e.Outstanding-- // an earlier Comm's credit, or what it asked the device
		return nil
	}
	return fmt.Errorf("%w: a completion of an edge that is not there: side %d", sharedmem.ErrProtocol, id)
}

// drain waits until the peer has what operations have left under way to it, unless
// the ring fails: then nobody misses it. It needs the lock.
func (x *Executor) drain(ch *channel) {
	if x.Ring.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), x.Ring.Timeout())
	defer cancel()
	token, err := x.Ring.Begin(ctx)
	if err != nil {
		return
	}
	x.waiter.Reset()
	for ch.detached > 0 && x.Stopped(ctx) == nil {
		n, err := token.Poll(x.completions[:])
		if err != nil {
			break
		}
		for i := range n {
			wc := &x.completions[i]
			id, kind, value := ring.ParseWRID(wc.ID)
			switch {
			case kind != wrDetached:
				token.Defer(*wc)
			case wc.Status != verbs.Success:
				ch.detached = 0
			default:
				x.channelAt(id).attach(value, 0)
			}
		}
		if n == 0 && x.waiter.Wait() != nil {
			break
		}
	}
	_ = token.End() // the ACKs that peers wait for
}

// compare holds a header of a peer against the own call. A peer that is ahead is
// none of this operation's business.
func (f *flow) compare(ch *channel, h *message.Header) error {
	switch {
	case h.Epoch != f.x.Ring.Epoch():
		return fmt.Errorf("%w: %s wrote a segment of epoch %d of the ring: expected %d", sharedmem.ErrProtocol, ch, h.Epoch, f.x.Ring.Epoch())
	case h.Seq < f.seq:
		return fmt.Errorf("%w: %s sent a segment of operation %d during operation %d", sharedmem.ErrProtocol, ch, h.Seq, f.seq)
	case h.Seq == f.seq && signatureOf(h) != f.sign:
		return f.x.Disagreement(f.sign, ch.edge.Peer, signatureOf(h))
	}
	return nil
}

// written acts on a WRITE_WITH_IMM by a peer.
func (f *flow) written(ch *channel, imm uint32) error {
	if ch.edge.Side == ring.Right && f.x.size > 2 {
		return fmt.Errorf("%w: %s wrote data, which flows to the right only", sharedmem.ErrProtocol, ch)
	}
	f.x.Times.Came(f.now)
	if imm&immDirect != 0 {
		if f.rendezvous == nil || f.call.Verify {
			return fmt.Errorf("%w: %s wrote segment %d into place without its checksum: expected that behind it, or messages in slots", sharedmem.ErrProtocol, ch, imm&^immDirect)
		}
		return f.rendezvous.wroteInPlace(ch, int(imm&^immDirect))
	}
	h, err := ch.arrive(imm, f.now)
	if err != nil {
		return err
	}
	if err := f.compare(ch, h); err != nil || ch.edge.Side != ring.Mesh {
		return err
	}
	return ch.release(h.Addr)
}

// message acts on a message of a peer.
func (f *flow) message(ch *channel, b []byte) error {
	var h message.Header
	if !h.Decode(b) {
		return fmt.Errorf("%w: %d bytes from %s are no message", sharedmem.ErrProtocol, len(b), ch)
	}
	recordMessage(&receivedMessage, &h, ch.edge.Peer)
	if h.Epoch != f.x.Ring.Epoch() {
		f.x.Ring.Control().DropStale(&h, ch.edge.Peer)
		return nil
	}
	switch {
	case h.Kind == kindRTS && ch.edge.Side == ring.Left:
		if err := f.compare(ch, &h); err != nil {
			return err
		}
		f.x.Times.Came(f.now)
		return ch.addRTS(h)
	case h.Kind == kindCredit && ch.edge.Side == ring.Mesh && h.RKey != f.x.Nonce:
		return nil // to an earlier Comm
	case h.Kind == kindCredit:
		return ch.release(h.Addr)
	case h.Kind == kindWritten && h.Seq == f.seq && f.rendezvous != nil && f.call.Verify && ch.edge.Side != ring.Mesh:
		return f.rendezvous.wroteWithSum(ch, int(h.Segment), h.Sum)
	case h.Seq == f.seq && f.rendezvous != nil && f.rendezvous.answered(ch, h):
		return nil
	}
	return fmt.Errorf("%w: %s of epoch %d, operation %d, segment %d from %s has no place in epoch %d, operation %d",
		sharedmem.ErrProtocol, h.Kind, h.Epoch, h.Seq, h.Segment, ch, f.x.Ring.Epoch(), f.seq)
}

// signatureOf returns what a header says of its operation.
func signatureOf(h *message.Header) sharedmem.Signature {
	return sharedmem.Signature{Digest: h.Digest, Count: h.Arg, Root: uint64(h.Root)}
}
