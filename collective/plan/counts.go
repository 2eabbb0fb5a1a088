package plan

import "ringcli/collective/program"

// LayOut lays out a program of a planned call that goes round the ring: all of the
// operation's, or that of a phase.
func (k *Call) LayOut(c *program.Counts, write func(*program.Program)) {
	c.Program.Write(write, k.Root)
	s := k.schedule(c.Program.Size, len(c.Program.Steps)-1)
	o := program.Options{Element: k.Type.Size(), Ahead: k.Depth}
	switch k.Protocol {
	case Eager:
		o.Slotted = s.Transfers
	case ReceiverInitiated:
		// The results go straight into the receive buffer. Where that is, the headers of
		// slots say: each rank's goes along with the chunk that sets out there, which comes
		// to its left neighbour last.
		o.Slotted = s.Ranks - 1
	case RendezvousWrite:
		o.Ahead *= 2
	}
	c.Begin(s, o)
}
