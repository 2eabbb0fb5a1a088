package exec

import (
	"ringcli/collective/lateness"
	"ringcli/verbs"
)

// Stats counts what a Comm has done since it was made. Bytes are of payload,
// without headers. "Copied" means by the CPU, from memory to memory: the
// reduce-scatter phase never copies, since it reduces out of the slot or the
// landing buffer.
type Stats struct {
	Operations uint64 // passes and scripts that were started; --sync takes three
	Sent       uint64 // bytes that left for another rank
	Received   uint64 // bytes that came from another rank

	CopiedAllGather uint64 // bytes copied out of slots, results and what is reduced or sent on later; none under rendezvous
	CopiedOwn       uint64 // bytes: the own chunk of an all-gather out of place or of a scattered result, and rings of one

	Reductions uint64 // segments reduced
	Overlapped uint64 // of these, finished while a WRITE or READ of this rank was in flight

	EagerWrites uint64 // WRITE_WITH_IMM into a slot
	Credits     uint64 // credit messages sent
	Writes      uint64 // WRITE_WITH_IMM into place
	Reads       uint64 // READs into place
	RTS         uint64 // sent
	CTS         uint64 // sent
	FIN         uint64 // sent
}

// Lateness returns what this rank has kept of the operations since it was asked last.
func (x *Executor) Lateness() lateness.Record {
	for _, ch := range x.every {
		x.Times.Edge(&ch.out, x.rank, ch.edge.Peer)
		x.Times.Edge(&ch.in, ch.edge.Peer, x.rank)
	}
	now, _ := x.Losses()
	for peer, l := range now {
		if x.lost != nil {
			l = l.Since(x.lost[peer])
		}
		x.Times.Lost(lateness.LossOf(l, x.rank, peer))
	}
	x.lost = now
	r := x.Times.Take()
	away := x.Ring.Host().NoCarrier()
	r.NoCarrier, x.noCarrier = int64(away-x.noCarrier), away
	return r
}

// Losses returns by peer what this rank's queue pairs have counted since they were created,
// and false if a device counts for all its queue pairs together.
func (x *Executor) Losses() (byPeer []verbs.Losses, counted bool) {
	byPeer, counted = make([]verbs.Losses, x.size), true
	for _, ch := range x.every {
		var l verbs.Losses
		is := false
		if q, counts := ch.edge.QP.(verbs.LossCounter); counts {
			l, is = q.Losses()
		}
		byPeer[ch.edge.Peer] = byPeer[ch.edge.Peer].Plus(l)
		counted = counted && is
	}
	return byPeer, counted
}
