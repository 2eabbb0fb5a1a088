package collective

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// turn is had by whoever runs an operation, first come, first served. Where nobody
// waits it is taken and passed on with one atomic change each, which is all that a
// short operation has time for.
type turn struct {
	had     atomic.Bool
	waiting atomic.Bool // somebody is, or was, in the queue

	mu    sync.Mutex
	queue []chan struct{} // guarded by mu; each is closed when its owner has the turn
}

// take waits for the turn until ctx ends.
func (t *turn) take(ctx context.Context) error {
	if t.had.CompareAndSwap(false, true) {
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
			t.pass() // it has come meanwhile
		}
		return context.Cause(ctx)
	}
}

// join queues for the turn, or takes it and returns nil.
func (t *turn) join() chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting.Store(true) // before the last look, or who passes it may not see
	if len(t.queue) == 0 && t.had.CompareAndSwap(false, true) {
		return nil
	}
	mine := make(chan struct{})
	t.queue = append(t.queue, mine)
	return mine
}

// quit leaves the queue; false is that the turn has come.
func (t *turn) quit(mine chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.queue, mine)
	if i >= 0 {
		t.queue = slices.Delete(t.queue, i, i+1)
	}
	return i >= 0
}

// pass hands the turn on, without letting go of it if somebody waits.
func (t *turn) pass() {
	if !t.waiting.Load() {
		t.had.Store(false)
		if !t.waiting.Load() || !t.had.CompareAndSwap(false, true) {
			return // nobody came meanwhile, or it is for who has the turn now to see to
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		t.waiting.Store(false)
		t.had.Store(false)
		return
	}
	close(t.queue[0])
	t.queue = slices.Delete(t.queue, 0, 1)
}
