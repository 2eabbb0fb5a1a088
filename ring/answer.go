package ring

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"ringcli/ring/bootstrap"
	"ringcli/ring/steps"
)

// question is one of a neighbour, which came over the edge at a side of this rank.
type question struct {
	r       *Ring
	side    Side
	payload json.RawMessage
}

// answerers answer questions by their kind. They run beside the steps and may wait until ctx
// ends. An error's text is the answer of its own: it names this rank and what to do here.
func answerers() map[string]func(q *question, ctx context.Context) (any, error) {
	return map[string]func(q *question, ctx context.Context) (any, error){
		askAwaitRTR:       (*question).awaitRTR,
		askConnectionData: (*question).connectionData,
		askRunID:          func(q *question, ctx context.Context) (any, error) { return q.r.RunID(ctx) },
		askEnd:            (*question).end,
		askFarEnd:         (*question).farEnd,
		askTests:          (*question).tests,
		askProbe:          (*question).probe,
		askPlaces:         (*question).places,
		askPing:           (*question).ping,
		askGo:             (*question).pingGo,
		tellCalls:         (*question).calls,
	}
}

// The questions that this file answers.
const (
	askAwaitRTR       = "await-rtr"       // answered when the queue pair can receive
	askConnectionData = "connection-data" // what this end says in Exchange, once it is in INIT
	askRunID          = "run-id"
)

// answer is the control ring's way to the answerers.
func (r *Ring) answer(ctx context.Context, kind string, _ int, side int, payload json.RawMessage) (any, error) {
	all := answerers()
	f := all[kind]
	if f == nil {
		return nil, bootstrap.UnknownKind(kind, slices.Sorted(maps.Keys(all))...)
	}
	ctx, cancel := r.whileAlive(ctx)
	defer cancel()
	return f(&question{r, Side(side), payload}, ctx)
}

// read reads what was asked.
func (q *question) read(asked any) error {
	if err := json.Unmarshal(q.payload, asked); err != nil {
		return fmt.Errorf("%s cannot read the question %s: do all ranks run the same version?", q.r.NodeName(q.r.rank), q.payload)
	}
	return nil
}

func (q *question) awaitRTR(ctx context.Context) (any, error) {
	return nil, q.awaitEdge(ctx, StateRTR, StateReady)
}

func (q *question) connectionData(ctx context.Context) (any, error) {
	if err := q.awaitEdge(ctx, StateInitialised, StateError); err != nil {
		return nil, err
	}
	var asked *dataRequest // nil asks for any
	if err := json.Unmarshal(q.payload, &asked); err != nil && len(q.payload) > 0 {
		return nil, fmt.Errorf("%s cannot read the request %s for connection data: do all ranks run the same version?", q.r.NodeName(q.r.rank), q.payload)
	}
	if asked != nil {
		if err := q.awaitDevice(ctx, asked.HostLocal); err != nil {
			return nil, err
		}
	}
	q.r.mu.Lock()
	e := q.r.edges[q.side]
	q.r.mu.Unlock()
	if e == nil { // the ring was closed meanwhile
		return nil, q.notReady()
	}
	return e.offer(), nil
}

// awaitedFor is what a neighbour is to do before it answers a question.
var awaitedFor = map[string]string{askAwaitRTR: "take the step rtr", askConnectionData: "take the step init"}

// ask asks the neighbour at a side. It waits until ctx ends.
func ask[T any](ctx context.Context, r *Ring, side Side, kind string, payload any) (answer T, err error) {
	raw, err := controlled(ctx, r, func(ctx context.Context, c *bootstrap.Control) (json.RawMessage, error) {
		defer c.Begin(ctx, cmp.Or(awaitedFor[kind], "answer"), r.neighbour(side))()
		return c.Ask(ctx, int(side), kind, payload)
	})
	if err != nil || len(raw) == 0 {
		return answer, err
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return answer, fmt.Errorf("the answer of %s to %q makes no sense: %w", r.NodeName(r.neighbour(side)), kind, err)
	}
	return answer, nil
}

// awaitTick is the pause between two looks at a queue pair for what was changed
// behind the ring's back; what steps do wakes the wait at once.
const awaitTick = 5 * time.Millisecond

// awaitEdge waits until the queue pair is in one of some states.
func (q *question) awaitEdge(ctx context.Context, from, to State) error {
	r, side := q.r, q.side
	return q.await(ctx, func() bool {
		s := r.standing([]Side{side}).State
		return s >= from && s <= to
	}, q.notReady)
}

