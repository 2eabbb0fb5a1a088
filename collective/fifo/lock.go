// Package fifo has the lock of whoever runs an operation.
package fifo

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// Lock is held by one at a time, first come, first served. Where nobody
// waits, lock and unlock are one atomic change each, which is all that a short operation
// has time for.
type Lock struct {
	users atomic.Int32 // who holds it, and all who wait

	mu      sync.Mutex      // guards what follows
	waiting []chan struct{} // of those who wait, in their order; each has room for the lock
	handed  bool            // the lock is on its way to one who has not come to wait yet
	unused  []chan struct{} // of those who have waited
}

// Lock waits for the lock until ctx ends.
func (l *Lock) Lock(ctx context.Context) error {
	if l.users.Add(1) == 1 {
		return nil
	}
	turn := l.queue()
	return turn.Wait(ctx)
}

// Turn is a place in the line of those who wait. It is waited for once.
type Turn struct {
	lock  *Lock
	ready chan struct{} // nil if the lock was free
}

// Reserve takes a place in the line, and does not wait: whoever asks later comes later.
// The lock is never handed on before Wait, and Unlock if Wait got it.
func (l *Lock) Reserve() Turn {
	if l.users.Add(1) == 1 {
		return Turn{lock: l}
	}
	return l.queue()
}

// Wait waits for the lock until ctx ends.
func (t *Turn) Wait(ctx context.Context) error {
	if t.ready == nil {
		return nil
	}
	select {
	case <-t.ready:
		t.lock.recycle(t.ready)
		return nil
	case <-ctx.Done():
	}
	if !t.lock.leave(t.ready) {
		<-t.ready // nobody else, or the lock is on its way here
		t.lock.recycle(t.ready)
		t.lock.Unlock()
	}
	return context.Cause(ctx)
}

// Unlock hands the lock on, without letting go of it if somebody waits.
func (l *Lock) Unlock() {
	if l.users.Add(-1) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.handed = true
		return
	}
	first := l.waiting[0]
	l.waiting = slices.Delete(l.waiting, 0, 1)
	first <- struct{}{}
}

// queue is the place of one who has counted itself among the users, and was not the first.
func (l *Lock) queue() Turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ready chan struct{}
	if last := len(l.unused) - 1; last >= 0 {
		ready, l.unused = l.unused[last], l.unused[:last]
	} else {
		ready = make(chan struct{}, 1)
	}
	if l.handed {
		l.handed = false
		ready <- struct{}{}
	} else {
		l.waiting = append(l.waiting, ready)
	}
	return Turn{l, ready}
}

// leave gives a place up, unless the lock is on its way there: then it comes.
func (l *Lock) leave(ready chan struct{}) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, ready)
	for i >= 0 {
		users := l.users.Load()
		if users == 1 { // whoever had the lock is about to hand it here
			return false
		}
		if l.users.CompareAndSwap(users, users-1) {
			l.waiting = slices.Delete(l.waiting, i, i+1)
			l.unused = append(l.unused, ready)
			return true
		}
	}
	return false
}

func (l *Lock) recycle(ready chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unused = append(l.unused, ready)
}
