package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/oob"
)

const (
	// maxServing bounds the questions of one connection that are being answered at a
	// time: more than the steps of a bring-up have, and few enough goroutines.
	maxServing = 16
	// maxPayload bounds what a caller's value may take in a frame.
	maxPayload = oob.MaxFrame / 2
)

// question is the payload of an ask frame.
type question struct {
	ID   uint64 `json:"id"` // counts the asker's questions
	Kind string `json:"kind"`
	// Within is how long the asker waits, 0 without end. A duration needs no
	// common clock.
	Within  time.Duration   `json:"within_ns,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Clock   *reading        `json:"clock,omitempty"` // asks for the time instead
}

// reply is the payload of an answer frame. That of a cancel frame, whose asker has given
// up, has the number alone.
type reply struct {
	ID      uint64          `json:"id"` // the question's
	Payload json.RawMessage `json:"payload,omitempty"`
	Error   string          `json:"error,omitempty"`
	Clock   *reading        `json:"clock,omitempty"`
}

// AnswerError is an answerer's error, as the asker gets it.
type AnswerError struct {
	Rank int    // that answered
	Kind string // of the question
	Text string
}

func (e *AnswerError) Error() string {
	return fmt.Sprintf("rank %d, asked for %q: %s", e.Rank, e.Kind, e.Text)
}

// UnknownKind is the error for Config.Answer to return for a kind that it does
// not know.
func UnknownKind(kind string, known ...string) error {
	return fmt.Errorf("a question of kind %q: this ringcli answers %s: install the same ringcli on both nodes", kind, strings.Join(known, ", "))
}

// Ask puts a question to the neighbour at a side, 0 for left and 1 for right,
// which its Config.Answer answers, and returns the answer. It needs the exchange.
// The error is an *AnswerError if the neighbour answered with one, the verdict if
// the ring fails or the neighbour is gone, and wraps the context's. Any number of
// goroutines may ask at once; the neighbour refuses what comes while it has 16
// questions of this connection in hand.
func (c *Control) Ask(ctx context.Context, side int, kind string, payload any) (json.RawMessage, error) {
	data, err := measure(payload)
	if err != nil {
		return nil, fmt.Errorf("ask for %q: %w", kind, err)
	}
	r, err := c.inquire(ctx, side, question{Kind: kind, Payload: data})
	switch {
	case err != nil:
		return nil, err
	case r.Error != "":
		return nil, &AnswerError{Rank: c.neighbour(side), Kind: kind, Text: r.Error}
	}
	return r.Payload, nil
}

// inquire sends a question to a side and waits for the reply.
func (c *Control) inquire(ctx context.Context, side int, q question) (reply, error) {
	if deadline, ok := ctx.Deadline(); ok {
		// The neighbour's time ends a little sooner, so that it can say what it
		// waited for in vain.
		remaining := time.Until(deadline)
		q.Within = max(remaining-min(remaining/8, 200*time.Millisecond), 1)
	}
	if ctx.Err() != nil {
		return reply{}, fmt.Errorf("ask for %q: %w", q.Kind, context.Cause(ctx))
	}
	c.mu.Lock()
	l, err := c.reach(side)
	if err != nil {
		c.mu.Unlock()
		return reply{}, fmt.Errorf("ask for %q: %w", q.Kind, err)
	}
	c.lastAsk++
	q.ID = c.lastAsk
	answer := make(chan reply, 1)
	l.asked[q.ID] = answer
	if q.Clock == nil {
		c.send(l, TypeAsk, q)
	} else {
		c.sendStamped(l, TypeAsk, func(now int64) any { q.Clock.T1 = now; return q })
	}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(l.asked, q.ID)
		c.mu.Unlock()
	}()
	select {
	case r := <-answer:
		return r, nil
	case <-l.live.Done():
		return reply{}, context.Cause(l.live)
	case <-ctx.Done():
		c.mu.Lock()
		c.send(l, TypeCancel, reply{ID: q.ID})
		c.mu.Unlock()
		return reply{}, fmt.Errorf("%s has not answered a question for %q: %w", c.name(l.peer), q.Kind, context.Cause(ctx))
	}
}

// reach returns the connection to a side if it can be asked something. It needs the
// lock.
func (c *Control) reach(side int) (*connection, error) {
	switch {
	case side != left && side != right:
		return nil, usage.Errorf("side %d: expected 0 for left or 1 for right", side)
	case c.failure != nil:
		return nil, c.failure
	case c.closed || c.leaving:
		return nil, ErrClosed
	case !c.sealed:
		return nil, errNotConnected
	}
	l := c.connections[side]
	if !l.goodbye.IsZero() {
		return nil, c.gone(l)
	}
	return l, nil // if it has ended, the verdict is about to come
}

// errNotConnected is returned by whatever needs the exchange before it is over.
var errNotConnected = errors.New("the control ring is not connected yet: exchange first")

// gone is the verdict on a neighbour that said goodbye.
func (c *Control) gone(l *connection) *Verdict {
	return c.verdict(KindLeft, l.peer, "%s has left the ring: connect again without it, or start it again", c.name(l.peer))
}

// measure makes a caller's value JSON that fits a frame.
func measure(v any) (json.RawMessage, error) {
	b, err := json.Marshal(v)
	if err == nil && len(b) > maxPayload {
		err = fmt.Errorf("%d bytes of JSON: expected at most %d", len(b), maxPayload)
	}
	return b, err
}

// serve has a neighbour's question answered, on a goroutine of its own; the time
// is told at once.
func (c *Control) serve(l *connection, q question) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.Clock != nil {
		q.Clock.T2 = l.arrived
		return c.reply(l, reply{ID: q.ID, Clock: q.Clock}, true)
	}
	if c.failing() && c.leaving {
		return nil // the asker hears why from the ring
	}
	_, twice := l.serving[q.ID]
	refusal := ""
	switch {
	case twice:
		return fmt.Errorf("question %d of rank %d came twice", q.ID, l.peer)
	case !l.used:
		refusal = errNotConnected.Error()
	case c.cfg.Answer == nil:
		refusal = "it answers no questions"
	case c.leaving:
		refusal = "it is leaving the ring"
	case len(l.serving) >= maxServing:
		refusal = fmt.Sprintf("it is busy with %d other questions: ask again when some are answered", len(l.serving))
	}
	if refusal != "" {
		return c.reply(l, reply{ID: q.ID, Error: refusal}, false)
	}
	var ctx context.Context
	var cancel context.CancelFunc
	if q.Within > 0 {
		ctx, cancel = context.WithTimeout(l.live, q.Within)
	} else {
		ctx, cancel = context.WithCancel(l.live)
	}
	l.serving[q.ID] = cancel
	c.running.Go(func() {
		defer cancel()
		r := reply{ID: q.ID}
		v, err := c.cfg.Answer(ctx, q.Kind, l.peer, l.side, q.Payload)
		if err == nil {
			r.Payload, err = measure(v)
		}
		if err != nil {
			r.Payload, r.Error = nil, err.Error()
			if r.Error == "" {
				r.Error = "it failed and did not say why"
			}
		}
		c.mu.Lock()
		delete(l.serving, q.ID)
		if l.live.Err() == nil { // else the asker hears why from the ring
			if c.reply(l, r, false) != nil {
				l.finish()
			}
		}
		c.mu.Unlock()
	})
	return nil
}

// takeAnswer hands an answer to the goroutine that asked, if that one still waits.
func (c *Control) takeAnswer(l *connection, r reply) {
	if r.Clock != nil {
		r.Clock.t4 = l.arrived
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer := l.asked[r.ID]; answer != nil {
		delete(l.asked, r.ID) // an answer that comes twice must not block
		answer <- r
	}
}

// takeCancel ends the context of an answer that nobody waits for any more.
func (c *Control) takeCancel(l *connection, id uint64) {
	c.mu.Lock()
	cancel := l.serving[id]
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}
