package ring

import (
	"context"
	"math/bits"
	"sync/atomic"

	"ringcli/ring/polling"
	"ringcli/verbs"
)

// Token is the polling token of a ring: the right to poll its completion queues and to
// use its edges. Whoever does not have it takes no completion, so that nobody loses one
// to another. It is a value: copies are the same token, and a token that was given back
// is worth nothing.
type Token struct {
	p    *poller
	word uint64 // of the ring's tokens while this one is out
}

// poller is who may poll, and what was polled for others.
type poller struct {
	of      *membership
	control *Control
	devices *devices
	tokens  polling.Tokens               // guards itself
	moved   [firstMesh + 1]atomic.Uint64 // polls that found completions of a side, or of the mesh

	deferred, early []verbs.Completion // that came an operation too soon; needs the token
}

// take waits for the token, at most Options.Timeout.
func (p *poller) take(ctx context.Context, h polling.Holder) (Token, error) {
	ctx, cancel := context.WithTimeout(ctx, p.control.limit())
	defer cancel()
	word, err := p.tokens.Take(ctx, h)
	return Token{p, word}, err
}

// Poll polls the devices, and lets the control ring know with whom something
// moves: while it does, a silent TCP connection is no reason to give up that neighbour.
func (t Token) Poll(wc []verbs.Completion) (int, error) {
	p := t.p
	if len(p.early) > 0 {
		n := copy(wc, p.early)
		p.early = p.early[:copy(p.early, p.early[n:])]
		return n, nil
	}
	n, err := t.poll(wc)
	sides := uint(0) // on which something moved, a bit each
	for i := range wc[:n] {
		if wc[i].Status == verbs.Success { // that retries have run out is no sign of life
			id, _, _ := ParseWRID(wc[i].ID)
			sides |= 1 << id.Side()
		}
	}
	for ; sides != 0; sides &= sides - 1 {
		p.moved[bits.TrailingZeros(sides)].Add(1)
	}
	return n, err
}

// movedWith counts what moves between this rank and a neighbour. What moves in the mesh or
// in shared memory counts for both neighbours.
func (p *poller) movedWith(rank int) uint64 {
	moved := p.moved[firstMesh].Load() + p.tokens.Operations()
	for _, side := range [2]Side{Left, Right} {
		if p.of.neighbour(side) == rank {
			moved += p.moved[side].Load()
		}
	}
	return moved
}

// poll polls without a word to the control ring.
func (t Token) poll(wc []verbs.Completion) (int, error) { return t.p.devices.poll(wc) }

// Defer hands back the completion of a receive that belongs to the next operation: the
// left neighbour is done with this one and has begun it already. Nothing is reposted
// before it has been polled again.
func (t Token) Defer(wc verbs.Completion) { t.p.deferred = append(t.p.deferred, wc) }

// recall has the deferred completions come first. They are older than what is left of
// those that came early.
func (t Token) recall() {
	p := t.p
	if len(p.early) > 0 {
		p.deferred = append(p.deferred, p.early...)
	}
	p.early, p.deferred = p.deferred, p.early[:0]
}

// End ends an operation over the queue pairs: the neighbours get the ACKs that they wait
// for now, not when somebody polls again.
func (t Token) End() error {
	err := t.Progress()
	t.Release()
	return err
}

// Progress has the devices send and receive, and leaves the completions for later.
func (t Token) Progress() error {
	_, err := t.poll(nil)
	return err
}

// Release gives the token back. For the control ring, it is a sign that something moves.
// To release no token, or one that was given back, does nothing.
func (t Token) Release() {
	if t.p != nil {
		t.p.tokens.Give(t.word)
	}
}

// peek polls what has completed while nobody polls, for the watches to note, and
// keeps it for the next holder of the token.
func (p *poller) peek() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	t, err := p.take(now, polling.Holder{Kind: polling.Looking})
	if err != nil {
		return
	}
	defer t.Release()
	var wc [64]verbs.Completion
	for {
		n, err := t.poll(wc[:])
		if n == 0 || err != nil {
			return
		}
		p.early = append(p.early, wc[:n]...)
	}
}
