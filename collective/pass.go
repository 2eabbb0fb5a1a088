package collective

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// vector is where a user's elements lie: element i at base + i*size. Of a buffer
// that holds the own chunk only, base is where element 0 would be.
type vector struct {
	base       uint64
	lkey, rkey uint32
}

// bytes views n bytes from element lo on, of elements of size bytes.
func (v *vector) bytes(lo, n, size int) []byte { return memory.Bytes(v.base+uint64(lo*size), n) }

// pass runs one program over the ring: an operation, or one phase of it. It is
// driven by polling, from one goroutine. Both streams have total positions, and
// each counter below says how many of them have come so far, in order:
//
//	from the left   granted ≥ arrived ≥ processed
//	to the right    announced ≥ posted ≥ sent      (and cleared, under rendezvous-write)
//
// A position may be posted once what it depends on was processed. Nothing waits
// for the other stream otherwise, which is what makes the pipeline.
type pass struct {
	c      *Comm
	call   call
	digest uint64 // of call
	seq    uint64
	prog   program
	schedule
	total   int
	kernel  reduce.Kernel // nil if nothing is reduced
	size    int           // bytes of an element
	in, out vector        // the user's send buffer and receive buffer

	granted   int // rendezvous: CTS sent or READ posted
	arrived   int // rendezvous: lies in its place
	processed int // reduced or copied: may be sent on
	reading   int // READs in flight

	announced int // rendezvous: RTS sent
	cleared   int // rendezvous-write: CTS received
	posted    int // WRITE posted; rendezvous-read: RTS sent
	sent      int // completed; rendezvous-read: FIN received
	clearance [2 * MaxDepth]struct {
		addr uint64
		rkey uint32
	}

	// Partial results wait to be sent on in a ring of buffers.
	partials                                   uint64 // buffers
	partialsMade, partialsPosted, partialsSent uint64
	staging                                    vector // landings, as many as depth, then the partial results
	partialBase, stagingStride                 uint64 // address; bytes of one buffer

	timeline
	phaseLogged bool
}

// start makes the pass ready to run a call.
func (p *pass) start(ctx context.Context, c call, in, out vector, program func(*program)) error {
	comm := p.c
	p.begun = trace.Now()
	p.step, p.stepBytes = p.begun, 0
	p.call, p.digest, p.in, p.out = c, c.digest(), in, out
	comm.seq++
	p.seq = comm.seq
	p.prog.steps = p.prog.steps[:0]
	program(&p.prog)
	p.schedule = c.schedule(comm.size, len(p.prog.steps)-1)
	p.total = p.positions()
	p.size = c.typ.Size()
	p.kernel = nil
	if c.op.reduces() {
		p.kernel = reduce.Lookup(c.typ, c.red)
	}
	p.granted, p.arrived, p.processed, p.reading = 0, 0, 0, 0
	p.announced, p.cleared, p.posted, p.sent = 0, 0, 0, 0
	p.partialsMade, p.partialsPosted, p.partialsSent = 0, 0, 0
	p.phaseLogged = false
	if err := comm.stopped(ctx); err != nil {
		return err
	}
	if err := comm.ring.Begin(ctx); err != nil {
		return err
	}
	comm.live.Operations++

	// One group of partial results may wait for the right neighbour while the
	// next is made.
	p.partials = 2 * uint64(c.depth)
	p.stagingStride = (uint64(c.segment) + 63) / 64 * 64
	staging, err := comm.grow(&comm.staging, (uint64(c.depth)+p.partials)*p.stagingStride)
	if err != nil {
		return err
	}
	p.staging = vector{staging.addr, staging.lkey, staging.rkey}
	p.partialBase = staging.addr + uint64(c.depth)*p.stagingStride
	if trace.Enabled(trace.Collective) {
		trace.Debug(trace.Collective, "operation starts", slog.Uint64("number", p.seq), slog.String("call", c.String()),
			slog.String("algorithm", c.algorithm.String()), slog.String("protocol", c.protocol.String()), slog.Int("transfers", p.total))
	}

	// The left neighbour may have been first.
	if h := comm.left.head(); h != nil {
		if err := p.compare(h); err != nil {
			return err
		}
	}
	if h := comm.left.offer(); h != nil {
		return p.compare(h)
	}
	return nil
}

// busyPolls is how many polls with something to do may pass before cancellation
// is looked for: some hundred microseconds.
const busyPolls = 64

