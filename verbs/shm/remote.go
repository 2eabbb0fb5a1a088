package shm

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/objects"
	"ringcli/verbs/shm/memfd"
)

// remote is another Context, perhaps of this process, or this very one.
type remote struct {
	ctx     *Context
	key     memfd.Key
	process *memfd.Peer
	dir     *directory
	users   int // guarded by Context.mu
}

// attach returns the Context that has a key, which counts one more user.
func (c *Context) attach(ctx context.Context, key memfd.Key) (*remote, error) {
	c.mu.Lock()
	if n := c.remotes[key]; n != nil && !n.process.Gone() {
		n.users++
		c.mu.Unlock()
		return n, nil
	}
	c.mu.Unlock()
	peer, err := c.hub.Dial(ctx, key)
	if err != nil {
		return nil, err
	}
	addr, length, err := peer.Map(ctx, directoryID(key), true)
	if err == nil && length != directorySize {
		err = fmt.Errorf("the directory of %s has %d bytes, want %d: run the same version", key, length, directorySize)
	}
	if err != nil {
		return nil, errors.Join(err, peer.Close())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.remotes[key]; other != nil && !other.process.Gone() {
		other.users++ // somebody else has attached it meanwhile
		return other, peer.Close()
	}
	n := &remote{ctx: c, key: key, process: peer, dir: directoryOf(addr), users: 1}
	c.remotes[key] = n
	return n, nil
}

// retain counts one more user, beside one that is there.
func (n *remote) retain() {
	n.ctx.mu.Lock()
	defer n.ctx.mu.Unlock()
	n.users++
}

// release uncounts a user. The last one closes.
func (n *remote) release() {
	n.ctx.mu.Lock()
	n.users--
	end := n.users == 0
	if end && n.ctx.remotes[n.key] == n {
		delete(n.ctx.remotes, n.key)
	}
	n.ctx.mu.Unlock()
	if end {
		_ = n.process.Close()
	}
}

// mapping bounds how long a Context's process may take to hand over an arena.
const mapping = 5 * time.Second

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
	defer p.remote.release()
	row := &p.dir.regions[objects.Row(rkey)]
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
