package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/bootstrap/oob"
)

// tape keeps what a rank sends to its right neighbour.
type tape struct {
	mu   sync.Mutex
	sent bytes.Buffer
}

type tapedConn struct {
	net.Conn
	t *tape
}

func (c tapedConn) Write(b []byte) (int, error) {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	c.t.sent.Write(b)
	return c.Conn.Write(b)
}

func (t *tape) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return tapedConn{c, t}, nil
}

// rings brings up a ring of the same nodes again and again.
func reopen(t *testing.T, nodes []hosts.Node, histories []*History, change func(*Config)) []*Control {
	t.Helper()
	world := make([]*Control, len(nodes))
	for i := range world {
		cfg := configFor(t, nodes, i)
		cfg.History = histories[i]
		if change != nil {
			change(&cfg)
		}
		var err error
		if world[i], err = Open(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	return world
}

func connectAll(t *testing.T, world []*Control) {
	t.Helper()
	ctx := within(t)
	noErrors(t, each(world, func(c *Control) error { return exchange(ctx, c) }))
}

func closeAll(t *testing.T, world []*Control) {
	t.Helper()
	noErrors(t, each(world, func(c *Control) error { return c.Close() }))
}

// All ranks have rank 0's number, another in each ring, and one that a restarted rank 0
// chooses, too.
func TestEpochs(t *testing.T) {
	t.Parallel()
	nodes := freshNodes(t, 3)
	histories := []*History{{}, {}, {}}
	var seen []uint32
	for round := range 4 {
		if round == 2 {
			histories[0] = &History{} // another process
		}
		world := reopen(t, nodes, histories, nil)
		connectAll(t, world)
		epoch := world[0].Epoch()
		for r, c := range world {
			if c.Epoch() != epoch || epoch == 0 || slices.Contains(seen, epoch) || c.Stale() != 0 {
				t.Errorf("round %d, rank %d: epoch %d after %v, %d stale frames: expected rank 0's, %d, and a new one", round, r, c.Epoch(), seen, c.Stale(), epoch)
			}
		}
		if (round == 1 || round == 3) && epoch != seen[round-1]+1 {
			t.Errorf("epoch %d follows %d", epoch, seen[round-1])
		}
		seen = append(seen, epoch)
		closeAll(t, world)
	}
}

// Whoever plays back what a rank sent in the last ring is told so, and the ring comes up.
func TestReplayedConversation(t *testing.T) {
	t.Parallel()
	nodes := freshNodes(t, 3)
	histories := []*History{{}, {}, {}}
	var last tape
	record := func(cfg *Config) {
		if cfg.Rank == 0 {
			cfg.Dial = last.dial
		}
	}
	world := reopen(t, nodes, histories, record)
	connectAll(t, world)
	closeAll(t, world)

	world = reopen(t, nodes, histories, nil)
	defer closeAll(t, world)
	replay := func() {
		t.Helper()
		conn, err := net.Dial("tcp", nodes[1].String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := conn.Write(last.sent.Bytes()); err != nil {
			t.Fatal(err)
		}
		f, err := oob.ReadFrame(conn)
		if err != nil || f.Type != TypeReject || !strings.Contains(string(f.Payload), "from a ring that is over") {
			t.Fatalf("%+v, %v: expected to be told that this ring is over", f, err)
		}
	}
	replay()
	connectAll(t, world)
	replay()
	if world[1].Stale() != 2 || world[1].Failed() {
		t.Errorf("%d stale frames, failure %v: expected 2 and none", world[1].Stale(), world[1].Failure())
	}
	ctx := within(t)
	noErrors(t, each(world, func(c *Control) error { return c.Barrier(ctx) }))
}

// A rank that was in an epoch does not enter it again.
func TestEpochIsNotTakenTwice(t *testing.T) {
	t.Parallel()
	nodes := freshNodes(t, 2)
	histories := []*History{{}, {}}
	world := reopen(t, nodes, histories, nil)
	connectAll(t, world)
	closeAll(t, world)
	histories[0].last--
	histories[0].epochs = nil
	world = reopen(t, nodes, histories, nil)
	defer closeAll(t, world)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	go func() {
		for world[1].Stale() == 0 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	for rank, err := range each(world, func(c *Control) error { return exchange(ctx, c) }) {
		if v := new(Verdict); !errors.Is(err, context.Canceled) && (!errors.As(err, &v) || !strings.Contains(v.Text, "which this process has seen before")) {
			t.Errorf("rank %d: %v: expected that the epoch is refused", rank, err)
		}
	}
	until(t, "the remark", func() bool {
		return strings.Contains(strings.Join(world[1].foreign.remarked(), " "), "which this process has seen before")
	})
}

// A frame of another epoch on a connection of the ring is dropped and counted.
func TestFrameOfAnotherEpoch(t *testing.T) {
	t.Parallel()
	world := ring(t, 2, nil)
	c := world[0]
	l := c.neighbours.at(left)
	for n, frame := range []oob.Frame{
		{Type: TypeParts, Epoch: c.Epoch() - 1, Payload: []byte(`{"op":1,"kind":"barrier","origins":[1],"data":[""]}`)},
		{Type: TypeParts, Payload: []byte(`{"op":1,"kind":"barrier","origins":[1],"data":[""]}`)},
		{Type: TypeVerdict, Epoch: c.Epoch() - 1, Payload: []byte(`{"kind":"lost","rank":1,"text":"gone"}`)},
		{Type: TypeGoodbye, Epoch: c.Epoch() + 1},
		{Type: TypeInfo, Epoch: c.Epoch() + 1, Payload: []byte(`1`)},
	} {
		frame.Version, frame.Sender, frame.Edge = oob.Version, l.peer, c.own.edge(left)
		if err := c.handle(l, &frame); err != nil || c.Stale() != uint64(n+1) {
			t.Errorf("%s: %v, %d counted: expected it to be dropped", frame.Type, err, c.Stale())
		}
	}
	if c.Failed() || !l.here() {
		t.Error("an old frame had an effect")
	}
	ctx := within(t)
	noErrors(t, each(world, func(c *Control) error { return c.Barrier(ctx) }))
}
