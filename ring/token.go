package ring

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"ringcli/configs/codes"
	"ringcli/verbs"
)

// Token is the polling token of a ring: the right to poll its completion queues and to
// use its edges. Whoever does not have it takes no completion, so that nobody loses one
// to another. It is a value: copies are the same token, and a token that was given back
// is worth nothing.
type Token struct {
	r    *Ring
	word uint64 // of the ring's tokens while this one is out
}

// Begin starts an operation over the queue pairs: it waits until the pings that
// neighbours asked this rank to answer are done, at most for Options.Timeout, and has
// the completions that the last operation deferred come first. Every token needs its End
// or Release, on a ring that has failed, too.
func (r *Ring) Begin(ctx context.Context) (Token, error) {
	t, err := r.Hold(ctx)
	if err == nil {
		t.recall()
	}
	return t, err
}

// Hold is Begin for an operation that polls nothing: it keeps others from polling, and
// from taking steps, until Release.
func (r *Ring) Hold(ctx context.Context) (Token, error) {
	if word, ok := r.tokens.operate(); ok { // and nothing is allocated
		return Token{r, word}, nil
	}
	alive, cancel := r.whileAlive(ctx)
	defer cancel()
	t, err := r.takeToken(alive, holder{kind: operating})
	if err == nil {
		return t, nil
	}
	if failure := r.Err(); failure != nil {
		return Token{}, failure
	}
	return Token{}, fmt.Errorf("begin an operation: %w", err)
}

// takeToken waits for the token, at most Options.Timeout.
func (r *Ring) takeToken(ctx context.Context, h holder) (Token, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout())
	defer cancel()
	word, err := r.tokens.take(ctx, h)
	return Token{r, word}, err
}

// Poll polls the devices, and lets the control ring know that something moves: while
// it does, a silent TCP connection is no reason to give up a neighbour.
func (t Token) Poll(wc []verbs.Completion) (int, error) {
	r := t.r
	if len(r.early) > 0 {
		n := copy(wc, r.early)
		r.early = r.early[:copy(r.early, r.early[n:])]
		return n, nil
	}
	n, err := t.poll(wc)
	if n > 0 && wc[n-1].Status == verbs.Success { // that retries have run out is no sign of life
		r.moved.Add(1)
	}
	return n, err
}

// poll polls without a word to the control ring.
func (t Token) poll(wc []verbs.Completion) (int, error) { return t.r.devices.poll(wc) }

// Defer hands back the completion of a receive that belongs to the next operation: the
// left neighbour is done with this one and has begun it already. Nothing is reposted
// before it has been polled again.
func (t Token) Defer(wc verbs.Completion) { t.r.deferred = append(t.r.deferred, wc) }

// recall has the deferred completions come first. They are older than what is left of
// those that came early.
func (t Token) recall() {
	r := t.r
	if len(r.early) > 0 {
		r.deferred = append(r.deferred, r.early...)
	}
	r.early, r.deferred = r.deferred, r.early[:0]
}

// End ends an operation over the queue pairs: the neighbours get the ACKs that they wait
// for now, not when somebody polls again.
func (t Token) End() error {
	_, err := t.poll(nil)
	t.Release()
	return err
}

// Release gives the token back. For the control ring, it is a sign that something moves.
// To release no token, or one that was given back, does nothing.
func (t Token) Release() {
	if t.r != nil {
		t.r.tokens.give(t.word)
	}
}

// holder says who has the token.
type holder struct {
	kind holderKind
	step string // the name of a step; else ""
}

type holderKind uint8

const (
	nobody    holderKind = iota
	operating            // between Begin and End
	pinging              // PingSide, or a neighbour's: they share the token. Ping of all ranks is a step
	looking              // OwnEnd
	stepping
)

func (h holder) String() string {
	return [...]string{nobody: "", operating: "an operation", pinging: "a ping of one neighbour", looking: "a look at the queue pairs", stepping: h.step}[h.kind]
}

// tokens gives the polling token out: to one step, or to one operation, or to any number
// of pings of one neighbour, own and neighbours', of which one at a time polls for all.
type tokens struct {
	// word is its holder, in the lower two bits; above, how often an operation has given
	// it back; above wordOthers, how often others have. So no two tokens are alike.
	// Operations take it and give it back by changing the word alone, which is all that a
	// short one has time for.
	word atomic.Uint64
	// waiting: somebody is to be woken when it is given back.
	waiting atomic.Bool

	mu     sync.Mutex
	holder holder        // guarded by mu, as all below; nobody unless word is held
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
	holder holder
	cause  error
}

func (e *busyError) Error() string {
	return fmt.Sprintf("%s runs here: try again when it has ended: %v", e.holder, e.cause)
}
func (e *busyError) FailureCode() codes.Code { return codes.Busy }
func (e *busyError) Unwrap() error           { return e.cause }

// operate takes the token for an operation if it is free.
func (t *tokens) operate() (word uint64, ok bool) {
	word = t.word.Load()
	return word | wordOperating, word&wordBits == wordFree && t.word.CompareAndSwap(word, word|wordOperating)
}

// try takes the token if it is to be had. It needs mu.
func (t *tokens) try(h holder) (word uint64, ok bool) {
	if h.kind == operating {
		return t.operate()
	}
	for {
		word := t.word.Load()
		switch word & wordBits {
		case wordOperating:
			return 0, false
		case wordHeld:
			if t.holder.kind != pinging || h.kind != pinging {
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

func (t *tokens) take(ctx context.Context, h holder) (word uint64, err error) {
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

// give takes the token back that was taken with a word, unless it is back.
func (t *tokens) give(word uint64) {
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
	t.holder = holder{}
	t.word.Add(wordOthers - wordHeld) // nobody else changes it meanwhile
	t.wake()
}

// wake wakes all who wait. It needs mu.
func (t *tokens) wake() {
	t.waiting.Store(false)
	if t.freed != nil {
		close(t.freed)
		t.freed = nil
	}
}

// operations is how often an operation has given the token back.
func (t *tokens) operations() uint64 { return t.word.Load() % wordOthers / (wordBits + 1) }

func (t *tokens) who() holder {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.whoLocked()
}

func (t *tokens) whoLocked() holder {
	if t.word.Load()&wordBits == wordOperating {
		return holder{kind: operating}
	}
	return t.holder
}
