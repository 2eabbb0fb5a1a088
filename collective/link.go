package collective

import (
	"fmt"

	"ringcli/ring"
	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// The collective's own kinds of work requests; the value is the position.
const (
	wrWrite = ring.WRUser + iota
	wrRead
	wrCheck    // see flow.check
	wrDetached // a WRITE that its operation did not wait for, see link.detach
)

// immDirect marks the immediate data of a write into place, whose other bits are
// the position. Without it they are the index of the slot that was written.
const immDirect = 1 << 31

// maxOffers is the room for RTS that were not yet answered: twice the deepest
// pipeline of the operation that runs, and no other, since the left neighbour
// cannot end an operation before its RTS are answered.
const maxOffers = 4 * MaxDepth

// link is one end of an edge and what is under way on it, in both directions: an
// edge of the ring carries data in one of them, an edge of a mesh in both. Links
// outlive operations, since a peer may be ahead. They belong to whoever has the
// Comm's turn.
type link struct {
	edge        *ring.Edge
	sendRoom    int // send requests that may be outstanding
	outstanding int // send requests, of any kind, without completion
	detached    int // of them, those that no operation waits for
	message     [ring.HeaderSize]byte
	wr          [1]verbs.WorkRequest
	sges        [2]verbs.SGE

	// slots is their number, the same at both ends. What passes through them is counted
	// from the start, and who writes says into which: into that which was emptied last,
	// which is still in the cache.
	slots uint64

	// What comes. heads has the headers of what arrived and was not taken, by its number
	// modulo slots.
	arrived uint64
	taken   uint64
	lies    [maxSlots]uint8 // in which slot, likewise
	inUse   uint64          // a bit for each slot that was not taken
	// told is, of an edge of a mesh, how many of those taken the peer knows of, from
	// the header of a slot or from a credit. Nobody waits for the last credits: they
	// may come when the next operation runs, or the next Comm, which drops them.
	told  uint64
	heads []ring.Header
	since []trace.Stamp // when that came

	offers               []ring.Header // RTS of the left neighbour, oldest first
	offersHead, offersIn uint64

	// What goes.
	filled  uint64          // slots written since the start
	freed   uint64          // of these, emptied by the peer
	written [maxSlots]uint8 // in which slot, by its number modulo slots
	empty   []uint8         // slots to write into, the next one last
	// headers is what the headers of slots are sent from, as many as slots. On an edge
	// of a mesh each has room for the payload behind it.
	headers *Buffer
	stride  uint64           // bytes of each
	flights [maxSlots]flight // of those that are detached, by their number modulo maxSlots

	stream stream // of the exchange that runs
}

// newLink makes the end of an edge on which slots are sent and received.
func (c *Comm) newLink(e *ring.Edge, slots, sendRoom int) (*link, error) {
	stride := uint64(ring.HeaderSize)
	if e.Side >= ring.FirstMesh {
		stride += detachMost
	}
	headers, err := c.Alloc(uint64(slots) * stride)
	if err != nil {
		return nil, err
	}
	l := &link{
		edge: e, sendRoom: sendRoom, slots: uint64(slots), headers: headers, stride: stride,
		heads: make([]ring.Header, slots), since: make([]trace.Stamp, slots),
	}
	for slot := slots - 1; slot >= 0; slot-- {
		l.empty = append(l.empty, uint8(slot))
	}
	headers.drain = func() { c.drain(l) }
	return l, nil
}

// String names who is at the other end.
func (l *link) String() string {
	if l.edge.Side >= ring.FirstMesh {
		return fmt.Sprintf("rank %d", l.edge.Peer)
	}
	return fmt.Sprintf("rank %d, the %s neighbour", l.edge.Peer, l.edge.Side)
}

// room tells whether another request may be posted.
func (l *link) room() bool { return l.outstanding < l.sendRoom }

// settled tells whether every credit has come that the right neighbour owes.
func (l *link) settled() bool { return l.freed >= l.filled-l.filled%creditBatch(l.slots) }

// post posts one request whose elements are in l.sges[:n].
func (l *link) post(wr verbs.WorkRequest, n int) error {
	wr.SGL = l.sges[:n]
	wr.Flags = verbs.FlagSignaled
	l.wr[0] = wr
	if _, err := l.edge.QP.PostSend(l.wr[:]); err != nil {
		return fmt.Errorf("post %s to %s: %w", wr.Opcode, l, err)
	}
	l.outstanding++
	return nil
}

// send sends a header as a message of its own.
func (l *link) send(h *ring.Header) error {
	h.Encode(l.message[:])
	if err := l.edge.SendMessage(l.message[:]); err != nil {
		return fmt.Errorf("post a message to %s: %w", l, err)
	}
	l.outstanding++
	recordMessage(&sentMessage, h, l.edge.Peer)
	return nil
}

// free tells whether the peer has a slot to write into.
func (l *link) free() bool { return len(l.empty) > 0 }

// next returns the slot to write into, which must be free, and where its header is.
func (l *link) next() (slot int, head uint64) {
	slot = int(l.empty[len(l.empty)-1])
	return slot, l.headers.addr + uint64(slot)*l.stride
}

// wrote notes that the next slot is written.
func (l *link) wrote() {
	last := len(l.empty) - 1
	l.written[l.filled%l.slots] = l.empty[last]
	l.empty = l.empty[:last]
	l.filled++
}

// fill writes a header and n bytes at addr into the peer's next slot.
func (l *link) fill(h *ring.Header, addr uint64, n int, lkey uint32) error {
	slot, head := l.next()
	h.Encode(memory.Bytes(head, ring.HeaderSize))
	l.sges[0] = verbs.SGE{Addr: head, Length: ring.HeaderSize, LKey: l.headers.reg.LKey(l.edge.Device())}
	l.sges[1] = verbs.SGE{Addr: addr, Length: uint32(n), LKey: lkey}
	remote, rkey := l.edge.RemoteSlot(slot)
	err := l.post(verbs.WorkRequest{
		ID: ring.WRID(l.edge.Side, wrWrite, uint64(h.Segment)), Opcode: verbs.OpWriteImm, Imm: uint32(slot), RemoteAddr: remote, RKey: rkey,
	}, pieces(2, n))
	if err != nil {
		return err
	}
	l.wrote()
	return nil
}

// detachMost is the most payload in bytes that is copied so that its operation need
// not wait for the acknowledgement: a round trip costs more than the copy.
const detachMost = ring.MeshSlotSize

// detach is fill with a copy of the payload, which is the operation's again at once.
// The copy stays until the peer has emptied the slot, so it has come by then.
func (l *link) detach(h *ring.Header, payload []byte, f flight) error {
	slot, head := l.next()
	h.Encode(memory.Bytes(head, ring.HeaderSize))
	copy(memory.Bytes(head+ring.HeaderSize, len(payload)), payload)
	l.sges[0] = verbs.SGE{Addr: head, Length: uint32(ring.HeaderSize + len(payload)), LKey: l.headers.reg.LKey(l.edge.Device())}
	remote, rkey := l.edge.RemoteSlot(slot)
	number := l.filled % maxSlots
	err := l.post(verbs.WorkRequest{
		ID: ring.WRID(l.edge.Side, wrDetached, number), Opcode: verbs.OpWriteImm, Imm: uint32(slot), RemoteAddr: remote, RKey: rkey,
	}, 1)
	if err != nil {
		return err
	}
	l.flights[number] = f
	l.detached++
	l.wrote()
	return nil
}

// attach notes that a detached WRITE is the peer's.
func (l *link) attach(number uint64, now trace.Stamp) {
	l.outstanding--
	l.detached--
	f := &l.flights[number]
	sendSpan.SpanAt(f.begun, now, f.seq, uint64(f.message), uint64(f.bytes), uint64(l.edge.Peer))
}

// offer returns the oldest unanswered RTS, or nil.
func (l *link) offer() *ring.Header {
	if l.offersHead == l.offersIn {
		return nil
	}
	return &l.offers[l.offersHead%maxOffers]
}

func (l *link) addOffer(h ring.Header) error {
	if l.offersIn-l.offersHead == maxOffers {
		return fmt.Errorf("%w: more than %d unanswered RTS from %s", ErrProtocol, maxOffers, l)
	}
	l.offers[l.offersIn%maxOffers] = h
	l.offersIn++
	return nil
}

// head returns the header of the oldest slot that was not taken, or nil.
func (l *link) head() *ring.Header {
	if l.taken == l.arrived {
		return nil
	}
	return &l.heads[l.taken%l.slots]
}

// payload returns the n bytes in the oldest slot.
func (l *link) payload(n int) []byte {
	return l.edge.Slot(int(l.lies[l.taken%l.slots]))[ring.SlotHeader:][:n]
}

// take empties the oldest slot.
func (l *link) take() {
	l.inUse &^= 1 << l.lies[l.taken%l.slots]
	l.taken++
}

// arrive notes that the peer wrote a slot, and returns its header.
func (l *link) arrive(slot uint32, now trace.Stamp) (*ring.Header, error) {
	if uint64(slot) >= l.slots || l.inUse>>slot&1 == 1 {
		return nil, fmt.Errorf("%w: %s wrote slot %d: expected one of %d of which those in use are %#b",
			ErrProtocol, l, slot, l.slots, l.inUse)
	}
	at := l.arrived % l.slots
	h := &l.heads[at]
	if !h.Decode(l.edge.Slot(int(slot))) || h.Kind != kindSlot {
		return nil, fmt.Errorf("%w: %s wrote slot %d without a header", ErrProtocol, l, slot)
	}
	l.since[at], l.lies[at] = now, uint8(slot)
	l.inUse |= 1 << slot
	l.arrived++
	return h, nil
}

// release notes that the peer has emptied slots, so many since the start.
func (l *link) release(freed uint64) error {
	if freed < l.freed || freed > l.filled {
		return fmt.Errorf("%w: credits for %d slots from %s: expected %d to %d", ErrProtocol, freed, l, l.freed, l.filled)
	}
	for ; l.freed < freed; l.freed++ {
		l.empty = append(l.empty, l.written[l.freed%l.slots])
	}
	return nil
}

// creditBatch is how many slots are given back at a time.
func creditBatch(slots uint64) uint64 { return max(1, slots/4) }

// pieces leaves out the last of n elements if it is empty.
func pieces(n, length int) int {
	if length == 0 {
		return n - 1
	}
	return n
}
