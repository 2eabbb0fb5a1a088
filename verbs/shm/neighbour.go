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
	"ringcli/verbs/shm/arena"
)

// neighbour is another Context, perhaps of this process, or this very one.
type neighbour struct {
	ctx   *Context
	key   arena.Key
	peer  *arena.Peer
	dir   *directory
	users int             // guarded by Context.mu
	gone  atomic.Bool     // its process has ended, or it was closed
	stay  context.Context // ends with the last user
	quit  context.CancelFunc
	ended chan struct{} // closed when watching has ended

	mu    sync.Mutex
	views atomic.Pointer[[]view] // replaced with mu held, read without
	asked map[uint64]bool        // guarded by mu: views that are under way
	work  sync.WaitGroup         // goroutines that map
}

// view is a mapped arena of a neighbour, to read. One that could not be mapped has
// no bytes.
type view struct {
	id    uint64
	bytes []byte
}

// maxViews is how many views a neighbour's queue pairs remember; the oldest is
// forgotten, and found again by asking.
const maxViews = 64

// meet returns the neighbour that has a key, which counts one more user.
func (c *Context) meet(ctx context.Context, key arena.Key) (*neighbour, error) {
	c.mu.Lock()
	if n := c.neighbours[key]; n != nil && !n.gone.Load() {
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
	n := &neighbour{ctx: c, key: key, peer: peer, dir: directoryOf(addr), users: 1, ended: make(chan struct{}), asked: make(map[uint64]bool)}
	n.stay, n.quit = context.WithCancel(context.Background())
	n.views.Store(new([]view))
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.neighbours[key]; other != nil && !other.gone.Load() {
		other.users++ // somebody else has met it meanwhile
		n.quit()
		return other, peer.Close()
	}
	c.neighbours[key] = n
	go n.watch()
	return n, nil
}

// watch notes the neighbour's end.
func (n *neighbour) watch() {
	defer close(n.ended)
	select {
	case <-n.peer.Gone():
		n.gone.Store(true)
		n.ctx.own.wake()
	case <-n.stay.Done():
	}
}

// hold counts one more user, beside one who is there.
func (n *neighbour) hold() {
	n.ctx.mu.Lock()
	defer n.ctx.mu.Unlock()
	n.users++
}

// leave uncounts a user. The last one closes.
func (n *neighbour) leave() {
	n.ctx.mu.Lock()
	n.users--
	end := n.users == 0
	if end && n.ctx.neighbours[n.key] == n {
		delete(n.ctx.neighbours, n.key)
	}
	n.ctx.mu.Unlock()
	if end {
		n.quit()
		n.work.Wait()
		<-n.ended
		_ = n.peer.Close()
	}
}

// mapping bounds how long a neighbour may take to hand over an arena.
const mapping = 5 * time.Second

// view returns an arena of the neighbour; false if it is not mapped yet. Then a
// goroutine asks for it, so that nobody waits within a queue pair's lock.
func (n *neighbour) view(id uint64) (bytes []byte, ok bool) {
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

func (n *neighbour) ask(id uint64) {
	ctx, cancel := context.WithTimeout(n.stay, mapping)
	defer cancel()
	v := view{id: id}
	addr, length, err := n.peer.Map(ctx, id, false)
	if errors.Is(err, arena.ErrGone) {
		return // there never will be one, and timers will notice
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.asked, id)
	switch {
	case ctx.Err() != nil:
		return // a stopped process may go on: whoever needs it asks again
	case err == nil:
		v.bytes = memory.Bytes(addr, length)
	}
	old := *n.views.Load()
	list := append(slices.Clone(old[max(0, len(old)-maxViews+1):]), v)
	n.views.Store(&list)
	n.ctx.own.wake()
}