// run drives the pass to its end.
func (p *pass) run(ctx context.Context) error {
	var idleSince time.Time
	checked := false // since then
	for loops := 0; !p.done(); loops++ {
		p.now = 0
		moved, err := p.poll()
		if err != nil {
			return err
		}
		// The wire first: it works while this CPU reduces.
		posted, err := p.post()
		if err != nil {
			return err
		}
		if posted {
			p.now = 0
		}
		worked, err := p.work()
		if err != nil {
			return err
		}
		if moved || posted || worked {
			p.c.waiter.Reset()
			idleSince, checked = time.Time{}, false
			if loops%busyPolls != 0 {
				continue
			}
		}
		if err := p.c.stopped(ctx); err != nil {
			return err
		}
		if moved || posted || worked {
			continue
		}
		now := time.Now()
		switch idle := now.Sub(idleSince); {
		case idleSince.IsZero():
			idleSince = now
		case idle > p.c.options.Timeout:
			return fmt.Errorf("%w for %v: %s", ErrTimeout, p.c.options.Timeout, p.awaited())
		case idle > p.c.options.Timeout/2 && !checked:
			checked = true
			if err := p.check(); err != nil {
				return err
			}
		}
		if err := p.c.waiter.Wait(); err != nil {
			return fmt.Errorf("wait for completions: %w", err)
		}
	}
	if err := p.c.ring.End(); err != nil {
		return fmt.Errorf("poll: %w", err)
	}
	if trace.Enabled(trace.Collective) {
		trace.Debug(trace.Collective, "operation ends", slog.Uint64("number", p.seq))
	}
	return nil
}

// check has the devices find out whether the neighbours' still answer, where nothing
// is on its way to them that would: a WRITE of no bytes, which their processes do not
// notice. If one is gone, retries run out, and that names it before all ranks end up
// with no progress.
func (p *pass) check() error {
	for _, l := range []*link{&p.c.left.link, &p.c.right.link} {
		if l.outstanding > 0 {
			continue
		}
		addr, rkey := l.edge.RemoteSlot(0)
		wr := verbs.WorkRequest{ID: ring.WRID(l.edge.Side, wrCheck, 0), Opcode: verbs.OpWrite, RemoteAddr: addr, RKey: rkey}
		if err := l.post(wr, 0); err != nil {
			return err
		}
	}
	return nil
}

// done tells whether everything has come and gone, messages and credits too: no
// completion of this operation is left for others who poll the queue, such as a
// ping.
func (p *pass) done() bool {
	left, right := &p.c.left, &p.c.right
	return p.processed == p.total && p.sent == p.total && left.outstanding == 0 && right.outstanding == 0 && right.settled()
}

// awaited says what is missing and who would have to send it.
func (p *pass) awaited() string {
	left, right := p.c.left.edge.Peer, p.c.right.edge.Peer
	text := fmt.Sprintf("%d of %d segments had come from rank %d (left), %d of %d had gone to rank %d (right)",
		max(p.processed, p.arrived), p.total, left, p.sent, p.total, right)
	switch {
	case p.processed < p.total && p.granted > p.arrived:
		text += fmt.Sprintf("; awaited from rank %d: the data of segment %d, for which it had its %s", left, p.arrived, p.ask())
	case p.processed < p.total && p.arrived <= p.processed && p.c.left.head() == nil:
		text += fmt.Sprintf("; awaited from rank %d: segment %d", left, p.processed)
	}
	if p.sent < p.total {
		switch {
		case p.posted > p.sent && p.call.protocol == RendezvousRead:
			text += fmt.Sprintf("; awaited from rank %d: the FIN of segment %d", right, p.sent)
		case p.posted > p.sent:
			text += fmt.Sprintf("; awaited from rank %d: the acknowledgement of segment %d", right, p.sent)
		case p.announced > p.cleared && p.call.protocol == RendezvousWrite:
			text += fmt.Sprintf("; awaited from rank %d: the CTS of segment %d", right, p.cleared)
		}
	}
	if !p.c.right.settled() {
		text += fmt.Sprintf("; awaited from rank %d: credits for %d slots", right, p.c.right.filled-p.c.right.freed)
	}
	return text
}

func (p *pass) ask() string {
	if p.call.protocol == RendezvousRead {
		return "READ request"
	}
	return "CTS"
}

// poll takes completions and acts on them.
func (p *pass) poll() (bool, error) {
	c := p.c
	n, err := c.ring.Poll(c.completions[:])
	if err != nil {
		return false, fmt.Errorf("poll: %w", err)
	}
	if n > 0 {
		p.now = trace.Now()
	}
	moved := false
	for i := range n {
		wc := &c.completions[i]
		if err := p.complete(wc); err != nil {
			return false, err
		}
		_, kind, _ := ring.ParseWRID(wc.ID)
		moved = moved || kind != wrCheck // that a device answers is no progress
	}
	return moved, nil
}

