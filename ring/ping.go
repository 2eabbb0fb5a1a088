package ring

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ringcli/configs/usage"
	"ringcli/ring/message"
)

// PingResult is what one rank measured to a neighbour.
type PingResult = message.PingResult

// Ping sends a test message to the right neighbour count times, one after the
// other, over the queue pair. The receiver verifies its bytes and sends them
// back; the sender verifies them again. All ranks ping at the same time and must
// give the same count. One more round trip goes ahead unmeasured: it waits for
// the neighbour to begin. It alone goes over the channels beside the first, before: each is
// heard of in both directions. Options.Timeout limits the time without any message, not
// that of all. The ring is Ready afterwards.
func (r *Ring) Ping(ctx context.Context, count int) (PingResult, error) {
	if err := checkCount(count); err != nil {
		return PingResult{}, err
	}
	var result PingResult
	step := stepTo(r, StateReady, Values{})
	step.limit = 0 // it lasts as long as the pings, of which none may
	err := step.take(ctx, func(ctx context.Context, t Token) error {
		if err := r.Usable(); err != nil {
			return err
		}
		var asks *ping
		var err error
		for channel := r.opts.Channels - 1; channel >= 0 && err == nil; channel-- {
			asks = &ping{edge: r.Edge(Right.Edge().On(channel)), asks: true, total: 1, patience: r.Timeout(), trips: message.NewTrips()}
			if channel == 0 {
				asks.total += uint32(count)
			}
			err = r.pings.all(ctx, t, asks, &ping{edge: r.Edge(Left.Edge().On(channel)), total: asks.total, patience: asks.patience})
		}
		if err != nil {
			r.pings.markUnclean(err)
			failed, isCompletion := errors.AsType[*CompletionError](err)
			switch {
			case r.opts.ByHand:
				err = fmt.Errorf("%w; reset on all ranks", err)
			case isCompletion:
				err = r.stalls.Explain(ctx, failed.Peer, err)
			}
			return err
		}
		if err = r.ends.Compare(ctx, Left, Right); err != nil {
			return fmt.Errorf("the pings have passed, but %w", err)
		}
		r.table.change(func() { r.table.edges[Left].setPinged(); r.table.edges[Right].setPinged() })
		result = asks.trips.Result(r.neighbour(Right), count, MessageSize)
		return nil
	})
	return result, err
}

// all has this rank's part in a ping of all ranks.
func (p *pings) all(ctx context.Context, t Token, asks, answers *ping) error {
	r := p.r
	p.enter(asks, answers)
	defer p.leave(asks)
	defer p.leave(answers)
	t.recall()
	p.mu.Lock()
	p.send(asks)
	p.mu.Unlock()
	for _, x := range []*ping{asks, answers} {
		err := p.drive(ctx, t, x)
		var idle *idleError
		switch {
		case errors.As(err, &idle):
			return fmt.Errorf("the right neighbour, %s, has answered %d of %d pings%s, and %d of %d have come from the left neighbour, %s; nothing came from %s for %s; "+
				"%s: %w",
				r.NodeName(asks.edge.Peer), asks.done, asks.total, asks.edge.ID.Over(), answers.done, answers.total, r.NodeName(answers.edge.Peer),
				r.NodeName(idle.edge.Peer), idle.quiet.Round(time.Millisecond), idle.edge.silent(), idle.cause)
		case err != nil:
			return err
		}
	}
	return nil
}

// checkCount refuses counts that the header has no room for.
func checkCount(count int) error {
	const most = 1 << 24
	if count < 1 || count > most {
		return usage.Errorf("ping count %d: expected 1 to %d", count, most)
	}
	return nil
}
