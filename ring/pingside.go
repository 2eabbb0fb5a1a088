package ring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"ringcli/configs/usage"
	"ringcli/ring/message"
	"ringcli/ring/polling"
)

// The questions of a ping of one neighbour. The rank that pings asks askPing, which is
// answered when all is done; the neighbour asks back with askGo as soon as it
// polls, so that no ping is sent that would meet something else there.
const (
	askPing = "ping"
	askGo   = "ping-go"
)

// pingRequest is what askPing and askGo carry.
type pingRequest struct {
	Seq   uint64 `json:"seq"`
	Total uint32 `json:"total"` // round trips
	// Patience is how long the asker waits while nothing moves.
	Patience time.Duration `json:"patience_ns"`
}

// grace is how long a neighbour's ping waits for this rank: for the step to RTS
// of a rank that is walked at the same time, and for the end of an operation that
// is over at the neighbour already.
const grace = time.Second

// PingSide pings one neighbour over the queue pair: count round trips, verified
// at both ends, one more ahead unmeasured. Nobody needs to do anything there: the
// neighbour is asked over TCP to answer, and says within a second if it cannot,
// for its queue pair or because something else runs. Ranks may ping each other at the
// same time. Options.Timeout limits the time without any message, not that of
// all.
//
// If it fails when messages were sent, operations are refused until a Reset:
// what is still on its way would meet them.
func (r *Ring) PingSide(ctx context.Context, side Side, count int) (PingResult, error) {
	if err := checkCount(count); err != nil {
		return PingResult{}, err
	}
	if side != Left && side != Right {
		return PingResult{}, usage.Errorf("ping: side %d: expected left or right", int(side))
	}
	x := &ping{asks: true, total: uint32(count) + 1, patience: r.Timeout(), trips: message.NewTrips()}
	var refused error
	step := between(r, "ping", func() error { return r.table.mayStep(StateReady, []Side{side}) })
	step.holder = polling.Holder{Kind: polling.Pinging}
	err := step.take(ctx, func(ctx context.Context, t Token) error {
		x.edge = r.table.edges[side]
		err := r.pings.side(ctx, t, x)
		if !x.posted {
			refused, err = err, nil // it harmed nobody, and so fails nothing
		}
		return err
	})
	if err = cmp.Or(err, refused); err != nil {
		return PingResult{}, err
	}
	return x.trips.Result(x.edge.Peer, count, MessageSize), nil
}

func (p *pings) side(ctx context.Context, t Token, x *ping) error {
	r := p.r
	p.enter(x)
	asking, cancel := context.WithCancel(ctx)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if _, err := ask[any](asking, r.control, x.edge.Side, askPing, pingRequest{x.seq, x.total, x.patience}); err != nil {
			p.mu.Lock()
			x.fail(err)
			p.mu.Unlock()
		}
	}()
	err := p.drive(ctx, t, x)
	p.leave(x)
	if err != nil {
		cancel()
	}
	// The neighbour is done a moment after this rank, and what it runs next
	// waits for that.
	<-answered
	cancel()
	if err == nil {
		if err = r.ends.Compare(ctx, x.edge.Side); err != nil {
			return fmt.Errorf("%d pings of %d bytes have passed, but %w", x.done, MessageSize, err)
		}
		r.table.change(x.edge.setPinged)
		return nil
	}
	return p.failedSide(x, err)
}

// failedSide says what was awaited, from whom, and what had come.
func (p *pings) failedSide(x *ping, err error) error {
	r := p.r
	who := fmt.Sprintf("the %s neighbour, %s,", x.edge.Side, r.NodeName(x.edge.Peer))
	if !x.posted {
		return fmt.Errorf("ping: %s does not answer: %w", who, err)
	}
	hint := ""
	if errors.Is(err, context.DeadlineExceeded) {
		hint = "; " + x.edge.silent()
	}
	err = fmt.Errorf("%s has answered %d of %d pings: %w%s; reset on both ends", who, x.done, x.total, err, hint)
	r.pings.markUnclean(err)
	return err
}
