package collective

import (
	"fmt"

	"ringcli/collective/reduce"
	"ringcli/ring"
)

// Kinds of messages, and of the headers in slots.
const (
	kindSlot   = ring.KindUser + iota // before the payload in a slot
	kindRTS                           // from the left: a segment is ready, or will be
	kindCTS                           // from the right: write it there
	kindFIN                           // from the right: it has been read
	kindCredit                        // from the right: slots are free again
)

var messageNames = [kindCredit + 1]string{
	kindSlot: "eager segment", kindRTS: "RTS", kindCTS: "CTS", kindFIN: "FIN", kindCredit: "credit",
}

func init() {
	for kind := kindSlot; kind <= kindCredit; kind++ {
		ring.NameKind(kind, messageNames[kind])
	}
}

// call is what the ranks must agree on.
type call struct {
	op        Operation
	typ       reduce.Type
	red       reduce.Op
	algorithm Algorithm // never AlgorithmAuto
	protocol  Protocol  // never Auto
	depth     uint8     // segments in flight
	sync      bool      // a barrier between the phases of all-reduce
	segment   uint32    // bytes
	count     uint64    // elements of the whole vector
}

// digest packs a call, but for the count, into the field that ring.Header has
// for a digest; the count goes into its Arg. It is no hash: equal digests are
// equal calls, and whoever gets another one can say what its sender runs.
//
//	bits 0-3 op   4-7 type   8-11 reduction   12-15 protocol   16-20 depth   24 sync   25-28 algorithm   32-63 segment
func (c *call) digest() uint64 {
	d := uint64(c.op) | uint64(c.typ)<<4 | uint64(c.red)<<8 | uint64(c.protocol)<<12 | uint64(c.depth)<<16 |
		uint64(c.algorithm)<<25 | uint64(c.segment)<<32
	if c.sync {
		d |= 1 << 24
	}
	return d
}

// callOf is the inverse of digest.
func callOf(digest, count uint64) call {
	return call{
		op: Operation(digest & 15), typ: reduce.Type(digest >> 4 & 15), red: reduce.Op(digest >> 8 & 15),
		protocol: Protocol(digest >> 12 & 15), depth: uint8(digest >> 16 & 31), sync: digest>>24&1 == 1,
		algorithm: Algorithm(digest >> 25 & 15), segment: uint32(digest >> 32), count: count,
	}
}

// String puts a call in words, for errors and traces.
func (c call) String() string {
	if c.op == OpBarrier {
		return "barrier"
	}
	text := fmt.Sprintf("%s of %d %s", c.op, c.count, c.typ)
	if c.op.reduces() {
		text += ", " + c.red.String()
	}
	if c.algorithm != AlgorithmRing {
		text += ", " + c.algorithm.String()
	}
	text += ", " + c.protocol.String()
	if c.protocol != Direct {
		text += fmt.Sprintf(" in segments of %d bytes, depth %d", c.segment, c.depth)
	}
	if c.sync {
		text += ", synchronized"
	}
	return text
}
