package bootstrap

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
)

// exchanger swaps a JSON value with each neighbour.
type exchanger struct {
	own        *node
	life       *lifetime
	members    *members
	neighbours *neighbours
	outcome    *outcome
	epochs     *epochs
	changes    *changes
	wait       waitFunc

	mu   sync.Mutex         // guards info
	info [2]json.RawMessage // what the neighbours sent
}

func (x *exchanger) came(side int) json.RawMessage {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.info[side]
}

// swap sends the payloads and waits for the neighbours' infos.
func (x *exchanger) swap(ctx context.Context, payloads [2]json.RawMessage) (err error) {
	for _, to := range [2]int{right, left} {
		from := 1 - to
		if x.own.rank == 0 {
			err = x.sendInfo(ctx, to, payloads[to])
		}
		if err == nil {
			err = x.awaitInfo(ctx, from)
		}
		if err == nil && x.own.rank != 0 {
			err = x.sendInfo(ctx, to, payloads[to])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// exchanging is what a neighbour is awaited for before the ring is sealed.
const exchanging = "connect"

func (x *exchanger) sendInfo(ctx context.Context, side int, payload json.RawMessage) error {
	return x.wait(ctx, exchanging, true, func() []int {
		// Index 0 speaks first, and only once both neighbours are there: until
		// then either can be restarted without harm. Who has said goodbye is not.
		x.neighbours.mu.Lock() // no connection is replaced meanwhile
		defer x.neighbours.mu.Unlock()
		var absent []int
		for s := range [2]int{} {
			if !x.neighbours.at(s).here() && (s == side || x.own.rank == 0) {
				absent = append(absent, x.own.neighbour(s))
			}
		}
		if x.outcome.phase().failure != nil || x.life.over() {
			return []int{x.own.neighbour(side)} // not sent; wait says why
		}
		if absent == nil {
			l := x.neighbours.at(side)
			if !l.use() {
				return []int{l.peer}
			}
			if x.own.rank == 0 {
				x.epochs.open()
			}
			l.send(TypeInfo, information{Members: x.members.known(), Value: payload})
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

// takeInfo notes what a neighbour has sent in Exchange.
func (x *exchanger) takeInfo(l *connection, i information) error {
	if len(i.Members) > x.own.size {
		return fmt.Errorf("info of rank %d about %d ranks: expected at most %d", l.peer, len(i.Members), x.own.size)
	}
	x.members.learn(i.Members)
	l.set(func() { l.now.used = true })
	x.mu.Lock()
	x.info[l.side] = i.Value
	x.mu.Unlock()
	x.changes.notify()
	return nil
}

func (x *exchanger) awaitInfo(ctx context.Context, side int) error {
	return x.wait(ctx, exchanging, true, func() []int {
		// A right neighbour that cannot be reached holds up the whole ring, so
		// it is the one to name.
		switch {
		case x.came(side) != nil:
			return nil
		case x.neighbours.at(side) != nil && x.neighbours.at(right) == nil:
			return []int{x.own.neighbour(right)}
		}
		return []int{x.own.neighbour(side)}
	})
}
