package shm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ringcli/verbs/memory"
	"ringcli/verbs/shm/memfd"
)

// remote is another Context, perhaps of this process, or this very one.
type remote struct {
	ctx     *Context
	key     memfd.Key
	process *memfd.Peer
	dir     *directory
	users   int             // guarded by Context.mu
	gone    atomic.Bool     // its process has ended, or it was closed
	stay    context.Context // ends with the last user
	quit    context.CancelFunc
	ended   chan struct{} // closed when watching has ended

	mu    sync.Mutex
	views atomic.Pointer[[]view] // replaced with mu held, read without
	asked map[uint64]bool        // guarded by mu: views that are under way
	work  sync.WaitGroup         // goroutines that map
}

// view is a mapped arena of a remote Context, to read. One that could not be mapped has
// no bytes.
type view struct {
	id    uint64
	bytes []byte
}

// maxViews is how many views the queue pairs of a remote Context remember; the oldest is
// forgotten, and found again by asking.
const maxViews = 64

// attach returns the Context that has a key, which counts one more user.
func (c *Context) attach(ctx context.Context, key memfd.Key) (*remote, error) {
	c.mu.Lock()
	if n := c.remotes[key]; n != nil && !n.gone.Load() {
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
	n := &remote{ctx: c, key: key, process: peer, dir: directoryOf(addr), users: 1, ended: make(chan struct{}), asked: make(map[uint64]bool)}
	n.stay, n.quit = context.WithCancel(context.Background())
	n.views.Store(new([]view))
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.remotes[key]; other != nil && !other.gone.Load() {
		other.users++ // somebody else has attached it meanwhile
		n.quit()
		return other, peer.Close()
	}
	c.remotes[key] = n
	go n.watch()
	return n, nil
}

// watch notes the remote Context's end.
func (n *remote) watch() {
	defer close(n.ended)
	select {
	case <-n.process.Gone():
		n.gone.Store(true)
		n.ctx.own.wake()
	case <-n.stay.Done():
	}
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
		n.quit()
		n.work.Wait()
		<-n.ended
		_ = n.process.Close()
	}
}

// mapping bounds how long a Context's process may take to hand over an arena.
const mapping = 5 * time.Second

// view returns an arena of the remote Context; false if it is not mapped yet. Then a
// goroutine asks for it, so that nobody waits within a queue pair's lock.
func (n *remote) view(id uint64) (bytes []byte, ok bool) {
	for _, v := range *n.views.Load() {
		if v.id == id {
			return v.bytes, true
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.asked[id] {
		n.asked[id] = true
		n.work.Go(func() { n.ask(id) })
	}
	return nil, false
}

func (n *remote) ask(id uint64) {
	ctx, cancel := context.WithTimeout(n.stay, mapping)
	defer cancel()
	v := view{id: id}
	addr, length, err := n.process.Map(ctx, id, false)
	if errors.Is(err, memfd.ErrGone) {
		return // there never will be one, and timers will notice
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.asked, id)
	switch {
	case ctx.Err() != nil:
		return // a stopped process may go on: the next request for it asks again
	case err == nil:
		v.bytes = memory.Bytes(addr, length)
	}
	old := *n.views.Load()
	list := append(slices.Clone(old[max(0, len(old)-maxViews+1):]), v)
	n.views.Store(&list)
	n.ctx.own.wake()
}
