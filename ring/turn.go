package ring

import (
	"context"
	"fmt"
	"sync"
)

// Who may have the turn, besides a step, which has it under its own name.
const (
	operating = "an operation"
	pinging   = "a ping of one neighbour"
)

// turn says who may poll the completion queue: one step, or one operation
// between Begin and End, or any number of pings of one neighbour, own and
// neighbours', of which one at a time polls for all. Who does not have the turn
// takes no completion, so that nobody loses one to another.
type turn struct {
	mu     sync.Mutex
	holder string        // guarded by mu, as all below; "" while it is free
	count  int           // how many have it
	freed  chan struct{} // closed when it is free; nil while nobody waits
	given  uint64        // how often it was handed back
}

// busyError says who has the turn.
type busyError struct {
	holder string
	cause  error
}

func (e *busyError) Error() string {
	return fmt.Sprintf("%s runs here: try again when it has ended: %v", e.holder, e.cause)
}
func (e *busyError) Unwrap() error { return e.cause }

// try takes the turn if it is to be had. Pings share it.
func (t *turn) try(holder string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tryLocked(holder)
}

func (t *turn) tryLocked(holder string) bool {
	if t.holder != "" && (t.holder != holder || holder != pinging) {
		return false
	}
	t.holder = holder
	t.count++
	return true
}

// take waits for the turn.
func (t *turn) take(ctx context.Context, holder string) error {
	for {
		t.mu.Lock()
		if t.tryLocked(holder) {
			t.mu.Unlock()
			return nil
		}
		if t.freed == nil {
			t.freed = make(chan struct{})
		}
		busy, freed := t.holder, t.freed
		t.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return &busyError{busy, context.Cause(ctx)}
		}
	}
}

// give hands the turn back. It does nothing if the holder does not have it.
func (t *turn) give(holder string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holder != holder {
		return
	}
	if t.count--; t.count > 0 {
		return
	}
	t.holder = ""
	t.given++
	if t.freed != nil {
		close(t.freed)
		t.freed = nil
	}
}

// turns is how often it was handed back.
func (t *turn) turns() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.given
}
