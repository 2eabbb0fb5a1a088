package collective

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// Many take the lock at once, some give up: never do two have it, and nobody waits
// for ever.
func TestFIFOLock(t *testing.T) {
	var lock fifoLock
	var inside, taken int // guarded by the lock
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 2000 {
				ctx, cancel := context.WithCancel(t.Context())
				if (i+k)%5 == 0 {
					go cancel()
				}
				if err := lock.lock(ctx); err == nil {
					if inside++; inside != 1 {
						t.Errorf("%d hold the lock", inside)
					}
					taken++
					inside--
					lock.unlock()
				} else if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("somebody still waits for the lock after 30 s")
	}
	if taken == 0 || lock.held.Load() || len(lock.queue) > 0 {
		t.Errorf("taken %d times; had at the end: %v, queue of %d", taken, lock.held.Load(), len(lock.queue))
	}
}

// Who waits has the lock in the order of arrival.
func TestFIFOLockOrder(t *testing.T) {
	var lock fifoLock
	if err := lock.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	const n = 5
	var waiting []chan struct{}
	for range n {
		waiting = append(waiting, lock.join())
	}
	for i := range waiting {
		lock.unlock()
		for k, other := range waiting {
			select {
			case <-other:
				if k > i {
					t.Fatalf("number %d has the lock before number %d", k, i)
				}
			default:
				if k <= i {
					t.Fatalf("number %d does not hold the lock", i)
				}
			}
		}
	}
}
