package shm

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

var _ verbs.Mapper = (*Context)(nil)

// Reach implements verbs.Mapper.
func (c *Context) Reach(ctx context.Context, gid verbs.GID) (verbs.Reached, error) {
	if err := c.Live(); err != nil {
		return nil, err
	}
	n, err := c.attach(ctx, memfd.Key(gid))
	if err != nil {
		return nil, err
	}
	return &reached{remote: n}, nil
}

// reached is a remote Context as one user of it has it.
type reached struct {
	*remote
	left sync.Once
}

// Close implements verbs.Reached.
func (r *reached) Close() error {
	r.left.Do(r.release)
	return nil
}

// Map implements verbs.Reached: the directory says where the region lies, and its hub hands
// over the arena.
func (r *reached) Map(rkey uint32, addr, length uint64, access verbs.Access) (local uint64, err error) {
	fail := func(why string) (uint64, error) {
		return 0, fmt.Errorf("%s: map %d bytes at %#x with rkey %#x: %w: %s", verbs.GID(r.key), length, addr, rkey, verbs.ErrInvalid, why)
	}
	if access&verbs.AccessRemoteRead == 0 || access&^(verbs.AccessRemoteRead|verbs.AccessRemoteWrite) != 0 {
		return fail("access " + access.String() + ": expected REMOTE_READ, or with it REMOTE_WRITE")
	}
	row := &r.dir.regions[objects.Row(rkey)]
	if atomic.LoadUint32(&row.key) != rkey || rkey == 0 {
		return fail("no region that lies in memory from AllocMemory has this key")
	}
	at := row.read()
	switch {
	case atomic.LoadUint32(&row.key) != rkey:
		return fail("its region is being closed")
	case verbs.Access(at.access)&access != access:
		return fail("the region gives " + verbs.Access(at.access).String() + ", asked for " + access.String())
	case addr < at.addr || length > at.length || addr-at.addr > at.length-length:
		return fail(fmt.Sprintf("the region has %d bytes at %#x", at.length, at.addr))
	}
	ctx, cancel := context.WithTimeout(context.Background(), mapping)
	defer cancel()
	base, size, err := r.process.Map(ctx, at.arena, access&verbs.AccessRemoteWrite != 0)
	if err != nil {
		return fail(err.Error())
	}
	offset := at.offset + addr - at.addr
	if offset < at.offset || offset > uint64(size) || length > uint64(size)-offset {
		return fail(fmt.Sprintf("it ends beyond its arena of %d bytes", size))
	}
	return base + offset, nil
}
