package shm

import (
	"context"
	"errors"
	"fmt"
	"time"

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
