package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
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

// asks are the questions between this rank and its neighbours.
type asks struct {
	own        *node
	life       *lifetime
	neighbours *neighbours
	outcome    *outcome
	failing    func() bool // the ring has failed, or is about to

	mu      sync.Mutex                         // guards the following
	asked   map[questionKey]chan reply         // own questions that wait for an answer
	serving map[questionKey]context.CancelFunc // the neighbours' that are being answered
	lastAsk uint64
}

// questionKey is a question of one end of a connection.
type questionKey struct {
	over *connection
	id   uint64
}

// ask puts a question to a neighbour and returns the answer.
func (a *asks) ask(ctx context.Context, side int, kind string, payload any) (json.RawMessage, error) {
	data, err := measure(payload)
	if err != nil {
		return nil, fmt.Errorf("ask for %q: %w", kind, err)
	}
	r, err := a.inquire(ctx, side, question{Kind: kind, Payload: data})
	switch {
	case err != nil:
		return nil, err
	case r.Error != "":
		return nil, &AnswerError{Rank: a.own.neighbour(side), Kind: kind, Text: r.Error}
	}
	return r.Payload, nil
}

// inquire sends a question to a side and waits for the reply.
func (a *asks) inquire(ctx context.Context, side int, q question) (reply, error) {
	if deadline, ok := ctx.Deadline(); ok {
		// The neighbour's time ends a little sooner, so that it can say what it
		// waited for in vain.
		remaining := time.Until(deadline)
		q.Within = max(remaining-min(remaining/8, 200*time.Millisecond), 1)
	}
	if ctx.Err() != nil {
		return reply{}, fmt.Errorf("ask for %q: %w", q.Kind, context.Cause(ctx))
	}
	l, err := a.reach(side)
	if err != nil {
		return reply{}, fmt.Errorf("ask for %q: %w", q.Kind, err)
	}
	answer := make(chan reply, 1)
	a.mu.Lock()
	a.lastAsk++
	q.ID = a.lastAsk
	key := questionKey{l, q.ID}
	a.asked[key] = answer
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.asked, key)
		a.mu.Unlock()
	}()
	if q.Clock == nil {
		l.send(TypeAsk, q)
	} else {
		l.sendStamped(TypeAsk, func(now int64) any { q.Clock.T1 = now; return q })
	}
	select {
	case r := <-answer:
		return r, nil
	case <-l.live.Done():
		return reply{}, context.Cause(l.live)
	case <-ctx.Done():
		l.send(TypeCancel, reply{ID: q.ID})
		return reply{}, fmt.Errorf("%s has not answered a question for %q: %w", a.own.name(l.peer), q.Kind, context.Cause(ctx))
	}
}

// reach returns the connection to a side if it can be asked something.
func (a *asks) reach(side int) (*connection, error) {
	switch phase := a.outcome.phase(); {
	case side != left && side != right:
		return nil, usage.Errorf("side %d: expected 0 for left or 1 for right", side)
	case phase.failure != nil:
		return nil, phase.failure
	case phase.leaving:
		return nil, ErrClosed
	case !phase.sealed:
		return nil, errNotConnected
	}
	l := a.neighbours.at(side)
	if !l.here() {
		return nil, a.own.gone(l.peer)
	}
	return l, nil // if it has ended, the verdict is about to come
}

// errNotConnected is returned by whatever needs the exchange before it is over.
var errNotConnected = errors.New("the control ring is not connected yet: exchange first")

// measure makes a caller's value JSON that fits a frame.
func measure(v any) (json.RawMessage, error) {
	b, err := json.Marshal(v)
	if err == nil && len(b) > maxPayload {
		err = fmt.Errorf("%d bytes of JSON: expected at most %d", len(b), maxPayload)
	}
	return b, err
}

// maxUnread bounds the answers to a neighbour that asks and does not read: as much as all
// questions that it may have in hand can be answered with.
const maxUnread = maxServing * oob.MaxFrame

// reply queues an answer. Its error ends the connection, after a verdict.
func (a *asks) reply(l *connection, r reply, stamped bool) error {
	const least = 512 // of memory
	unread := 0
	l.set(func() { l.unread += least + len(r.Payload) + len(r.Error); unread = l.unread })
	if unread > maxUnread {
		v := a.own.verdict(KindFailed, l.peer, "%s asks and does not read: %d MiB of answers to it wait to be sent: see what %s runs there, and whether all nodes have the same ringcli",
			a.own.name(l.peer), maxUnread>>20, l.who.Host)
		a.life.start(func() { a.outcome.fail(v, nil) })
		return v
	}
	if stamped {
		l.sendStamped(TypeAnswer, func(now int64) any { r.Clock.T3 = now; return r })
	} else {
		l.send(TypeAnswer, r)
	}
	return nil
}

// serve has a neighbour's question answered, on a goroutine of its own; the time
// is told at once.
func (a *asks) serve(l *connection, q question) error {
	if q.Clock != nil {
		q.Clock.T2 = l.arrived
		return a.reply(l, reply{ID: q.ID, Clock: q.Clock}, true)
	}
	phase := a.outcome.phase()
	if phase.leaving && a.failing() {
		return nil // the asker hears why from the ring
	}
	key := questionKey{l, q.ID}
	a.mu.Lock()
	defer a.mu.Unlock()
	busy := 0
	for k := range a.serving {
		if k.over == l {
			busy++
		}
	}
	_, twice := a.serving[key]
	refusal := ""
	switch {
	case twice:
		return fmt.Errorf("question %d of rank %d came twice", q.ID, l.peer)
	case !l.state().used:
		refusal = errNotConnected.Error()
	case a.own.cfg.Answer == nil:
		refusal = "it answers no questions"
	case phase.leaving:
		refusal = "it is leaving the ring"
	case busy >= maxServing:
		refusal = fmt.Sprintf("it is busy with %d other questions: ask again when some are answered", busy)
	}
	if refusal != "" {
		return a.reply(l, reply{ID: q.ID, Error: refusal}, false)
	}
	var ctx context.Context
	var cancel context.CancelFunc
	if q.Within > 0 {
		ctx, cancel = context.WithTimeout(l.live, q.Within)
	} else {
		ctx, cancel = context.WithCancel(l.live)
	}
	a.serving[key] = cancel
	a.life.start(func() {
		defer cancel()
		r := reply{ID: q.ID}
		v, err := a.own.cfg.Answer(ctx, q.Kind, l.peer, l.side, q.Payload)
		if err == nil {
			r.Payload, err = measure(v)
		}
		if err != nil {
			r.Payload, r.Error = nil, err.Error()
			if r.Error == "" {
				r.Error = "it failed and did not say why"
			}
		}
		a.mu.Lock()
		delete(a.serving, key)
		a.mu.Unlock()
		if l.live.Err() == nil && a.reply(l, r, false) != nil { // else the asker hears why from the ring
			l.finish()
		}
	})
	return nil
}

// takeAnswer hands an answer to the goroutine that asked, if that one still waits.
func (a *asks) takeAnswer(l *connection, r reply) {
	if r.Clock != nil {
		r.Clock.t4 = l.arrived
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	key := questionKey{l, r.ID}
	if answer := a.asked[key]; answer != nil {
		delete(a.asked, key) // an answer that comes twice must not block
		answer <- r
	}
}

// takeCancel ends the context of an answer that nobody waits for any more.
func (a *asks) takeCancel(l *connection, id uint64) {
	a.mu.Lock()
	cancel := a.serving[questionKey{l, id}]
	a.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}