func (p *pass) complete(wc *verbs.Completion) error {
	side, kind, value := ring.ParseWRID(wc.ID)
	l := &p.c.left.link
	if side == ring.Right {
		l = &p.c.right.link
	}
	if wc.Status != verbs.Success {
		return p.c.ring.CompletionError(wc)
	}
	switch kind {
	case ring.WRRecv:
		var err error
		if wc.Opcode == verbs.WCRecvWriteImm {
			err = p.written(side, wc.Imm)
		} else {
			msg := l.edge.Message(value, wc.ByteLen)
			if side == ring.Left && ring.KindOf(msg) == ring.KindPing {
				p.c.ring.Defer(*wc) // the neighbour is done here, and pings
				return nil
			}
			err = p.message(side, msg)
		}
		if err != nil {
			return err
		}
		if err := l.edge.Repost(value); err != nil {
			return fmt.Errorf("post a receive to rank %d, the %s neighbour: %w", l.edge.Peer, side, err)
		}
		return nil
	case ring.WRMessage, wrCheck:
		l.outstanding--
		return nil
	case wrWrite:
		l.outstanding--
		p.delivered()
		return nil
	case wrRead:
		l.outstanding--
		return p.read()
	}
	return fmt.Errorf("%w: a completion of unknown kind %d", ErrProtocol, kind)
}

// compare holds a header of the left neighbour against the own call. A neighbour
// that is ahead is none of this operation's business.
func (p *pass) compare(h *ring.Header) error {
	switch {
	case h.Epoch != p.c.epoch:
		return fmt.Errorf("%w: rank %d, the left neighbour, is in epoch %d of the ring: expected %d",
			ErrProtocol, p.c.left.edge.Peer, h.Epoch, p.c.epoch)
	case h.Seq < p.seq:
		return fmt.Errorf("%w: rank %d, the left neighbour, sent a segment of operation %d during operation %d",
			ErrProtocol, p.c.left.edge.Peer, h.Seq, p.seq)
	case h.Seq == p.seq && (h.Digest != p.digest || h.Arg != p.call.count):
		return &DisagreementError{
			Number: p.seq, Rank: p.c.rank, Peer: p.c.left.edge.Peer, Mine: p.call.String(), Theirs: callOf(h.Digest, h.Arg).String(),
		}
	}
	return nil
}

// written acts on a WRITE_WITH_IMM by the left neighbour.
func (p *pass) written(side ring.Side, imm uint32) error {
	if side != ring.Left {
		return fmt.Errorf("%w: rank %d, the right neighbour, wrote data, which flows to the right only", ErrProtocol, p.c.right.edge.Peer)
	}
	if imm&immDirect == 0 {
		h, err := p.c.left.fill(imm, p.now)
		if err != nil {
			return err
		}
		return p.compare(h)
	}
	if position := int(imm &^ immDirect); position != p.arrived || p.arrived == p.granted {
		return fmt.Errorf("%w: rank %d, the left neighbour, wrote segment %d: expected %d of %d that it was cleared for",
			ErrProtocol, p.c.left.edge.Peer, position, p.arrived, p.granted)
	}
	p.landed()
	return nil
}

// message acts on a message of a neighbour.
func (p *pass) message(side ring.Side, b []byte) error {
	peer := p.c.left.edge.Peer
	if side == ring.Right {
		peer = p.c.right.edge.Peer
	}
	var h ring.Header
	if !h.Decode(b) {
		return fmt.Errorf("%w: %d bytes from rank %d, the %s neighbour, are no message", ErrProtocol, len(b), peer, side)
	}
	recordMessage(&receivedMessage, &h, peer)
	switch {
	case h.Kind == kindRTS && side == ring.Left:
		if err := p.compare(&h); err != nil {
			return err
		}
		return p.c.left.addOffer(h)
	case h.Epoch != p.c.epoch:
	case h.Kind == kindCredit && side == ring.Right:
		r := &p.c.right
		if h.Addr < r.freed || h.Addr > r.filled {
			return fmt.Errorf("%w: credits for %d slots from rank %d: expected %d to %d", ErrProtocol, h.Addr, peer, r.freed, r.filled)
		}
		r.freed = h.Addr
		return nil
	case h.Kind == kindCTS && side == ring.Right && h.Seq == p.seq && int(h.Segment) == p.cleared && p.cleared < p.announced:
		slot := &p.clearance[p.cleared%len(p.clearance)]
		slot.addr, slot.rkey = h.Addr, h.RKey
		p.cleared++
		return nil
	case h.Kind == kindFIN && side == ring.Right && h.Seq == p.seq && int(h.Segment) == p.sent && p.sent < p.posted:
		p.delivered()
		return nil
	}
	return fmt.Errorf("%w: %s of epoch %d, operation %d, segment %d from rank %d, the %s neighbour, "+
		"has no place in epoch %d, operation %d", ErrProtocol, h.Kind, h.Epoch, h.Seq, h.Segment, peer, side, p.c.epoch, p.seq)
}

