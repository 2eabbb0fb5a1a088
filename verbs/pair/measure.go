package pair

import (
	"context"
	"time"

	"ringcli/verbs"
)

// Stream sends n messages with a window of them in flight and returns how long it took until the
// last was acknowledged; the passive end returns when the last has come. An empty message tells it
// that all were sent.
func (p *Pair) Stream(ctx context.Context, op verbs.Opcode, bytes uint32, n int) (time.Duration, error) {
	if p.Passive {
		if op == verbs.OpSend {
			return 0, p.receive(ctx, n+1)
		}
		return 0, p.rest(ctx)
	}
	begun := time.Now()
	for posted := 0; posted < n || p.inFlight > 0; {
		if room := min(p.Window-p.inFlight, n-posted); room > 0 {
			if err := p.send(op, bytes, room); err != nil {
				return 0, err
			}
			posted += room
		}
		if err := p.progress(ctx); err != nil {
			return 0, err
		}
	}
	took := time.Since(begun)
	if err := p.send(verbs.OpSend, 0, 1); err != nil {
		return 0, err
	}
	return took, p.drain(ctx)
}

// Bounce sends n messages to and fro, each end one when it has received one, a WRITE with immediate
// data so that its arrival makes a completion. A READ is a round trip by itself. each, if it is not
// nil, is called at the active end with half of each round trip, of READ with all of it.
func (p *Pair) Bounce(ctx context.Context, op verbs.Opcode, bytes uint32, n int, each func(time.Duration)) error {
	switch op {
	case verbs.OpRead:
		return p.fetch(ctx, bytes, n, each)
	case verbs.OpWrite:
		op = verbs.OpWriteImm
	}
	for range n {
		if p.Passive {
			if err := p.receive(ctx, 1); err != nil {
				return err
			}
		}
		begun := time.Now()
		if err := p.send(op, bytes, 1); err != nil {
			return err
		}
		if p.Passive {
			continue
		}
		if err := p.receive(ctx, 1); err != nil {
			return err
		}
		if each != nil {
			each(time.Since(begun) / 2)
		}
	}
	return p.drain(ctx)
}

// fetch is Bounce of READ.
func (p *Pair) fetch(ctx context.Context, bytes uint32, n int, each func(time.Duration)) error {
	if p.Passive {
		return p.receive(ctx, 1)
	}
	for range n {
		begun := time.Now()
		if err := p.send(verbs.OpRead, bytes, 1); err != nil {
			return err
		}
		if err := p.drain(ctx); err != nil {
			return err
		}
		if each != nil {
			each(time.Since(begun))
		}
	}
	if err := p.send(verbs.OpSend, 0, 1); err != nil {
		return err
	}
	return p.drain(ctx)
}
