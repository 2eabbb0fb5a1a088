package ring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"ringcli/ring/bootstrap"
	"ringcli/ring/diagnose"
	"ringcli/ring/edges"
)

// This file finds out who keeps the ring waiting: all ranks are asked where they are, both
// ways round, and diagnose.Stall follows who waits for whom.

// SetPlace has what uses the ring say where it is in its operations, when somebody asks.
// say is called on other goroutines; nil says nothing.
func (s *Stalls) SetPlace(say func() diagnose.Place) {
	s.table.change(func() { s.place = say })
	control, err := s.control.ring()
	switch {
	case err != nil: // nobody asks a ring that was closed
	case say == nil:
		control.SetDoing(nil)
	default:
		control.SetDoing(func() Doing { return edges.Doing(say()) })
	}
}

// own is where this rank is.
func (s *Stalls) own() diagnose.Place {
	s.table.mu.Lock()
	say, control := s.place, s.control.boot
	s.table.mu.Unlock()
	var p diagnose.Place
	if say != nil {
		p = say()
	}
	p.Rank, p.Node, p.Presence = s.of.rank, s.of.nodes[s.of.rank].String(), diagnose.Answers
	if control == nil {
		return p
	}
	p.Slept, p.Woke = control.Slept()
	if p.Activity = control.Activity(); len(p.Awaits) > 0 {
		return p
	}
	from, since, what := control.Standing()
	for _, rank := range from {
		p.Awaits = append(p.Awaits, diagnose.Await{From: rank, Item: diagnose.Join, Segment: -1, What: what, For: time.Since(since)})
	}
	return p
}

// askPlaces asks a rank where it is, and those behind it: as many as Hops in all.
const askPlaces = "places"

type placesAsked struct {
	Hops int `json:"hops"`
}

// Bound is how long nothing may move in an operation before whoever is stopped, gone or
// cut off ends it.
func (s *Stalls) Bound() time.Duration { return min(s.silence, s.control.limit()*3/4) }

const (
	// placesHops is how far each rank asks, either way: each waits for those near to
	// it, and asks for itself. It is fewer than the questions that a connection takes.
	placesHops = 12
	// placesWithin is how long all of them may take. Each on the way has a little less
	// time than who asked it, and asks no further with less than placesLeast: more than
	// a live rank takes whose CPUs are all busy.
	placesWithin, placesLeast = 2 * time.Second, 300 * time.Millisecond
)

// at asks the neighbour at a side where it is, and up to hops ranks in all beyond.
// One that does not answer is the last.
func (s *Stalls) at(ctx context.Context, side Side, hops int) []diagnose.Place {
	if hops <= 0 {
		return nil
	}
	peer := s.of.neighbour(side)
	p, begun := diagnose.Place{Rank: peer, Node: s.of.nodes[peer].String()}, time.Now()
	if s.process(&p) {
		return []diagnose.Place{p}
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < placesLeast {
		return nil
	}
	// It is no wait of its own: people are told of the operation's.
	answer, err := controlled(ctx, s.control, func(ctx context.Context, c *bootstrap.Control) (json.RawMessage, error) {
		return c.Ask(ctx, int(side), askPlaces, placesAsked{hops})
	})
	var places []diagnose.Place
	if err == nil {
		err = json.Unmarshal(answer, &places)
	}
	if err == nil {
		return places
	}
	_, refused := errors.AsType[*bootstrap.AnswerError](err)
	switch {
	case refused || !errors.Is(err, context.DeadlineExceeded):
		p.Presence = ""
	case !s.process(&p) && p.Presence == "" && !s.sleptSince(begun):
		p.Presence, p.Witnesses = diagnose.Silent, []int{s.of.rank}
	}
	return []diagnose.Place{p}
}

// sleptSince tells whether this process stood still itself: it may not have heard an answer.
func (s *Stalls) sleptSince(begun time.Time) bool {
	control, err := s.control.ring()
	if err != nil {
		return false
	}
	slept, woke := control.Slept()
	return slept > 0 && woke < time.Since(begun)
}

// process asks the kernel how a process is that runs on this host, and tells whether it is
// stopped or gone.
func (s *Stalls) process(p *diagnose.Place) bool {
	control, err := s.control.ring()
	return err == nil && edges.Process(p, control, s.of.rank)
}

// places asks all ranks near this one where they are, both ways round, and returns what is
// known of each, by rank. It takes at most two seconds.
func (s *Stalls) places(ctx context.Context) []diagnose.Place {
	ctx, cancel := context.WithTimeout(ctx, placesWithin)
	defer cancel()
	n := len(s.of.nodes)
	places := make([]diagnose.Place, n)
	for i := range places {
		places[i] = diagnose.Place{Rank: i, Node: s.of.nodes[i].String()}
	}
	var heard [2][]diagnose.Place
	var asking sync.WaitGroup
	for _, side := range bothSides {
		asking.Go(func() { heard[side] = s.at(ctx, side, min(placesHops, n-1)) })
	}
	asking.Wait()
	for _, p := range slices.Concat(heard[:]...) {
		if p.Rank < 0 || p.Rank >= n || p.Rank == s.of.rank {
			continue
		}
		places[p.Rank] = diagnose.Merged(places[p.Rank], p)
	}
	places[s.of.rank] = s.own()
	return places
}

// Find asks all ranks where they are, and returns who keeps this one waiting, the
// gravest first.
func (s *Stalls) Find(ctx context.Context) []diagnose.Blame {
	return diagnose.Stall(s.places(ctx), s.of.rank)
}

// Awaited returns what this rank is awaited for, if it is. That is for a rank that
// waits for others in vain: they may be in another operation, or just ahead.
func (s *Stalls) Awaited() (a Awaited, ok bool) {
	control, err := s.control.ring()
	if err != nil {
		return a, false
	}
	purpose, rank, ok := control.Ahead()
	if !ok {
		return a, false
	}
	return Awaited{Purpose: purpose, By: s.of.NodeName(rank), Rank: s.of.rank}, true
}

// Waiting is that nothing has moved since then that others are to do: to be called again
// while that lasts, several times a second.
func (s *Stalls) Waiting(what string, from []int, since time.Time) {
	if control, err := s.control.ring(); err == nil {
		control.Note(what, from, since)
	}
}

// Awaited is a control operation that another rank has begun and that this one has
// to begin next.
type Awaited struct {
	Purpose
	By   string // the node that began it
	Rank int    // this one
}

// String is as in "rank 3 (c) waits for rank 0 to make the connections for a tree".
func (a Awaited) String() string {
	return fmt.Sprintf("%s waits for rank %d to %s", a.By, a.Rank, a.ToDo())
}
