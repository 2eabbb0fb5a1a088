package fifo

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Many take the lock at once, some give up: never do two have it, and nobody waits
// for ever.
func TestLock(t *testing.T) {
	var lock Lock
	var inside, taken int // guarded by the lock
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 2000 {
				ctx, cancel := context.WithCancel(t.Context())
				if (i+k)%5 == 0 {
					go cancel()
				}
				if err := lock.Lock(ctx); err == nil {
					if inside++; inside != 1 {
						t.Errorf("%d hold the lock", inside)
					}
					taken++
					inside--
					lock.Unlock()
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
	if taken == 0 || lock.users.Load() != 0 || len(lock.waiting) > 0 || lock.handed {
		t.Errorf("taken %d times; at the end %d have it or wait, %d wait, one is on its way: %v", taken, lock.users.Load(), len(lock.waiting), lock.handed)
	}
}

// Whoever waits has the lock in the order of arrival.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lock Lock
		if err := lock.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		const n = 5
		got := make(chan int)
		for i := range n {
			go func() {
				if err := lock.Lock(t.Context()); err != nil {
					t.Error(err)
				}
				got <- i
				lock.Unlock()
			}()
			synctest.Wait() // until it waits
		}
		lock.Unlock()
		for want := range n {
			if i := <-got; i != want {
				t.Fatalf("number %d has the lock before number %d", i, want)
			}
		}
	})
}
