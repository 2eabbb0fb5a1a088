package ring

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
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
	// word is who has it, in its lower two bits, and above how often an operation
	// has handed it back. Operations take it and hand it back by changing the word
	// alone, which is all that a short one has time for.
	word atomic.Uint64
	// waiting: somebody is to be woken when it is handed back.
	waiting atomic.Bool

	mu     sync.Mutex
	holder string        // guarded by mu, as all below; "" unless word is held
	count  int           // how many have it
	freed  chan struct{} // closed when it is free; nil while nobody waits
}

// The lower bits of turn's word.
const (
	turnFree = iota
	turnOperating
	turnHeld // by holder
	turnBits = 3
)

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
	if holder == operating {
		word := t.word.Load()
		return word&turnBits == turnFree && t.word.CompareAndSwap(word, word|turnOperating)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tryLocked(holder)
}

func (t *turn) tryLocked(holder string) bool {
	if holder == operating {
		return t.try(holder)
	}
	for {
		word := t.word.Load()
		switch word & turnBits {
		case turnOperating:
			return false
		case turnHeld:
			if t.holder != holder || holder != pinging {
				return false
			}
			t.count++
			return true
		}
		if t.word.CompareAndSwap(word, word|turnHeld) {
			t.holder, t.count = holder, 1
			return true
		}
	}
}

// take waits for the turn.
func (t *turn) take(ctx context.Context, holder string) error {
	for {
		t.mu.Lock()
		if t.freed == nil {
			t.freed = make(chan struct{})
		}
		freed := t.freed
		t.waiting.Store(true) // before the last look, or its giver may not see it
		if t.tryLocked(holder) {
			t.mu.Unlock()
			return nil
		}
		busy := t.whoLocked()
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
	if holder == operating {
		word := t.word.Load()
		if word&turnBits == turnOperating && t.word.CompareAndSwap(word, word-turnOperating+turnBits+1) && t.waiting.Load() {
			t.mu.Lock()
			t.wake()
			t.mu.Unlock()
		}
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holder != holder {
		return
	}
	if t.count--; t.count > 0 {
		return
	}
	t.holder = ""
	t.word.Add(^uint64(turnHeld - 1)) // nobody else changes it meanwhile
	t.wake()
}

// wake wakes all who wait. It needs mu.
func (t *turn) wake() {
	t.waiting.Store(false)
	if t.freed != nil {
		close(t.freed)
		t.freed = nil
	}
}

// turns is how often an operation has handed the turn back.
func (t *turn) turns() uint64 { return t.word.Load() / (turnBits + 1) }

// who returns who has the turn, or "".
func (t *turn) who() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.whoLocked()
}

func (t *turn) whoLocked() string {
	if t.word.Load()&turnBits == turnOperating {
		return operating
	}
	return t.holder
}
