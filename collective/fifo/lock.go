// Package fifo has the lock of whoever runs an operation.
package fifo

import (
	"context"
	"sync/atomic"
)

// Lock is held by one at a time, first come, first served. Where nobody
// waits, lock and unlock are one atomic change each, which is all that a short operation
// has time for.
type Lock struct {
	users atomic.Int32  // who holds it, and all who wait
	next  chan struct{} // the lock, on its way to the first of them: a channel serves in order
}

// New returns a lock that nobody holds.
func New() Lock { return Lock{next: make(chan struct{}, 1)} }

// Lock waits for the lock until ctx ends.
func (t *Lock) Lock(ctx context.Context) error {
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
			t.Unlock()
			return context.Cause(ctx)
		}
		if t.users.CompareAndSwap(users, users-1) {
			return context.Cause(ctx)
		}
	}
}

// Unlock hands the lock on, without letting go of it if somebody waits.
func (t *Lock) Unlock() {
	if t.users.Add(-1) > 0 {
		t.next <- struct{}{}
	}
}
