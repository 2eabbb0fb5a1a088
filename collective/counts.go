package collective

import "ringcli/collective/program"

// counts is how far a rank has come in a program, and what it may do next. Both streams have
// total positions, and each counter says how many of them have come so far, in order:
//
//	from the left   granted ≥ arrived ≥ processed
//	to the right    announced ≥ posted ≥ sent      (and cleared, under rendezvous-write)
//
// A position may be posted once what it depends on was processed. Nothing waits
// for the other stream otherwise, which is what makes the pipeline.
//
// It knows no memory, no edges and no time, so that a simulation walks as ranks do.
type counts struct {
	prog program.Program
	program.Schedule
	protocol Protocol
	element  int // bytes
	total    int

	granted   int // rendezvous: CTS sent or READ posted
	arrived   int // rendezvous: lies in its place
	processed int // reduced or copied: may be sent on

	announced int // rendezvous: RTS sent
	cleared   int // rendezvous-write: CTS received
	posted    int // WRITE posted; rendezvous-read: RTS sent
	sent      int // completed; rendezvous-read: FIN received

	// Partial results wait to be sent on in a ring of buffers.
	partials                                   uint64 // buffers
	partialsMade, partialsPosted, partialsSent uint64
}

// layOut lays out the program of a call.
func (c *counts) layOut(k *Call, fill func(*program.Program)) {
	c.prog.Steps = c.prog.Steps[:0]
	fill(&c.prog) // in place: a copy would escape
	c.Schedule, c.protocol, c.element = k.schedule(c.prog.Size, len(c.prog.Steps)-1), k.Protocol, k.Type.Size()
	c.granted, c.arrived, c.processed = 0, 0, 0
	c.announced, c.cleared, c.posted, c.sent = 0, 0, 0, 0
	// One group of partial results may wait for the right neighbour while the
	// next is made.
	c.partials = 2 * uint64(k.Depth)
	c.partialsMade, c.partialsPosted, c.partialsSent = 0, 0, 0
	c.total = c.Positions()
}

// through tells whether all has come and been posted.
func (c *counts) through() bool { return c.processed == c.total && c.posted == c.total }

// slotted tells whether a transfer goes through slots. The results of ReceiverInitiated go
// straight into the receive buffer. Where that is, the headers of slots say: each rank's
// goes along with the chunk that sets out there, which comes to its left neighbour last.
func (c *counts) slotted(transfer int) bool {
	return c.protocol == Eager || c.protocol == ReceiverInitiated && transfer < c.Ranks-1
}

// ready tells whether what a position sends is known. At depth 1 even what the
// send buffer has from the start waits for the position before it: a rank whose
// reduction waits for its send, which waits for the right neighbour's reduction,
// could wait for itself all round the ring.
func (c *counts) ready(position int) bool {
	if position >= c.total {
		return false
	}
	transfer, _, width := c.At(position)
	return transfer == 0 && c.Depth > 1 || position-width < c.processed
}

// mayPost tells whether the next position may go to the right.
func (c *counts) mayPost() bool { return c.posted-c.sent < c.Depth && c.ready(c.posted) }

// ahead is by how many positions RTS go ahead of what was delivered.
func (c *counts) ahead() int {
	if c.protocol == RendezvousWrite {
		return 2 * c.Depth
	}
	return c.Depth
}

// mayAnnounce tells whether the next RTS may go, of a position within a window; with address
// the data has to be there.
func (c *counts) mayAnnounce(window int, address bool) bool {
	return c.announced < c.total && c.announced-c.sent < window && (!address || c.ready(c.announced))
}

// mayGrant tells whether there is a place for the next position from the left.
func (c *counts) mayGrant() bool { return c.granted < c.total && c.granted-c.processed < c.Depth }

// mayWork tells whether the step of the next position may be made, once its data is there. At
// depth 1 nothing of this rank is on its way meanwhile, either way.
func (c *counts) mayWork(st program.Step, reading bool) bool {
	if st.Do&program.DoReduce == 0 {
		return true
	}
	busy := c.Depth == 1 && (c.posted > c.sent || reading)
	return !busy && (st.Do != program.RecvReduceSend || c.partialsMade-c.partialsSent < c.partials)
}

// acknowledged notes that the oldest posted position is the right neighbour's.
func (c *counts) acknowledged() {
	transfer, _, _ := c.At(c.sent)
	if c.prog.Steps[transfer].Do == program.RecvReduceSend {
		c.partialsSent++
	}
	c.sent++
}

// leaving returns the bytes of a position that goes to the right, arriving those of one
// that comes from the left.
func (c *counts) leaving(position int) int  { return c.bytesOf(position, 0) }
func (c *counts) arriving(position int) int { return c.bytesOf(position, 1) }

func (c *counts) bytesOf(position, later int) int {
	transfer, segment, _ := c.At(position)
	lo, hi := c.Span(c.prog.Steps[transfer+later].Chunk, segment)
	return (hi - lo) * c.element
}
