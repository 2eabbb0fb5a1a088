package ring

import (
	"fmt"

	"ringcli/configs/codes"
	"ringcli/ring/bootstrap"
)

// Direction is from one rank to another over the edge between them.
type Direction = bootstrap.Direction

// CorruptionError says that data changed between the memory of the rank that sent them and
// that of the rank that received them. The sender made the first checksum of what it read
// from its memory, the receiver the second of what it was going to use: so it is certain.
type CorruptionError struct {
	Edge     Direction
	Doing    Doing
	From     uint64 // the first byte within the vector
	Bytes    uint64
	Expected uint32 // CRC32C by the sender
	Found    uint32 // by the receiver
}

// FailureCode is that of data that changed between two ranks.
func (e *CorruptionError) FailureCode() codes.Code { return codes.Corrupt }

func (e *CorruptionError) Error() string {
	what := fmt.Sprintf("bytes %d to %d", e.From, e.From+e.Bytes-1)
	if e.Bytes == 0 {
		what = fmt.Sprintf("without bytes, at byte %d", e.From)
	}
	return fmt.Sprintf("operation %d, %s: data changed between rank %d and rank %d (certain): %s, segment %d, %s of the vector: "+
		"expected checksum %08x, which the sender made, found %08x: nothing was computed with them; test the memory, the adapters and the path of these two hosts",
		e.Doing.Operation, e.Doing.Words, e.Edge.From, e.Edge.To, e.Doing.Phase, e.Doing.Segment, what, e.Expected, e.Found)
}