// delivered notes that the oldest posted segment is the right neighbour's, and
// its memory ours again.
func (p *pass) delivered() {
	transfer, segment, _ := p.at(p.sent)
	st := p.prog.steps[transfer]
	if st.do == recvReduceSend {
		p.partialsSent++
	}
	lo, hi := p.span(st.chunk, segment)
	n := uint64((hi - lo) * p.size)
	sendSpan.SpanAt(p.sends[p.sent%MaxDepth], p.now, p.seq, uint64(p.sent), n, uint64(p.c.right.edge.Peer))
	p.c.live.Sent += n
	p.sent++
}

// landed notes that the oldest granted segment lies in its place.
func (p *pass) landed() {
	if begun := p.receives[p.arrived%MaxDepth]; begun != 0 {
		receiveSpan.SpanAt(begun, p.now, p.seq, uint64(p.arrived), uint64(p.arriving(p.arrived)), uint64(p.c.left.edge.Peer))
	}
	p.arrived++
}

// work reduces or copies the next segment that is ready, at most one that costs
// anything, and reports whether it got on.
func (p *pass) work() (bool, error) {
	moved := false
	for p.processed < p.total {
		transfer, segment, width := p.at(p.processed)
		st := p.prog.steps[transfer+1]
		lo, hi := p.span(st.chunk, segment)
		n := (hi - lo) * p.size
		reduces := st.do&doReduce != 0
		if reduces && (p.call.depth == 1 && p.busy() || st.do == recvReduceSend && p.partialsMade-p.partialsSent == p.partials) {
			return moved, nil
		}
		data, ok, err := p.received(st, lo, n)
		if !ok || err != nil {
			return moved, err
		}
		if corrupt := p.c.options.Corrupt; corrupt != nil {
			corrupt(p.call.op, p.processed, data)
		}
		p.c.live.Received += uint64(n)
		if p.now == 0 {
			p.now = trace.Now()
		}
		switch {
		case reduces:
			p.reduce(st, data, lo)
		case p.call.protocol == Eager:
			copy(p.out.bytes(lo, n, p.size), data)
			p.c.live.CopiedAllGather += uint64(n)
		}
		p.recordWork(reduces, transfer, n, segment%p.depth == width-1)
		p.processed++
		moved = true
		if p.call.protocol == Eager {
			p.c.left.taken++
			if err := p.credit(); err != nil {
				return moved, err
			}
		}
		if !reduces {
			p.logPhase()
		}
		if reduces || p.call.protocol == Eager {
			return moved, nil
		}
	}
	return moved, nil
}

// reduce combines a received segment with the own contribution.
func (p *pass) reduce(st step, data []byte, lo int) {
	own := p.in.bytes(lo, len(data), p.size)
	var result []byte
	if st.do&doCopy != 0 {
		result = p.out.bytes(lo, len(data), p.size)
	} else {
		result = memory.Bytes(p.partialBase+p.partialsMade%p.partials*p.stagingStride, len(data))
		p.partialsMade++
	}
	p.kernel(result, data, own)
	if st.do&doCopy != 0 {
		reduce.Finish(p.call.typ, p.call.red, p.ranks, result)
	}
	p.c.live.Reductions++
	if p.inFlight() {
		p.c.live.Overlapped++
	}
}

// busy tells whether anything of this rank is on its way, either way.
func (p *pass) busy() bool { return p.posted > p.sent || p.reading > 0 }

// inFlight tells whether this rank's own WRITE or READ is on the wire for sure:
// an RTS that the neighbour may not have looked at does not count.
func (p *pass) inFlight() bool {
	return p.reading > 0 || p.call.protocol != RendezvousRead && p.posted > p.sent
}

// logPhase traces the passage from reduce-scatter to all-gather, once.
func (p *pass) logPhase() {
	if p.phaseLogged || p.call.op != OpAllReduce || !trace.Enabled(trace.Collective) {
		return
	}
	p.phaseLogged = true
	trace.Debug(trace.Collective, "first segment of the all-gather phase", slog.Uint64("number", p.seq))
}
