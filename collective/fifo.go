package collective

import (
	"context"
	"sync/atomic"
)

// fifoLock is held by whoever runs an operation, first come, first served. Where nobody
// waits, lock and unlock are one atomic change each, which is all that a short operation
// has time for.
type fifoLock struct {
	users atomic.Int32  // who holds it, and all who wait
	next  chan struct{} // the lock, on its way to the first of them: a channel serves in order
}

func newFIFOLock() fifoLock { return fifoLock{next: make(chan struct{}, 1)} }

// lock waits for the lock until ctx ends.
func (t *fifoLock) lock(ctx context.Context) error {
	if t.users.Add(1) == 1 {
		return nil
	}
	select {
	case <-t.next:
		return nil
	case <-ctx.Done():
	}
	for {
		users := t.users.Load()
		if users == 1 { // nobody else, so the lock is on its way here
			<-t.next
			t.unlock()
			return context.Cause(ctx)
		}
		if t.users.CompareAndSwap(users, users-1) {
			return context.Cause(ctx)
		}
	}
}

// unlock hands the lock on, without letting go of it if somebody waits.
func (t *fifoLock) unlock() {
	if t.users.Add(-1) > 0 {
		t.next <- struct{}{}
	}
}
