// Package polling gives out the right to poll a ring's completion queues.
package polling

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"ringcli/configs/codes"
)

// Holder says who has the token.
type Holder struct {
	Kind Kind
	Step string // the name of a step; else ""
}

// Kind is what a holder has it for.
type Kind uint8

// The kinds.
const (
	Nobody    Kind = iota
	Operating      // an operation over the queue pairs
	Pinging        // pings of one neighbour, which share the token; a ping of all ranks is a step
	Looking        // at what has completed
	Stepping
)

func (h Holder) String() string {
	return [...]string{Nobody: "", Operating: "an operation", Pinging: "a ping of one neighbour", Looking: "a look at the queue pairs", Stepping: h.Step}[h.Kind]
}

// Tokens gives the polling token out: to one step, or to one operation, or to any number
// of pings of one neighbour, own and neighbours', of which one at a time polls for all.
type Tokens struct {
	// word is its holder, in the lower two bits; above, how often an operation has given
	// it back; above wordOthers, how often others have. So no two tokens are alike.
	// Operations take it and give it back by changing the word alone, which is all that a
	// short one has time for.
	word atomic.Uint64
	// waiting: somebody is to be woken when it is given back.
	waiting atomic.Bool

	mu     sync.Mutex
	holder Holder        // guarded by mu, as all below; Nobody unless word is held
	count  int           // how many have it
	freed  chan struct{} // closed when it is free; nil while nobody waits
}

// The lower bits of a word.
const (
	wordFree = iota
	wordOperating
	wordHeld // by holder
	wordBits = 3

	wordOthers = 1 << 40
)

// busyError says who has the token.
type busyError struct {
	holder Holder
	cause  error
}

func (e *busyError) Error() string {
	return fmt.Sprintf("%s runs here: try again when it has ended: %v", e.holder, e.cause)
}
func (e *busyError) FailureCode() codes.Code { return codes.Busy }
func (e *busyError) Unwrap() error           { return e.cause }

// Operate takes the token for an operation if it is free.
func (t *Tokens) Operate() (word uint64, ok bool) {
	word = t.word.Load()
	return word | wordOperating, word&wordBits == wordFree && t.word.CompareAndSwap(word, word|wordOperating)
}

// try takes the token if it is to be had. It needs mu.
func (t *Tokens) try(h Holder) (word uint64, ok bool) {
	if h.Kind == Operating {
		return t.Operate()
	}
	for {
		word := t.word.Load()
		switch word & wordBits {
		case wordOperating:
			return 0, false
		case wordHeld:
			if t.holder.Kind != Pinging || h.Kind != Pinging {
				return 0, false
			}
			t.count++
			return word, true
		}
		if t.word.CompareAndSwap(word, word|wordHeld) {
			t.holder, t.count = h, 1
			return word | wordHeld, true
		}
	}
}

// Take waits for the token.
func (t *Tokens) Take(ctx context.Context, h Holder) (word uint64, err error) {
	for {
		t.mu.Lock()
		if t.freed == nil {
			t.freed = make(chan struct{})
		}
		freed := t.freed
		t.waiting.Store(true) // before the last look, or its giver may not see it
		if word, ok := t.try(h); ok {
			t.mu.Unlock()
			return word, nil
		}
		busy := t.whoLocked()
		t.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return 0, &busyError{busy, context.Cause(ctx)}
		}
	}
}

// Give takes the token back that was taken with a word, unless it is back.
func (t *Tokens) Give(word uint64) {
	if word&wordBits == wordOperating {
		if t.word.CompareAndSwap(word, word-wordOperating+wordBits+1) && t.waiting.Load() {
			t.mu.Lock()
			t.wake()
			t.mu.Unlock()
		}
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.word.Load() != word {
		return
	}
	if t.count--; t.count > 0 {
		return
	}
	t.holder = Holder{}
	t.word.Add(wordOthers - wordHeld) // nobody else changes it meanwhile
	t.wake()
}

// wake wakes all who wait. It needs mu.
func (t *Tokens) wake() {
	t.waiting.Store(false)
	if t.freed != nil {
		close(t.freed)
		t.freed = nil
	}
}

// Operations is how often an operation has given the token back.
func (t *Tokens) Operations() uint64 { return t.word.Load() % wordOthers / (wordBits + 1) }

// Who has the token.
func (t *Tokens) Who() Holder {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.whoLocked()
}

func (t *Tokens) whoLocked() Holder {
	if t.word.Load()&wordBits == wordOperating {
		return Holder{Kind: Operating}
	}
	return t.holder
}
