package batch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"ringcli/cli/bench/windows"
	"ringcli/cli/session"
	"ringcli/collective"
	"ringcli/collective/reduce"
)

// Talk is how ranks tell each other between the batches of a measurement that lasts, over
// the queue pairs: TCP connections that stall, where the data does not travel, do not hold
// it up.
type Talk struct {
	m      *session.Member
	buffer *collective.Buffer // a part for each rank
	number uint32             // counts what was told, alike on all ranks
}

// A part holds a record several times: what damages one in tests of the data path, or in
// a network that is looked at for that, leaves another.
const (
	talkRecord = 4 + 4 + len(Said{})*8
	talkCopies = 3
	talkPart   = talkRecord * talkCopies
)

// NewTalk fails on all ranks alike.
func NewTalk(ctx context.Context, m *session.Member) (*Talk, error) {
	b, err := m.Comm.Alloc(uint64(m.Comm.Size() * talkPart))
	if err := m.Agree(ctx, err); err != nil {
		if b != nil {
			err = errors.Join(err, b.Free())
		}
		return nil, err
	}
	return &Talk{m: m, buffer: b}, nil
}

func (t *Talk) Close() error { return t.buffer.Free() }

// Said is what a rank says at once.
type Said [4 + windows.Words]uint64

// share gives what every rank says to every rank.
func (t *Talk) Share(ctx context.Context, own Said) ([]Said, error) {
	n, rank, all := t.m.Comm.Size(), t.m.Comm.Rank(), t.buffer.Bytes()
	t.number++
	part := all[rank*talkPart:][:0]
	for range talkCopies {
		part = own.encode(part, t.number)
	}
	at := t.buffer.Addr()
	if err := t.m.Comm.Run(ctx, collective.Call{
		Op: collective.OpAllGather, Type: reduce.Uint8, Count: n * talkPart, Send: at + uint64(rank*talkPart), Recv: at,
		CallOptions: collective.CallOptions{Algorithm: collective.AlgorithmRing, Protocol: collective.Eager},
	}); err != nil {
		return nil, err
	}
	told := make([]Said, n)
	for r := range told {
		right := false
		for c := 0; c < talkCopies && !right; c++ {
			right = told[r].decode(all[r*talkPart+c*talkRecord:][:talkRecord], t.number)
		}
		if !right {
			return nil, fmt.Errorf("what rank %d has told between two batches is damaged, %d times over, or of another batch than %d: run it with --verify-segments, which names the edge", r, talkCopies, t.number)
		}
	}
	return told, nil
}

var talkSum = crc32.MakeTable(crc32.Castagnoli)

func (w Said) encode(to []byte, number uint32) []byte {
	le, begin := binary.LittleEndian, len(to)
	to = le.AppendUint32(to, 0)
	to = le.AppendUint32(to, number)
	for _, v := range w {
		to = le.AppendUint64(to, v)
	}
	le.PutUint32(to[begin:], crc32.Checksum(to[begin+4:], talkSum))
	return to
}

// decode tells whether the record is whole, and has that number.
func (w *Said) decode(from []byte, number uint32) bool {
	le := binary.LittleEndian
	if le.Uint32(from) != crc32.Checksum(from[4:], talkSum) || le.Uint32(from[4:]) != number {
		return false
	}
	for i := range w {
		w[i] = le.Uint64(from[8+8*i:])
	}
	return true
}

// say encodes what the ranks exchange between two batches: whether to stop, the number of iterations,
// the mean time, and the fields about the last batch.
func (b batchTold) say() Said {
	stop := uint64(0)
	if b.Stop {
		stop = 1
	}
	return Said(b.Told.Append([]uint64{stop, uint64(b.Warm), uint64(b.Next), math.Float64bits(b.Mean)}))
}

func (w Said) batch() batchTold {
	return batchTold{w[0] != 0, int(w[1]), int(w[2]), math.Float64frombits(w[3]), windows.OfWords([windows.Words]uint64(w[4:]))}
}
