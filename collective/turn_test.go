package collective

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// Many take the turn at once, some give up: never do two have it, and nobody waits
// for ever.
func TestTurn(t *testing.T) {
	var turn turn
	var inside, taken int // guarded by the turn
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 2000 {
				ctx, cancel := context.WithCancel(t.Context())
				if (i+k)%5 == 0 {
					go cancel()
				}
				if err := turn.take(ctx); err == nil {
					if inside++; inside != 1 {
						t.Errorf("%d have the turn", inside)
					}
					taken++
					inside--
					turn.pass()
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
		t.Fatal("somebody still waits for the turn after 30 s")
	}
	if taken == 0 || turn.had.Load() || len(turn.queue) > 0 {
		t.Errorf("taken %d times; had at the end: %v, queue of %d", taken, turn.had.Load(), len(turn.queue))
	}
}

// Who waits has the turn in the order of arrival.
func TestTurnOrder(t *testing.T) {
	var turn turn
	if err := turn.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	const n = 5
	var waiting []chan struct{}
	for range n {
		waiting = append(waiting, turn.join())
	}
	for i := range waiting {
		turn.pass()
		for k, other := range waiting {
			select {
			case <-other:
				if k > i {
					t.Fatalf("number %d has the turn before number %d", k, i)
				}
			default:
				if k <= i {
					t.Fatalf("number %d does not have the turn", i)
				}
			}
		}
	}
}
