package hostteam

import (
	"context"
	"fmt"

	"ringcli/collective/buffer"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// Symmetric is a buffer of each rank, as this rank sees them all.
type Symmetric struct{ views [][]byte }

// Alone is the buffer of the one rank of its ring.
func Alone(b *buffer.Buffer) *Symmetric { return &Symmetric{[][]byte{b.Bytes()}} }

// Symmetric tells all ranks of a buffer of each, and maps the peers'. It is collective; why
// is the same on all ranks.
func (s *Team) Symmetric(ctx context.Context, b *buffer.Buffer) (v *Symmetric, why string, err error) {
	me := s.Ring.Rank()
	v = &Symmetric{make([][]byte, len(s.ranks))}
	v.views[me] = b.Bytes()
	problem := b.Mappable()
	infos, why, err := gatherBoards(ctx, s.Ring, "buffers of all ranks", boardInfo{Addr: b.Addr(), RKey: b.RKey(s.device), Length: uint64(b.Len())}, problem)
	if why != "" || err != nil {
		return nil, why, err
	}
	for rank, p := range infos {
		if rank == me || p.Length == 0 || problem != nil {
			continue
		}
		var local uint64
		if local, problem = s.peers[rank].Map(p.RKey, p.Addr, p.Length, verbs.AccessRemoteRead|verbs.AccessRemoteWrite); problem == nil {
			v.views[rank] = memory.Bytes(local, int(p.Length))
		} else {
			problem = fmt.Errorf("the buffer of rank %d cannot be mapped: %w", rank, problem)
		}
	}
	_, why, err = gatherBoards(ctx, s.Ring, "views of all buffers", boardInfo{}, problem)
	return v, why, err
}

// Peer returns a rank's buffer, the own one too, whose length is that rank's. What is written there
// is the rank's own at once; but for atomics, whoever writes does so between two Barriers
// between which nobody else uses those bytes, and no operation.
//
// The slice is valid until this Comm's Close. When its rank frees the buffer, zeros take its
// place, and after some more of that nothing: meet in a Barrier before Free. A rank
// that dies leaves its buffer as it was. Of a file that is made shorter a slice faults.
func (s *Symmetric) Peer(rank int) []byte { return s.views[rank] }
