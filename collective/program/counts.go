package program

// Counts is how far a rank has come in a program, and what it may do next. Each counter says
// how many positions of a stream have come so far, in order:
//
//	from the left   Granted ≥ Arrived ≥ Processed
//	to the right    Announced ≥ Posted ≥ Sent      (and Cleared, under rendezvous-write)
//
// A position may be posted once what it depends on was processed. Nothing waits
// for the other stream otherwise, which is what makes the pipeline.
//
// It knows no memory, no edges and no time, so that a simulation walks as ranks do.
type Counts struct {
	Program Program
	Schedule
	Options
	// How many positions come and go: all of the schedule, or at the ends of a chain none.
	Incoming, Outgoing int

	Granted   int // rendezvous: CTS sent or READ posted
	Arrived   int // rendezvous: lies in its place
	Processed int // reduced or copied: may be sent on

	Announced int // rendezvous: RTS sent
	Cleared   int // rendezvous-write: CTS received
	Posted    int // WRITE posted; rendezvous-read: RTS sent
	Sent      int // completed; rendezvous-read: FIN received

	// Partial results wait to be sent on in a ring of buffers.
	Partials                                   uint64 // buffers
	PartialsMade, PartialsPosted, PartialsSent uint64
}

// Options are what of the protocol a rank's way depends on.
type Options struct {
	Element int // bytes
	Slotted int // so many transfers, the first ones, go through slots
	Ahead   int // by how many positions RTS go ahead of what was delivered
}

// Begin begins a program that was written, by a schedule.
func (c *Counts) Begin(s Schedule, o Options) {
	*c = Counts{Program: c.Program, Schedule: s, Options: o}
	// One group of partial results may wait for the right neighbour while the
	// next is made.
	c.Partials = 2 * uint64(s.Depth)
	if !c.Program.FromNobody {
		c.Incoming = c.Positions()
	}
	if !c.Program.ToNobody {
		c.Outgoing = c.Positions()
	}
}

// Through tells whether all has come and been posted.
func (c *Counts) Through() bool { return c.Processed == c.Incoming && c.Posted == c.Outgoing }

// InSlot tells whether a transfer goes through slots.
func (c *Counts) InSlot(transfer int) bool { return transfer < c.Slotted }

// Ready tells whether what a position sends is known. At depth 1 even what the
// send buffer has from the start waits for the position before it: a rank whose
// reduction waits for its send, which waits for the right neighbour's reduction,
// could wait for itself all round the ring.
func (c *Counts) Ready(position int) bool {
	switch {
	case position >= c.Outgoing:
		return false
	case c.Program.Chain:
		return c.Incoming == 0 || position < c.Processed
	}
	transfer, _, width := c.At(position)
	return transfer == 0 && c.Depth > 1 || position-width < c.Processed
}

// MayPost tells whether the next position may go to the right.
func (c *Counts) MayPost() bool { return c.Posted-c.Sent < c.Depth && c.Ready(c.Posted) }

// MayAnnounce tells whether the next RTS may go, of a position within a window; with address
// the data has to be there.
func (c *Counts) MayAnnounce(window int, address bool) bool {
	return c.Announced < c.Outgoing && c.Announced-c.Sent < window && (!address || c.Ready(c.Announced))
}

// MayGrant tells whether there is a place for the next position from the left.
func (c *Counts) MayGrant() bool { return c.Granted < c.Incoming && c.Granted-c.Processed < c.Depth }

// MayWork tells whether the step of the next position may be made, once its data is there. At
// depth 1 nothing of this rank is on its way meanwhile, either way.
func (c *Counts) MayWork(st Step, reading bool) bool {
	if st.Do&DoReduce == 0 {
		return true
	}
	busy := c.Depth == 1 && (c.Posted > c.Sent || reading)
	return !busy && (st.Do != RecvReduceSend || c.PartialsMade-c.PartialsSent < c.Partials)
}

// Acknowledged notes that the oldest posted position is the right neighbour's.
func (c *Counts) Acknowledged() {
	transfer, _, _ := c.At(c.Sent)
	if c.Program.Steps[transfer].Do == RecvReduceSend {
		c.PartialsSent++
	}
	c.Sent++
}

// Leaving returns the bytes of a position that goes to the right.
func (c *Counts) Leaving(position int) int { return c.bytesOf(position, 0) }

// Arriving returns the bytes of a position that comes from the left.
func (c *Counts) Arriving(position int) int { return c.bytesOf(position, 1) }

func (c *Counts) bytesOf(position, later int) int {
	transfer, segment, _ := c.At(position)
	lo, hi := c.Span(c.Program.Steps[transfer+later].Chunk, segment)
	return (hi - lo) * c.Element
}
