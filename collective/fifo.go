package collective

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// fifoLock is held by whoever runs an operation, first come, first served. Where nobody
// waits, lock and unlock are one atomic change each, which is all that a short operation
// has time for.
type fifoLock struct {
	held    atomic.Bool
	waiting atomic.Bool // somebody is, or was, in the queue

	mu    sync.Mutex
	queue []chan struct{} // guarded by mu; each is closed when its owner has the lock
}

// lock waits for the lock until ctx ends.
func (t *fifoLock) lock(ctx context.Context) error {
	if t.held.CompareAndSwap(false, true) {
		return nil
	}
	mine := t.join()
	if mine == nil {
		return nil
	}
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
		if !t.quit(mine) {
			t.unlock() // it has come meanwhile
		}
		return context.Cause(ctx)
	}
}

// join queues for the lock, or takes it and returns nil.
func (t *fifoLock) join() chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting.Store(true) // before the last look, or the holder may not see it
	if len(t.queue) == 0 && t.held.CompareAndSwap(false, true) {
		return nil
	}
	mine := make(chan struct{})
	t.queue = append(t.queue, mine)
	return mine
}

// quit leaves the queue; false is that the lock has come.
func (t *fifoLock) quit(mine chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.queue, mine)
	if i >= 0 {
		t.queue = slices.Delete(t.queue, i, i+1)
	}
	return i >= 0
}

// unlock hands the lock on, without letting go of it if somebody waits.
func (t *fifoLock) unlock() {
	if !t.waiting.Load() {
		t.held.Store(false)
		if !t.waiting.Load() || !t.held.CompareAndSwap(false, true) {
			return // nobody came meanwhile, or the present holder sees to it
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		t.waiting.Store(false)
		t.held.Store(false)
		return
	}
	close(t.queue[0])
	t.queue = slices.Delete(t.queue, 0, 1)
}