// awaitDevice waits until the edge is on shared memory, or on another device.
func (q *question) awaitDevice(ctx context.Context, hostLocal bool) error {
	r, side := q.r, q.side
	device := func() (name string, local bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if e := r.edges[side]; e != nil {
			return e.device.Name, e.device.Attr.HostLocal
		}
		return "no device", false
	}
	return q.await(ctx, func() bool { _, local := device(); return local == hostLocal }, func() error {
		name, _ := device()
		return fmt.Errorf("the %s queue pair of %s is on %s, as it was before both ends said where they are: run exchange there", side, r.NodeName(r.rank), name)
	})
}

// await waits until something holds. It ends well before the asker's deadline: an
// answer that says what is missing is worth more than the last of the wait, also if
// this machine is too busy to be quick.
func (q *question) await(ctx context.Context, holds func() bool, missing func() error) error {
	r := q.r
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-min(time.Second, time.Until(deadline)/4)))
		defer cancel()
	}
	tick := time.NewTicker(awaitTick)
	defer tick.Stop()
	for {
		r.mu.Lock()
		stepped, failure := r.stepped, r.err
		r.mu.Unlock()
		if failure != nil {
			return failure
		}
		if holds() {
			return nil
		}
		select {
		case <-stepped:
		case <-tick.C:
		case <-ctx.Done():
			return missing()
		}
	}
}

// notReady says why the queue pair cannot be used, to the neighbour, and what to do here.
func (q *question) notReady() error {
	r, side := q.r, q.side
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.edges[side]
	if r.err != nil {
		return r.err
	}
	if e == nil {
		fix := ""
		if r.state <= StateOpened {
			fix = "; run " + steps.Names[r.state+1] + " there"
		}
		return fmt.Errorf("%s has no queue pair, its ring is %s%s", r.NodeName(r.rank), r.state, fix)
	}
	attr, _, err := e.QP.Query()
	if err != nil {
		return fmt.Errorf("the %s queue pair of %s cannot be queried: %w", side, r.NodeName(r.rank), err)
	}
	return fmt.Errorf("the %s queue pair of %s is %s: %s there", side, r.NodeName(r.rank), attr.State, steps.Remedies[attr.State])
}

// signal is a channel that is closed, and replaced, when something has changed.
type signal chan struct{}

func (s *signal) notify() {
	close(*s)
	*s = make(chan struct{})
}

// RunID returns what tells this bring-up of the ring from any other, the same on
// all ranks, after Exchange. Rank 0 has made it up; others ask to the left, once.
func (r *Ring) RunID(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout())
	defer cancel()
	// One asks for all: in a long ring each rank would pass on as many questions as
	// there are ranks to its right.
	select {
	case r.asking <- struct{}{}:
		defer func() { <-r.asking }()
	case <-ctx.Done():
		return "", fmt.Errorf("the run's id: %w", context.Cause(ctx))
	}
	if r.runID == "" {
		id, err := ask[string](ctx, r, Left, askRunID, nil)
		if err != nil {
			return "", fmt.Errorf("the run's id: %w", err)
		}
		r.runID = id
	}
	return r.runID, nil
}

// AwaitNeighbours returns when the queue pairs of both neighbours that face this
// rank can receive: what is sent before is lost, and may be sent once too often.
func (r *Ring) AwaitNeighbours(ctx context.Context) error {
	const name = "wait for the neighbours"
	check := func() error {
		if s := r.standing(bothSides); s.State < StateExchanged || s.State > StateReady {
			return stepError(name, s, StateRTR)
		}
		return nil
	}
	return r.between(name, check).take(ctx, func(ctx context.Context, _ Token) error {
		ctx, cancel := context.WithTimeout(ctx, r.Timeout())
		defer cancel()
		_, err := askBoth[any](ctx, r, askAwaitRTR)
		return err
	})
}

// dataRequest asks for the data of an end on a device of a kind.
type dataRequest struct {
	HostLocal bool `json:"host_local"`
}

// askBoth asks both neighbours at once. One error is enough.
func askBoth[T any](ctx context.Context, r *Ring, kind string) (answers [2]T, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, len(answers))
	for side := range answers {
		go func() {
			var err error
			answers[side], err = ask[T](ctx, r, Side(side), kind, nil)
			errs <- err
		}()
	}
	for range answers {
		if e := <-errs; e != nil && err == nil {
			err = e
			cancel()
		}
	}
	return answers, err
}
