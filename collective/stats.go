package collective

import (
	"context"
	"sync/atomic"

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

// Stats returns the counters as of the last operation that ended.
func (c *Comm) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Operations += atomic.LoadUint64(&c.direct)
	return s
}

// Lateness returns what this rank has kept of its operations since it was asked last.
func (c *Comm) Lateness(ctx context.Context) (r lateness.Record, err error) {
	if err := c.lock.Lock(ctx); err != nil {
		return r, err
	}
	defer c.lock.Unlock()
	for _, ch := range c.every {
		c.times.Edge(&ch.out, c.rank, ch.edge.Peer)
		c.times.Edge(&ch.in, ch.edge.Peer, c.rank)
	}
	now, _ := c.losses()
	for peer, l := range now {
		if c.lost != nil {
			l = l.Since(c.lost[peer])
		}
		c.times.Lost(lateness.LossOf(l, c.rank, peer))
	}
	c.lost = now
	r = c.times.Take()
	away := c.ring.NoCarrier()
	r.NoCarrier, c.noCarrier = int64(away-c.noCarrier), away
	return r, nil
}

// Losses returns by peer what this rank's queue pairs have counted since they were created,
// and false if a device counts for all its queue pairs together.
func (c *Comm) Losses() (byPeer []verbs.Losses, counted bool) {
	_ = c.lock.Lock(context.Background()) // operations have their deadlines
	defer c.lock.Unlock()
	return c.losses()
}

// losses needs the lock.
func (c *Comm) losses() (byPeer []verbs.Losses, counted bool) {
	byPeer, counted = make([]verbs.Losses, c.size), true
	for _, ch := range c.every {
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
