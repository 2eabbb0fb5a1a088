package ring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"ringcli/ring/bootstrap"
	"ringcli/ring/bootstrap/verdict"
	"ringcli/ring/diagnose"
	"ringcli/ring/disagreement"
	"ringcli/ring/polling"
	"ringcli/ring/steps"
	"ringcli/verbs"
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
		askRunID:          func(q *question, ctx context.Context) (any, error) { return q.r.control.RunID(ctx) },
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

// answers are the control ring's way to the answerers.
type answers struct{ r *Ring }

func (a *answers) answer(ctx context.Context, kind string, _ int, side int, payload json.RawMessage) (any, error) {
	all := answerers()
	f := all[kind]
	if f == nil {
		return nil, bootstrap.UnknownKind(kind, slices.Sorted(maps.Keys(all))...)
	}
	ctx, cancel := a.r.control.whileAlive(ctx)
	defer cancel()
	return f(&question{a.r, Side(side), payload}, ctx)
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
	q.r.table.mu.Lock()
	e := q.r.table.edges[q.side]
	q.r.table.mu.Unlock()
	if e == nil { // the ring was closed meanwhile
		return nil, q.notReady()
	}
	return e.offer(), nil
}

// awaitTick is the pause between two looks at a queue pair for what was changed
// behind the ring's back; what steps do wakes the wait at once.
const awaitTick = 5 * time.Millisecond

// awaitEdge waits until the queue pair is in one of some states.
func (q *question) awaitEdge(ctx context.Context, from, to State) error {
	r, side := q.r, q.side
	return q.await(ctx, func() bool {
		s := r.table.standing([]Side{side}).State
		return s >= from && s <= to
	}, q.notReady)
}

