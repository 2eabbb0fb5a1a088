package collective

import (
	"fmt"

	"ringcli/ring"
	"ringcli/trace"
	"ringcli/verbs"
)

// The collective's own kinds of work requests; the value is the position.
const (
	wrWrite = ring.WRUser + iota
	wrRead
	wrCheck // see pass.check
)

// immDirect marks the immediate data of a write into place, whose other bits are
// the position. Without it they are the index of the slot that was written.
const immDirect = 1 << 31

// maxOffers is the room for RTS that were not yet answered: twice the deepest
// pipeline of the operation that runs, and no other, since the left neighbour
// cannot end an operation before its RTS are answered.
const maxOffers = 4 * MaxDepth

// queueRoom is how many send requests may be outstanding on one edge: ring makes
// queues of 256, of which a few are left to ring itself.
const queueRoom = 240

// link is one end of an edge and what is outstanding on it. Links outlive
// operations, since a neighbour may be ahead.
type link struct {
	edge        *ring.Edge
	outstanding int // send requests, of any kind, without completion
	message     [ring.HeaderSize]byte
	wr          [1]verbs.WorkRequest
	sges        [2]verbs.SGE
}

// inbound is the link from the left neighbour.
type inbound struct {
	link
	// Slots are counted from the start of the ring: slot i is i modulo their
	// number. heads has the headers of those that arrived and were not taken.
	slots   uint64
	arrived uint64
	taken   uint64
	heads   []ring.Header
	since   []trace.Stamp // when the slot came that heads has

	offers               [maxOffers]ring.Header // RTS, oldest first
	offersHead, offersIn uint64
}

// outbound is the link to the right neighbour.
type outbound struct {
	link
	slots  uint64
	filled uint64 // slots written since the start
	freed  uint64 // of these, emptied by the neighbour
}

// room tells whether another request may be posted.
func (l *link) room() bool { return l.outstanding < queueRoom }

// settled tells whether every credit has come that the neighbour owes.
func (o *outbound) settled() bool { return o.freed == o.filled-o.filled%creditBatch(o.slots) }

// post posts one request whose elements are in l.sges[:n].
func (l *link) post(wr verbs.WorkRequest, n int) error {
	wr.SGL = l.sges[:n]
	wr.Flags = verbs.FlagSignaled
	l.wr[0] = wr
	if _, err := l.edge.QP.PostSend(l.wr[:]); err != nil {
		return fmt.Errorf("post %s to rank %d, the %s neighbour: %w", wr.Opcode, l.edge.Peer, l.edge.Side, err)
	}
	l.outstanding++
	return nil
}

// send sends a header as a message of its own.
func (l *link) send(h *ring.Header) error {
	h.Encode(l.message[:])
	if err := l.edge.SendMessage(l.message[:]); err != nil {
		return fmt.Errorf("post a message to rank %d, the %s neighbour: %w", l.edge.Peer, l.edge.Side, err)
	}
	l.outstanding++
	recordMessage(&sentMessage, h, l.edge.Peer)
	return nil
}

// offer returns the oldest unanswered RTS, or nil.
func (in *inbound) offer() *ring.Header {
	if in.offersHead == in.offersIn {
		return nil
	}
	return &in.offers[in.offersHead%maxOffers]
}

func (in *inbound) addOffer(h ring.Header) error {
	if in.offersIn-in.offersHead == maxOffers {
		return fmt.Errorf("%w: more than %d unanswered RTS from rank %d, the left neighbour", ErrProtocol, maxOffers, in.edge.Peer)
	}
	in.offers[in.offersIn%maxOffers] = h
	in.offersIn++
	return nil
}

// head returns the header of the oldest slot that was not taken, or nil.
func (in *inbound) head() *ring.Header {
	if in.taken == in.arrived {
		return nil
	}
	return &in.heads[in.taken%in.slots]
}

// payload returns the n bytes in the oldest slot.
func (in *inbound) payload(n int) []byte {
	return in.edge.Slot(int(in.taken % in.slots))[ring.SlotHeader:][:n]
}

// fill notes that the left neighbour wrote a slot, and returns its header.
func (in *inbound) fill(slot uint32, now trace.Stamp) (*ring.Header, error) {
	if want := uint32(in.arrived % in.slots); slot != want || in.arrived-in.taken == in.slots {
		return nil, fmt.Errorf("%w: rank %d, the left neighbour, wrote slot %d: expected slot %d, with %d of %d in use",
			ErrProtocol, in.edge.Peer, slot, want, in.arrived-in.taken, in.slots)
	}
	h := &in.heads[slot]
	if !h.Decode(in.edge.Slot(int(slot))) || h.Kind != kindSlot {
		return nil, fmt.Errorf("%w: rank %d, the left neighbour, wrote slot %d without a header", ErrProtocol, in.edge.Peer, slot)
	}
	in.since[slot] = now
	in.arrived++
	return h, nil
}
