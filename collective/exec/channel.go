package exec

import (
	"fmt"

	"ringcli/collective/buffer"
	"ringcli/collective/lateness"
	"ringcli/collective/plan"
	"ringcli/collective/sharedmem"
	"ringcli/ring"
	"ringcli/ring/message"
	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// Kinds of work requests; the value is the position.
const (
	wrWrite = ring.WRUser + iota
	wrRead
	wrCheck    // see flow.check
	wrDetached // a WRITE that its operation did not wait for, see channel.detach
)

// immDirect marks the immediate data of a write into place, whose other bits are
// the position. Without it they are the index of the slot that was written.
const immDirect = 1 << 31

// maxRTS is the room for RTS that were not yet answered: twice the deepest
// pipeline of the operation that runs, and no other, since the left neighbour
// cannot end an operation before its RTS are answered.
const maxRTS = 4 * plan.MaxDepth

// channel is one end of a queue pair of an edge and what is under way on it, in both directions: an
// edge of the ring carries data in one of them, an edge of a mesh in both. Channels
// outlive operations, since a peer may be ahead. They belong to whoever holds
// the lock of the operations.
type channel struct {
	edge     *ring.Edge
	turns    []*channel // of the first of an edge: all, that among them
	sendRoom int        // send requests that may be outstanding
	detached int        // of those that are, the WRITEs that no operation waits for
	message  [message.HeaderSize]byte
	wr       [1]verbs.WorkRequest
	sges     [2]verbs.SGE

	// slots is their number, the same at both ends. What passes through them is counted
	// from the start, and the writer says into which: into that which was emptied last,
	// which is still in the cache.
	slots uint64

	// What comes. heads has the headers of what arrived and was not taken, by its number
	// modulo slots.
	arrived uint64
	taken   uint64
	lies    [plan.MaxSlots]uint8 // in which slot, likewise
	inUse   uint64               // a bit for each slot that was not taken
	// told is, of an edge of a mesh, how many of those taken the peer knows of, from
	// the header of a slot or from a credit. Nobody waits for the last credits: they
	// may come when the next operation runs, or the next Comm, which drops them.
	told  uint64
	heads []message.Header
	since []trace.Stamp // when that came

	rts               []message.Header // RTS of the left neighbour, oldest first
	rtsTaken, rtsCame uint64

	// What goes.
	filled  uint64               // slots written since the start
	freed   uint64               // of these, emptied by the peer
	written [plan.MaxSlots]uint8 // in which slot, by its number modulo slots
	emptied uint64               // by the results of the pass that runs
	empty   []uint8              // slots to write into, the next one last
	// headers is what the headers of slots are sent from, as many as slots. On an edge
	// of a mesh each has room for the payload behind it.
	headers *buffer.Buffer
	stride  uint64                // bytes of each
	flights [plan.MaxSlots]flight // of those that are detached, by their number modulo plan.MaxSlots
	out, in lateness.Flight       // what went to the peer, and what was READ from it

	stream stream // of the script that runs
}

// newChannel makes the end of an edge on which slots are sent and received.
func (x *Executor) newChannel(e *ring.Edge, slots, sendRoom int) (*channel, error) {
	stride := uint64(message.HeaderSize)
	if e.Side == ring.Mesh {
		stride += detachMost
	}
	headers, err := x.buffers.Alloc(uint64(slots) * stride)
	if err != nil {
		return nil, err
	}
	ch := &channel{
		edge: e, sendRoom: sendRoom, slots: uint64(slots), headers: headers, stride: stride,
		heads: make([]message.Header, slots), since: make([]trace.Stamp, slots),
	}
	for slot := slots - 1; slot >= 0; slot-- {
		ch.empty = append(ch.empty, uint8(slot))
	}
	headers.Drain = func() { x.drain(ch) }
	return ch, nil
}

// ends are the channels of an edge, which positions take by turns.
type ends []*channel

// at is the channel of a position.
func (s ends) at(position int) *channel {
	if len(s) == 1 {
		return s[0] // a division costs a short operation something
	}
	return s[position%len(s)]
}

// peer is the rank at the other end.
func (s ends) peer() int { return s[0].edge.Peer }

// idle tells whether no request is under way.
func (s ends) idle() bool {
	for _, ch := range s {
		if ch.edge.Outstanding > 0 {
			return false
		}
	}
	return true
}

// credited tells whether every credit has come that the right neighbour owes.
func (s ends) credited() bool {
	for _, ch := range s {
		if !ch.credited() {
			return false
		}
	}
	return true
}

// passed is how many slots were written from the start, and how many of them the peer has
// emptied.
func (s ends) passed() (filled, freed int) {
	for _, ch := range s {
		filled, freed = filled+int(ch.filled), freed+int(ch.freed)
	}
	return filled, freed
}

// credits is how many slots the peer knows to be emptied here.
func (s ends) credits() (n int) {
	for _, ch := range s {
		n += int(ch.taken - ch.taken%plan.CreditBatch(ch.slots))
	}
	return n
}

// next is the first position from one on that is in no slot here.
func (s ends) next(position int) int {
	first := -1
	for i := range s {
		ch := s.at(position + i)
		if p := position + i + int(ch.arrived-ch.taken)*len(s); first < 0 || p < first {
			first = p
		}
	}
	return first
}

// number is the channel's among those of its edge.
func (ch *channel) number() int { return ch.edge.ID.Channel() }

// String names who is at the other end.
func (ch *channel) String() string {
	if ch.edge.Side == ring.Mesh {
		return fmt.Sprintf("rank %d", ch.edge.Peer)
	}
	return fmt.Sprintf("rank %d, the %s neighbour", ch.edge.Peer, ch.edge.ID.Name())
}

// room tells whether another request may be posted.
func (ch *channel) room() bool { return ch.edge.Outstanding < ch.sendRoom }

func (ch *channel) credited() bool { return ch.freed >= ch.filled-ch.filled%plan.CreditBatch(ch.slots) }

// post posts one request whose elements are in ch.sges[:n].
func (ch *channel) post(wr verbs.WorkRequest, n int) error {
	wr.SGL = ch.sges[:n]
	wr.Flags = verbs.FlagSignaled
	ch.wr[0] = wr
	if _, err := ch.edge.QP.PostSend(ch.wr[:]); err != nil {
		return fmt.Errorf("post %s to %s: %w", wr.Opcode, ch, err)
	}
	ch.edge.Outstanding++
	return nil
}

// send sends a header as a message of its own.
func (ch *channel) send(h *message.Header) error {
	h.Encode(ch.message[:])
	if err := ch.edge.SendMessage(ch.message[:]); err != nil {
		return fmt.Errorf("post a message to %s: %w", ch, err)
	}
	ch.edge.Outstanding++
	recordMessage(&sentMessage, h, ch.edge.Peer)
	return nil
}

// free tells whether the peer has a slot to write into.
func (ch *channel) free() bool { return len(ch.empty) > 0 }

// write writes a header into the peer's next slot, which must be free, with a copy of the
// payload and what of ch.sges[:n] lies behind the first.
func (ch *channel) write(h *message.Header, payload []byte, n int, kind ring.WRKind, value uint64) error {
	slot := ch.empty[len(ch.empty)-1]
	head := ch.headers.Addr() + uint64(slot)*ch.stride
	h.Encode(memory.Bytes(head, message.HeaderSize))
	copy(memory.Bytes(head+message.HeaderSize, len(payload)), payload)
	ch.sges[0] = verbs.SGE{Addr: head, Length: uint32(message.HeaderSize + len(payload)), LKey: ch.headers.LKey(ch.edge.Device())}
	remote, rkey := ch.edge.RemoteSlot(int(slot))
	err := ch.post(verbs.WorkRequest{
		ID: ring.WRID(ch.edge.ID, kind, value), Opcode: verbs.OpWriteImm, Imm: uint32(slot), RemoteAddr: remote, RKey: rkey,
	}, n)
	if err != nil {
		return err
	}
	ch.wrote()
	return nil
}

// wrote notes that the next slot is written.
func (ch *channel) wrote() {
	last := len(ch.empty) - 1
	ch.written[ch.filled%ch.slots] = ch.empty[last]
	ch.empty = ch.empty[:last]
	ch.filled++
}

// fill writes a header and n bytes at addr into the peer's next slot.
func (ch *channel) fill(h *message.Header, addr uint64, n int, lkey uint32) error {
	ch.sges[1] = verbs.SGE{Addr: addr, Length: uint32(n), LKey: lkey}
	return ch.write(h, nil, pieces(2, n), wrWrite, uint64(h.Segment))
}

// detachMost is the most payload in bytes that is copied so that its operation need
// not wait for the acknowledgement: a round trip costs more than the copy.
const detachMost = ring.MeshSlotSize

// detach is fill with a copy of the payload, which is the operation's again at once.
// The copy stays until the peer has emptied the slot, so it has come by then.
func (ch *channel) detach(h *message.Header, payload []byte, f flight) error {
	number := ch.filled % plan.MaxSlots
	if err := ch.write(h, payload, 1, wrDetached, number); err != nil {
		return err
	}
	ch.flights[number] = f
	ch.detached++
	return nil
}

// attach notes that a detached WRITE is the peer's.
func (ch *channel) attach(number uint64, now trace.Stamp) {
	ch.edge.Outstanding--
	ch.detached--
	f := &ch.flights[number]
	sendSpan.SpanAt(f.begun, now, f.seq, uint64(f.message), uint64(f.bytes), uint64(ch.edge.Peer))
	ch.out.Add(f.begun, now)
}

// oldestRTS returns the oldest unanswered RTS, or nil.
func (ch *channel) oldestRTS() *message.Header {
	if ch.rtsTaken == ch.rtsCame {
		return nil
	}
	return &ch.rts[ch.rtsTaken%maxRTS]
}

func (ch *channel) addRTS(h message.Header) error {
	if ch.rtsCame-ch.rtsTaken == maxRTS {
		return fmt.Errorf("%w: more than %d unanswered RTS from %s", sharedmem.ErrProtocol, maxRTS, ch)
	}
	ch.rts[ch.rtsCame%maxRTS] = h
	ch.rtsCame++
	return nil
}

// head returns the header of the oldest slot that was not taken, or nil.
func (ch *channel) head() *message.Header {
	if ch.taken == ch.arrived {
		return nil
	}
	return &ch.heads[ch.taken%ch.slots]
}

// payload returns the n bytes in the oldest slot.
func (ch *channel) payload(n int) []byte {
	return ch.edge.Slot(int(ch.lies[ch.taken%ch.slots]))[ring.SlotHeader:][:n]
}

// take empties the oldest slot.
func (ch *channel) take() {
	ch.inUse &^= 1 << ch.lies[ch.taken%ch.slots]
	ch.taken++
}

// arrive notes that the peer wrote a slot, and returns its header.
func (ch *channel) arrive(slot uint32, now trace.Stamp) (*message.Header, error) {
	if uint64(slot) >= ch.slots || ch.inUse>>slot&1 == 1 {
		return nil, fmt.Errorf("%w: %s wrote slot %d: expected one of %d of which those in use are %#b",
			sharedmem.ErrProtocol, ch, slot, ch.slots, ch.inUse)
	}
	at := ch.arrived % ch.slots
	h := &ch.heads[at]
	if !h.Decode(ch.edge.Slot(int(slot))) || h.Kind != kindSlot {
		return nil, fmt.Errorf("%w: %s wrote slot %d without a header", sharedmem.ErrProtocol, ch, slot)
	}
	ch.since[at], ch.lies[at] = now, uint8(slot)
	ch.inUse |= 1 << slot
	ch.arrived++
	return h, nil
}

// release notes that the peer has emptied slots, so many since the start.
func (ch *channel) release(freed uint64) error {
	if freed < ch.freed || freed > ch.filled {
		return fmt.Errorf("%w: credits for %d slots from %s: expected %d to %d", sharedmem.ErrProtocol, freed, ch, ch.freed, ch.filled)
	}
	for ; ch.freed < freed; ch.freed++ {
		ch.empty = append(ch.empty, ch.written[ch.freed%ch.slots])
	}
	return nil
}

// pieces leaves out the last of n elements if it is empty.
func pieces(n, length int) int {
	if length == 0 {
		return n - 1
	}
	return n
}