// awaitDevice waits until the edge is on shared memory, or on another device.
func (q *question) awaitDevice(ctx context.Context, hostLocal bool) error {
	r, side := q.r, q.side
	device := func() (name string, local bool) {
		r.table.mu.Lock()
		defer r.table.mu.Unlock()
		if e := r.table.edges[side]; e != nil {
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
		r.table.mu.Lock()
		stepped, failure := r.table.stepped, r.table.err
		r.table.mu.Unlock()
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
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	e := r.table.edges[side]
	if r.table.err != nil {
		return r.table.err
	}
	if e == nil {
		fix := ""
		if r.table.state <= StateOpened {
			fix = "; run " + steps.Names[r.table.state+1] + " there"
		}
		return fmt.Errorf("%s has no queue pair, its ring is %s%s", r.NodeName(r.rank), r.table.state, fix)
	}
	attr, _, err := e.QP.Query()
	if err != nil {
		return fmt.Errorf("the %s queue pair of %s cannot be queried: %w", side, r.NodeName(r.rank), err)
	}
	return fmt.Errorf("the %s queue pair of %s is %s: %s there", side, r.NodeName(r.rank), attr.State, steps.Remedies[attr.State])
}

// AwaitNeighbours returns when the queue pairs of both neighbours that face this
// rank can receive: what is sent before is lost, and may be sent once too often.
func (r *Ring) AwaitNeighbours(ctx context.Context) error {
	const name = "wait for the neighbours"
	check := func() error {
		if s := r.table.standing(bothSides); s.State < StateExchanged || s.State > StateReady {
			return stepError(name, s, StateRTR)
		}
		return nil
	}
	return between(r, name, check).take(ctx, func(ctx context.Context, _ Token) error {
		ctx, cancel := context.WithTimeout(ctx, r.Timeout())
		defer cancel()
		_, err := askBoth[any](ctx, r.control, askAwaitRTR)
		return err
	})
}

// dataRequest asks for the data of an end on a device of a kind.
type dataRequest struct {
	HostLocal bool `json:"host_local"`
}

func (q *question) end(context.Context) (any, error) {
	var asked endAsked // nothing asks for the first channel
	if len(q.payload) > 0 {
		if err := q.read(&asked); err != nil {
			return nil, err
		}
	}
	return ownEndOf(q.r.ends, q.side.Edge().On(asked.Channel))
}

func (q *question) farEnd(ctx context.Context) (any, error) {
	x := q.r.ends
	var asked farEnd
	if err := json.Unmarshal(q.payload, &asked); err != nil || asked.Of < 0 || asked.Of >= len(x.of.nodes) || asked.To == x.of.rank {
		return nil, fmt.Errorf("%s cannot read the question %s: do all ranks run the same version?", x.of.NodeName(x.of.rank), q.payload)
	}
	if asked.Of != x.of.rank {
		return askOn[endAnswer](ctx, q, askFarEnd, asked)
	}
	x.table.mu.Lock()
	e := x.table.mesh.to(asked.To)
	x.table.mu.Unlock()
	if e == nil {
		return nil, fmt.Errorf("%s has no mesh edge to rank %d", x.of.NodeName(x.of.rank), asked.To)
	}
	return ownEndOf(x, e.ID)
}

func (q *question) tests(ctx context.Context) (any, error) {
	var asked testsAsked
	if err := q.read(&asked); err != nil {
		return nil, err
	}
	if asked.Of != q.r.rank {
		return askOn[[]verdict.Test](ctx, q, askTests, asked)
	}
	return q.r.stalls.tests(ctx, asked.But), nil
}

func (q *question) probe(ctx context.Context) (any, error) {
	var asked probeAsked
	if err := json.Unmarshal(q.payload, &asked); err != nil || len(asked.MTUs) > maxProbes || asked.Each < 1 || asked.Each > MostLoss || slices.ContainsFunc(asked.MTUs, func(m int) bool { return m < 0 || m > verbs.MTU4096.Bytes() }) {
		return nil, fmt.Errorf("%s cannot read the question %s: do all ranks run the same version?", q.r.NodeName(q.r.rank), q.payload)
	}
	if asked.Edge.Of != q.r.rank {
		return askOn[[]int](ctx, q, askProbe, asked)
	}
	q.r.table.mu.Lock()
	p, ok := q.r.table.edgeTo(asked.Edge, q.side).prober()
	q.r.table.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("%s has no edge to rank %d that can probe", q.r.NodeName(q.r.rank), asked.Edge.To)
	}
	if err := p.Probe(asked.Mark+1, asked.MTUs, asked.Each); err != nil {
		return nil, err
	}
	return awaitProbes(ctx, p, asked.Mark, len(asked.MTUs)*asked.Each), nil
}

// askOn passes a question on, which is not for this rank.
func askOn[T any](ctx context.Context, q *question, kind string, payload any) (T, error) {
	answer, err := ask[T](ctx, q.r.control, q.side.Opposite(), kind, payload)
	if e, ok := errors.AsType[*bootstrap.AnswerError](err); ok {
		err = errors.New(e.Text) // as it was said
	}
	return answer, err
}

func (q *question) places(ctx context.Context) (any, error) {
	var asked placesAsked
	if err := q.read(&asked); err != nil {
		return nil, err
	}
	return append([]diagnose.Place{q.r.stalls.own()}, q.r.stalls.at(ctx, q.side.Opposite(), asked.Hops-1)...), nil
}

// calls takes what a neighbour knows, and answers with what both know.
func (q *question) calls(context.Context) (any, error) {
	var told disagreement.Told
	if err := json.Unmarshal(q.payload, &told); err != nil {
		return nil, fmt.Errorf("%s cannot read %s, which is to tell what ranks call: %w", q.r.NodeName(q.r.rank), q.payload, err)
	}
	known, ok := q.r.stalls.tables.Hear(q.side, told)
	if !ok {
		return nil, fmt.Errorf("%s is at no operation of epoch %d: its ring is in epoch %d, is asked about too many operations, or closes", q.r.NodeName(q.r.rank), told.Epoch, q.r.Epoch())
	}
	return known, nil
}

// ping answers the pings of a neighbour.
func (q *question) ping(ctx context.Context) (any, error) {
	r, side := q.r, q.side
	var asked pingRequest
	if err := json.Unmarshal(q.payload, &asked); err != nil || asked.Total == 0 || asked.Patience <= 0 {
		return nil, fmt.Errorf("%s cannot read the request %s for a ping: do all ranks run the same version?", r.NodeName(r.rank), q.payload)
	}
	soon, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if r.table.standing([]Side{side}).State == StateError {
		return nil, q.notReady()
	}
	if err := q.awaitEdge(soon, StateRTS, StateReady); err != nil {
		return nil, err
	}
	t, err := r.poll.take(soon, polling.Holder{Kind: polling.Pinging})
	if err != nil {
		return nil, fmt.Errorf("%s is busy: %w", r.NodeName(r.rank), err)
	}
	defer t.Release()
	if s := r.table.standing([]Side{side}).State; s != StateRTS && s != StateReady {
		return nil, q.notReady() // a step was faster
	}
	// The asker gives up first, which ends ctx: it knows more of what it awaits.
	x := &ping{edge: r.table.edges[side], seq: asked.Seq, total: asked.Total, patience: 2 * asked.Patience}
	r.pings.enter(x)
	defer r.pings.leave(x)
	if _, err := ask[any](ctx, r.control, side, askGo, asked); err != nil {
		return nil, err
	}
	err = r.pings.drive(ctx, t, x)
	if err != nil {
		err = fmt.Errorf("%s had answered %d of %d pings: %w", r.NodeName(r.rank), x.done, x.total, err)
		r.pings.markUnclean(err)
	}
	return nil, err
}

// pingGo sends the first ping, now that the neighbour listens.
func (q *question) pingGo(context.Context) (any, error) {
	r, side := q.r, q.side
	var asked pingRequest
	if err := json.Unmarshal(q.payload, &asked); err != nil {
		return nil, fmt.Errorf("%s cannot read the word to go: %w", r.NodeName(r.rank), err)
	}
	p := r.pings
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.running {
		if x.asks && x.seq == asked.Seq && x.edge.Side == side && !x.posted && !x.over() {
			p.send(x)
			return nil, nil
		}
	}
	return nil, fmt.Errorf("%s has given up the ping", r.NodeName(r.rank))
}
