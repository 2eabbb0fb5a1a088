package shm

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"ringcli/verbs"
)

var _ verbs.Mapper = (*qp)(nil)

// Map implements verbs.Mapper: the peer's directory says where the region lies, and
// its hub hands over the arena.
func (q *qp) Map(rkey uint32, addr, length uint64, access verbs.Access) (local uint64, err error) {
	fail := func(why string) (uint64, error) {
		return 0, fmt.Errorf("QP 0x%06x: map %d bytes at %#x with rkey %#x: %w: %s", q.QPN, length, addr, rkey, verbs.ErrInvalid, why)
	}
	if access&verbs.AccessRemoteRead == 0 || access&^(verbs.AccessRemoteRead|verbs.AccessRemoteWrite) != 0 {
		return fail("access " + access.String() + ": expected REMOTE_READ, or with it REMOTE_WRITE")
	}
	ctx, cancel := context.WithTimeout(context.Background(), mapping)
	defer cancel()
	p, err := q.holdPeer(ctx)
	if err != nil {
		return 0, err
	}
	defer p.release()
	row := &p.dir.regions[rkey>>8%rows]
	if atomic.LoadUint32(&row.key) != rkey || rkey == 0 {
		return fail("no region of the peer that lies in memory from AllocMemory has this key")
	}
	r := *row
	switch {
	case atomic.LoadUint32(&row.key) != rkey || r.domain != p.domain:
		return fail("the key is of no region in the protection domain of the peer's queue pair")
	case verbs.Access(r.access)&access != access:
		return fail("the region gives " + verbs.Access(r.access).String() + ", asked for " + access.String())
	case addr < r.addr || length > r.length || addr-r.addr > r.length-length:
		return fail(fmt.Sprintf("the region has %d bytes at %#x", r.length, r.addr))
	}
	base, size, err := p.process.Map(ctx, r.arena, access&verbs.AccessRemoteWrite != 0)
	if err != nil {
		return fail(err.Error())
	}
	at := r.offset + addr - r.addr
	if at < r.offset || at > uint64(size) || length > uint64(size)-at {
		return fail(fmt.Sprintf("it ends beyond its arena of %d bytes", size))
	}
	return base + at, nil
}

// holdPeer returns the peer once it is there, and counts one more user of it.
func (q *qp) holdPeer(ctx context.Context) (*peer, error) {
	for {
		q.mu.Lock()
		state, p := q.state, q.peer
		if p != nil {
			p.retain() // while the queue pair holds it, too
		}
		q.mu.Unlock()
		switch {
		case p != nil:
			return p, nil
		case q.Live() != nil:
			return nil, q.Live()
		case !state.Receives():
			return nil, fmt.Errorf("QP 0x%06x: map in state %s: %w: expected RTR or RTS", q.QPN, state, verbs.ErrState)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("QP 0x%06x: map: %w: awaited its peer %s, QP 0x%06x, for %v", q.QPN, verbs.ErrTimeout,
				q.attr.AH.GRH.DGID, q.attr.DestQPN, mapping)
		case <-time.After(soon):
		}
	}
}
