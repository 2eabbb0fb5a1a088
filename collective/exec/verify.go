package exec

import (
	"fmt"

	"ringcli/collective/sharedmem"
	"ringcli/ring"
	"ringcli/ring/message"
	"ringcli/verbs/memory"
)

// This file is checksums of segments, from the sender's memory to the receiver's: CRC32C,
// which processors have an instruction for. CallOptions.Verify sends them along:
//
//	slots             in the header before the payload
//	rendezvous-read   in the RTS, which goes when the data is there
//	writes into place in a message behind the WRITE, which takes the place of its
//	                  immediate data: a queue pair keeps their order
//
// plan.Direct has no segments: a checksum would be made of the very bytes that it is compared
// with.

// landedSum is the checksum of a segment that lies in its place, as its sender made it.
type landedSum struct {
	position int
	sum      uint32
}

// sums are those of segments that came and were not yet processed. A rank is ahead of its
// right neighbour by one turn of the ring and two groups of segments at most: what it
// sends as a result needs what that rank has given.
type sums []landedSum

func (s sums) put(position int, sum uint32) {
	if len(s) > 0 {
		s[position%len(s)] = landedSum{position, sum}
	}
}

// room makes room for them, with so many segments in flight.
func (s *sums) room(ranks, depth int) {
	if n := (ranks + 2) * depth; len(*s) < n {
		*s = make(sums, n)
	}
	for i := range *s {
		(*s)[i].position = -1
	}
}

// sumOf returns the checksum of a segment that is sent, for its header; 0 where that has
// none.
func (f *flow) sumOf(ch *channel, addr uint64, n int) uint32 {
	if !f.sums {
		return 0
	}
	sum := message.Checksum(memory.Bytes(addr, n))
	if f.journal != nil {
		f.journal.Note(f.x.rank, ch.edge.Peer, sum, 0, 0, false)
	}
	if !f.call.Verify {
		return 0
	}
	return sum
}

// sumArrived holds a segment of elements from lo on that a peer sent against the checksum
// that was made there, and notes it.
func (f *flow) sumArrived(ch *channel, data []byte, sum uint32, segment, lo int, gathers bool) error {
	found := message.Checksum(data)
	if f.journal != nil {
		f.journal.Note(ch.edge.Peer, f.x.rank, found, lo, lo+len(data)/f.size, gathers)
	}
	if !f.call.Verify || found == sum {
		return nil
	}
	return &ring.CorruptionError{
		Edge: ring.Direction{From: ch.edge.Peer, To: f.x.rank}, Doing: f.doing(segment, gathers),
		From: uint64(lo * f.size), Bytes: uint64(len(data)), Expected: sum, Found: found,
	}
}

// doing is where in the operation a segment is.
func (f *flow) doing(segment int, gathers bool) ring.Doing {
	return ring.Doing{Operation: f.seq, Words: f.call.String(), Phase: f.call.Op.Phase(gathers).String(), Segment: segment}
}

// wroteWithSum notes that the left neighbour wrote a segment into its place, and its
// checksum.
func (p *pass) wroteWithSum(ch *channel, position int, sum uint32) error {
	p.landings.put(position, sum)
	return p.wroteInPlace(ch, position)
}

// arrivedNext is sumArrived of the segment that is processed next.
func (p *pass) arrivedNext(data []byte, slotted bool, transfer, lo int) error {
	var sum uint32
	switch {
	case !p.call.Verify:
	case slotted:
		sum = p.left.at(p.Processed).head().Sum
	default:
		at := p.landings[p.Processed%len(p.landings)]
		if at.position != p.Processed {
			return fmt.Errorf("%w: %s wrote segment %d without a checksum", sharedmem.ErrProtocol, p.left.at(p.Processed), p.Processed)
		}
		sum = at.sum
	}
	return p.sumArrived(p.left.at(p.Processed), data, sum, p.Processed, lo, !p.call.Op.Reduces() || transfer >= p.x.size-1)
}
