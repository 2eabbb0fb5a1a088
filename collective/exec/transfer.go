package exec

import (
	"fmt"

	"ringcli/collective/plan"
	"ringcli/collective/program"
	"ringcli/collective/sharedmem"
	"ringcli/collective/turns"
	"ringcli/ring"
	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// This file is the protocols: how a position leaves to the right and how it
// comes in from the left. Steps and chunks are none of its business.

// received returns the data of the next position to process, if it is there.
func (p *pass) received(transfer, lo, n int) (data []byte, ok bool, err error) {
	if !p.InSlot(transfer) {
		if !p.from.Has(p.Processed) {
			return nil, false, nil
		}
		addr, _, _ := p.landing(p.Processed, p.Program.Steps[transfer+1], lo, n)
		return memory.Bytes(addr, n), true, nil
	}
	ch := p.left.at(p.Processed)
	h := ch.head()
	if h == nil {
		return nil, false, nil
	}
	if h.Seq != p.seq || int(h.Segment) != p.Processed || h.Length != uint32(n) {
		return nil, false, fmt.Errorf("%w: rank %d, the left neighbour, sent operation %d, segment %d of %d bytes: expected operation %d, segment %d of %d",
			sharedmem.ErrProtocol, ch.edge.Peer, h.Seq, h.Segment, h.Length, p.seq, p.Processed, n)
	}
	if p.call.Protocol == plan.ReceiverInitiated {
		p.owners[transfer] = remote{h.Addr, h.RKey}
	}
	return ch.payload(n), true, nil
}

// resultWritten notes that the left neighbour wrote a result into its place.
func (p *pass) resultWritten(ch *channel, position int) error {
	from := p.left.at(position)
	next := p.seek(&p.from, from.number(), false)
	// What it is the result of was sent from here in the first phase, and processed by all.
	own := -1
	if position < p.Incoming {
		transfer, _, width := p.At(position)
		own = position - (p.Ranks-1)*width
		if transfer < p.Ranks-1 {
			own = p.Incoming
		}
	}
	if ch != from || position != next || own < 0 || own >= p.Posted {
		return fmt.Errorf("%w: %s wrote segment %d into place: expected segment %d of %d from %s, and its slot to be free by it",
			sharedmem.ErrProtocol, ch, position, next, p.Incoming, from)
	}
	p.receives[next%plan.MaxDepth] = p.now
	p.landed(ch)
	to := p.right.at(own)
	for p.seek(&p.emptied, to.number(), true) <= own {
		p.emptied.Take(to.number())
		to.emptied++
	}
	return to.release(to.emptied)
}

// seek takes a counter to the next position of a channel that goes through slots, or that
// does not.
func (p *pass) seek(c *turns.Counter, channel int, slotted bool) int {
	for c.Next(channel) < p.Incoming {
		if transfer, _, _ := p.At(c.Next(channel)); p.InSlot(transfer) == slotted {
			break
		}
		c.Take(channel)
	}
	return c.Next(channel)
}

// credit returns slots, a quarter of them at a time: whenever the number that
// was taken from the start divides by that, so that the neighbour knows which
// credits are to come (see channel.credited). What the neighbour on the right waits for goes
// first: along a chain of ranks a credit before it would hold up each of them.
func (p *pass) credit() error {
	ch := p.owing
	p.owing = nil
	if ch == nil || p.call.Protocol == plan.ReceiverInitiated || ch.taken%plan.CreditBatch(ch.slots) != 0 {
		return nil
	}
	h := p.header(kindCredit, 0, 0)
	h.Addr = ch.taken
	if err := ch.send(&h); err != nil {
		return err
	}
	p.x.Live.Credits++
	return nil
}

// post posts whatever may be posted now and reports whether there was anything.
func (p *pass) post() (bool, error) {
	before := p.Posted + p.Announced + p.Granted
	var err error
	switch p.call.Protocol {
	case plan.Eager, plan.ReceiverInitiated:
		err = p.postSlots()
	case plan.RendezvousWrite:
		if err = p.postWrites(); err == nil {
			err = p.announce(p.Ahead, false)
		}
	case plan.RendezvousRead:
		if err = p.announce(p.Ahead, true); err == nil {
			p.Posted = p.Announced
		}
	}
	if err == nil && p.call.Protocol.Handshakes() {
		err = p.grant()
	}
	if err == nil {
		err = p.credit()
	}
	return p.Posted+p.Announced+p.Granted > before, err
}

// source returns the memory of the next segment to send. It is called once for
// each position, in order, because partial results are.
func (p *pass) source(position int) (addr uint64, lkey, rkey uint32, n int) {
	transfer, segment, _ := p.At(position)
	st := p.Program.Steps[transfer]
	lo, hi := p.Span(st.Chunk, segment)
	n = (hi - lo) * p.size
	v, e := &p.out, p.right.at(position).edge
	switch {
	case st.Do == program.RecvReduceSend:
		addr = p.partialBase + p.PartialsPosted%p.Partials*p.stagingStride
		p.PartialsPosted++
		return addr, p.staging.Keys.LKey(e.Device()), p.staging.Keys.RKey(e.Device()), n
	case n == 0:
		return p.partialBase, p.staging.Keys.LKey(e.Device()), p.staging.Keys.RKey(e.Device()), 0
	case st.Do == program.Send:
		v = &p.in
	}
	return v.Base + uint64(lo*p.size), v.Keys.LKey(e.Device()), v.Keys.RKey(e.Device()), n
}

// landing returns the memory that a rendezvous puts a segment into: a staging
// buffer if it is to be reduced, or else its final place.
func (p *pass) landing(position int, st program.Step, lo, n int) (addr uint64, lkey, rkey uint32) {
	e := p.left.at(position).edge
	if st.Do&program.DoReduce != 0 || n == 0 {
		return p.staging.Base + uint64(position%p.Depth)*p.stagingStride, p.staging.Keys.LKey(e.Device()), p.staging.Keys.RKey(e.Device())
	}
	return p.out.Base + uint64(lo*p.size), p.out.Keys.LKey(e.Device()), p.out.Keys.RKey(e.Device())
}

// maySend tells whether the next position may be posted to the right.
func (p *pass) maySend() bool {
	return p.MayPost() && p.right.at(p.Posted).room()
}

func (p *pass) postSlots() error {
	for p.maySend() {
		r := p.right.at(p.Posted)
		transfer, segment, _ := p.At(p.Posted)
		if !p.InSlot(transfer) {
			lo, _ := p.Span(p.Program.Steps[transfer].Chunk, segment)
			to := p.owners[p.Ranks-2]
			to.addr += uint64(lo * p.size)
			if err := p.writeTo(to); err != nil {
				return err
			}
			continue
		}
		if !r.free() {
			break
		}
		addr, lkey, _, n := p.source(p.Posted)
		h := p.header(kindSlot, p.Posted, n)
		h.Sum = p.sumOf(r, addr, n)
		switch {
		case p.call.Protocol == plan.Eager:
		case transfer == 0:
			h.Addr, h.RKey = p.out.Base, p.out.Keys.RKey(p.left[0].edge.Device())
		default:
			h.Addr, h.RKey = p.owners[transfer-1].addr, p.owners[transfer-1].rkey
		}
		p.sends[p.Posted%plan.MaxDepth] = trace.Now()
		if err := r.fill(&h, addr, n, lkey); err != nil {
			return err
		}
		p.Posted++
		p.x.Live.EagerWrites++
	}
	return nil
}

func (p *pass) postWrites() error {
	for p.Posted < p.Cleared && p.maySend() {
		if err := p.writeTo(p.clearance[p.Posted%len(p.clearance)]); err != nil {
			return err
		}
	}
	return nil
}

// writeTo writes the next segment into its place at the right neighbour.
func (p *pass) writeTo(to remote) error {
	r := p.right.at(p.Posted)
	addr, lkey, _, n := p.source(p.Posted)
	r.sges[0] = verbs.SGE{Addr: addr, Length: uint32(n), LKey: lkey}
	p.sends[p.Posted%plan.MaxDepth] = trace.Now()
	wr := verbs.WorkRequest{
		ID: ring.WRID(r.edge.ID, wrWrite, uint64(p.Posted)), Opcode: verbs.OpWriteImm, Imm: immDirect | uint32(p.Posted),
		RemoteAddr: to.addr, RKey: to.rkey,
	}
	if p.call.Verify {
		wr.Opcode, wr.Imm = verbs.OpWrite, 0
	}
	if err := r.post(wr, pieces(1, n)); err != nil {
		return err
	}
	if sum := p.sumOf(r, addr, n); p.call.Verify {
		h := p.header(kindWritten, p.Posted, n)
		h.Sum = sum
		if err := r.send(&h); err != nil {
			return err
		}
	}
	p.Posted++
	p.x.Live.Writes++
	return nil
}

// announce sends RTS for the positions up to window beyond the last one
// delivered. With address they say where to READ, and so have to wait for the
// data to be ready; without, they go ahead of it, so that the CTS is there when
// it is.
func (p *pass) announce(window int, address bool) error {
	for p.MayAnnounce(window, address) {
		r := p.right.at(p.Announced)
		if !r.room() {
			break
		}
		h := p.header(kindRTS, p.Announced, p.Leaving(p.Announced))
		if address {
			var n int
			h.Addr, _, h.RKey, n = p.source(p.Announced)
			h.Sum = p.sumOf(r, h.Addr, n)
			p.sends[p.Announced%plan.MaxDepth] = trace.Now()
		}
		if err := r.send(&h); err != nil {
			return err
		}
		p.Announced++
		p.x.Live.RTS++
	}
	return nil
}

// grant answers RTS as long as there is a place to put the data: with a CTS, or
// by READing it.
func (p *pass) grant() error {
	for p.MayGrant() {
		ch := p.left.at(p.Granted)
		h := ch.oldestRTS()
		if h == nil || h.Seq != p.seq || !ch.room() {
			return nil
		}
		transfer, segment, _ := p.At(p.Granted)
		st := p.Program.Steps[transfer+1]
		lo, hi := p.Span(st.Chunk, segment)
		n := (hi - lo) * p.size
		if int(h.Segment) != p.Granted || h.Length != uint32(n) {
			return fmt.Errorf("%w: RTS from rank %d, the left neighbour, for segment %d of %d bytes: expected segment %d of %d bytes",
				sharedmem.ErrProtocol, ch.edge.Peer, h.Segment, h.Length, p.Granted, n)
		}
		addr, lkey, rkey := p.landing(p.Granted, st, lo, n)
		var err error
		p.receives[p.Granted%plan.MaxDepth] = trace.Now()
		if p.call.Protocol == plan.RendezvousWrite {
			reply := p.header(kindCTS, p.Granted, n)
			reply.Addr, reply.RKey = addr, rkey
			err = ch.send(&reply)
			p.x.Live.CTS++
		} else {
			ch.sges[0] = verbs.SGE{Addr: addr, Length: uint32(n), LKey: lkey}
			err = ch.post(verbs.WorkRequest{
				ID: ring.WRID(ch.edge.ID, wrRead, uint64(p.Granted)), Opcode: verbs.OpRead, RemoteAddr: h.Addr, RKey: h.RKey,
			}, pieces(1, n))
			p.landings.put(p.Granted, h.Sum)
			p.reading++
			p.x.Live.Reads++
		}
		if err != nil {
			return err
		}
		ch.rtsTaken++
		p.Granted++
	}
	return nil
}

// read notes that the oldest READ on a channel has its data, and hands the memory back to
// the left neighbour.
func (p *pass) read(ch *channel) error {
	h := p.header(kindFIN, p.from.Next(ch.number()), 0)
	p.reading--
	p.landed(ch)
	if err := ch.send(&h); err != nil {
		return err
	}
	p.x.Live.FIN++
	return nil
}
