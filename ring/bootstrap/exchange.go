package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"ringcli/configs/usage"
)

// Exchange connects to both neighbours, in whatever order the nodes start, and
// swaps a JSON value with each. The order is that of the source document: index 0
// sends to the right and then listens to the left, the others listen first and
// then send; then the same in the opposite direction. At the context's deadline
// the error is a *TimeoutError that says who is up; it ends the ring, unless
// Config.ByHand.
//
// Called again it publishes new values and returns at once what the neighbours
// have published last. They need not call it again to hear of it: what was
// published is there before any later question over the same connection.
func (c *Control) Exchange(ctx context.Context, toLeft, toRight any) (fromLeft, fromRight json.RawMessage, err error) {
	var payloads [2]json.RawMessage
	for side, v := range [2]any{left: toLeft, right: toRight} {
		if payloads[side], err = measure(v); err != nil {
			return nil, nil, fmt.Errorf("exchange: %w", err)
		}
	}
	if err = c.connect(ctx, payloads); err != nil {
		if late, ok := errors.AsType[*TimeoutError](err); ok && !c.cfg.ByHand {
			kind := KindTimeout
			if usage.Is(late) {
				kind = KindMismatch
			}
			said := late.Parts()
			v := c.verdict(kind, -1, "%s", said.Result).Coded(late.FailureCode())
			v.Fix, v.Evidence = said.Fix, said.Evidence
			v.Rank, v.Edge, v.Confidence = late.blamed()
			if c.cfg.Review != nil {
				v = c.cfg.Review(ctx, v)
			}
			c.Fail(v)
		}
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.info[left], c.info[right], nil
}

// connect swaps infos, and seals the ring with the first.
func (c *Control) connect(ctx context.Context, payloads [2]json.RawMessage) (err error) {
	c.dialling.Do(func() { c.running.Go(c.dial) })
	for _, to := range [2]int{right, left} {
		from := 1 - to
		if c.rank == 0 {
			err = c.sendInfo(ctx, to, payloads[to])
		}
		if err == nil {
			err = c.awaitInfo(ctx, from)
		}
		if err == nil && c.rank != 0 {
			err = c.sendInfo(ctx, to, payloads[to])
		}
		if err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.sealed && !c.closed {
		c.cfg.History.met(&Vigil{c: c, who: c.members[0]}, c.connections[left].who.Instance, c.connections[right].who.Instance)
		c.running.Go(c.compareClocks)
	}
	c.sealed = true
	c.notify()
	return nil
}

// blamed returns the one edge over which connections do not arrive, or the one rank that is not
// up: certain where its host says so. -1: neither, or several.
func (e *TimeoutError) blamed() (rank int, edge Direction, sure Confidence) {
	rank, sure = -1, Suspect
	switch {
	case len(e.Lost) > 1:
		return rank, edge, sure
	case len(e.Lost) == 1 && e.Lost[0].Both: // the host may be down
		return rank, e.Lost[0], sure
	case len(e.Lost) == 1:
		return rank, e.Lost[0], Certain
	}
	for _, p := range e.Peers {
		switch {
		case p.Up:
		case rank >= 0:
			return -1, edge, Suspect
		case p.Mute || p.unasked:
			rank = p.Rank
		default:
			rank, sure = p.Rank, Certain
		}
	}
	return rank, edge, sure
}

// exchanging is what a neighbour is awaited for before the ring is sealed.
const exchanging = "connect"

func (c *Control) sendInfo(ctx context.Context, side int, payload json.RawMessage) error {
	return c.wait(ctx, exchanging, true, func() []int {
		// Index 0 speaks first, and only once both neighbours are there: until
		// then either can be restarted without harm. Who has said goodbye is not.
		var absent []int
		for s, l := range c.connections {
			if (l == nil || !l.goodbye.IsZero()) && (s == side || c.rank == 0) {
				absent = append(absent, c.neighbour(s))
			}
		}
		if c.failure != nil || c.closed {
			return []int{c.neighbour(side)} // not sent; wait says why
		}
		if absent == nil {
			l := c.connections[side]
			l.used = true
			if c.rank == 0 && c.epoch.Load() == 0 {
				c.epoch.Store(c.cfg.History.next())
			}
			c.send(l, TypeInfo, information{Members: c.membersKnown(), Value: payload})
		}
		return absent
	})
}

// information is the payload of an info frame.
type information struct {
	// Members are by rank, as far as the sender knows: the first round goes by all ranks, and
	// the second, the other way, brings what it has gathered.
	Members []identity      `json:"members,omitempty"`
	Value   json.RawMessage `json:"value"`
}

// mostMembers is of how many ranks all others learn who they are. Infos go round one after the
// other: in a large ring they must not grow with it, and neighbours know each other anyhow.
const mostMembers = 256

// membersKnown needs the lock. What only neighbours ask for is left out.
func (c *Control) membersKnown() []identity {
	known := make([]identity, min(c.size, mostMembers))
	for i := range known {
		known[i] = c.members[i]
		known[i].Instance = ""
		if i > 0 { // whom others may follow
			known[i].Process = nil
		}
	}
	return known
}

// takeInfo notes what a neighbour has sent in Exchange.
func (c *Control) takeInfo(l *connection, i information) error {
	if len(i.Members) > c.size {
		return fmt.Errorf("info of rank %d about %d ranks: expected at most %d", l.peer, len(i.Members), c.size)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for rank, m := range i.Members {
		if c.members[rank].PID == 0 && m.PID != 0 {
			c.members[rank] = m
		}
	}
	l.used = true
	c.info[l.side] = i.Value
	c.notify()
	return nil
}

func (c *Control) awaitInfo(ctx context.Context, side int) error {
	return c.wait(ctx, exchanging, true, func() []int {
		// A right neighbour that cannot be reached holds up the whole ring, so
		// it is the one to name.
		switch {
		case c.info[side] != nil:
			return nil
		case c.connections[side] != nil && c.connections[right] == nil:
			return []int{c.neighbour(right)}
		}
		return []int{c.neighbour(side)}
	})
}
