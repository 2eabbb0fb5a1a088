package plan

import (
	"fmt"

	"ringcli/collective/reduce"
	"ringcli/collective/sharedmem"
)

// Call is one call of an operation: as its caller wants it, and, once it is
// planned, as it runs. All but the addresses must be the same on all ranks.
type Call struct {
	Op        Operation
	Type      reduce.Type
	Reduction reduce.Op // of an operation that reduces
	Root      int       // rank, of an operation that has one; else 0
	Count     int       // elements of the whole vector
	// Send and Recv are the addresses of the buffers. What of the vector they hold
	// Call.Buffers says; they are registered with the Comm (Alloc, Register).
	Send, Recv uint64
	CallOptions

	// Unregistered: the buffers are not registered. Only Direct takes such; by other
	// protocols the call is an ErrUnregistered.
	Unregistered bool
}

// Signature packs what the ranks must agree on. It is no hash: equal signatures are
// equal calls, and whoever gets another one can say what its sender runs. The digest,
// for which message.Header has a field, is
//
//	bits 0-3 op   4-7 type   8-11 reduction   12-15 protocol   16-20 depth   21 verify   24 sync   25-28 algorithm   32-63 segment
//
// of a call that is planned.
func (c *Call) Signature() sharedmem.Signature {
	d := uint64(c.Op) | uint64(c.Type)<<4 | uint64(c.Reduction)<<8 | uint64(c.Protocol)<<12 | uint64(c.Depth)<<16 |
		uint64(c.Algorithm)<<25 | uint64(c.Segment)<<32
	if c.Sync {
		d |= 1 << 24
	}
	if c.Verify {
		d |= 1 << 21
	}
	return sharedmem.Signature{Digest: d, Count: uint64(c.Count), Root: uint64(c.Root)}
}

// CallOf is the inverse of Signature.
func CallOf(s sharedmem.Signature) Call {
	d := s.Digest
	return Call{
		Op: Operation(d & 15), Type: reduce.Type(d >> 4 & 15), Reduction: reduce.Op(d >> 8 & 15), Root: int(s.Root), Count: int(s.Count),
		CallOptions: CallOptions{
			Protocol: Protocol(d >> 12 & 15), Depth: int(d >> 16 & 31), Sync: d>>24&1 == 1, Verify: d>>21&1 == 1,
			Algorithm: Algorithm(d >> 25 & 15), Segment: int(d >> 32),
		},
	}
}

// String puts a call that is planned in words, for errors and traces.
func (c Call) String() string {
	text := c.Op.String()
	if c.Op.OnVectors() {
		text += fmt.Sprintf(" of %d %s", c.Count, c.Type)
	}
	if c.Op.Reduces() {
		text += ", " + c.Reduction.String()
	}
	if c.Op.Rooted() {
		text += fmt.Sprintf(", root %d", c.Root)
	}
	if c.Algorithm != AlgorithmRing {
		text += ", " + c.Algorithm.String()
	}
	text += ", " + c.Protocol.String()
	if c.Protocol != Direct && c.Op.OnVectors() {
		text += fmt.Sprintf(" in segments of %d bytes, depth %d", c.Segment, c.Depth)
	}
	if c.Verify {
		text += ", segments verified"
	}
	if c.Sync {
		text += ", synchronized"
	}
	return text
}
