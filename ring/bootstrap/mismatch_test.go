package bootstrap

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// verdicts brings up Controls that cannot agree and checks that all of the given
// ones say so, in words and at once.
func verdicts(t *testing.T, world []*Control, words ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	start := time.Now()
	for i, err := range each(world, func(c *Control) error { return exchange(ctx, c) }) {
		text := textOf(err)
		if !errors.Is(err, ErrUsage) || strings.Contains(text, "\n") {
			t.Errorf("rank %d: %s: expected one line of usage", world[i].rank, text)
		}
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("rank %d: %s: expected %q", world[i].rank, text, w)
			}
		}
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("it took %s: expected an answer at once", took)
	}
}

func TestOtherList(t *testing.T) {
	nodes := freshNodes(t, 3)
	other := append([]Node(nil), nodes...)
	other[2].Port = 7000
	verdicts(t, []*Control{openRank(t, configFor(t, nodes, 0)), openRank(t, configFor(t, other, 1))},
		"entry 2 is "+nodes[2].String(), other[2].String(), "rank 0 at ", "rank 1 ("+nodes[1].String())
}

func TestOtherSize(t *testing.T) {
	nodes := freshNodes(t, 4)
	verdicts(t, []*Control{openRank(t, configFor(t, nodes, 0)), openRank(t, configFor(t, nodes[:3], 1))}, "list of 4", "of 3")
}

func TestTwoNodesWithOneIndex(t *testing.T) {
	nodes := freshNodes(t, 4)
	twin := configFor(t, nodes, 1)
	twin.Bind = addrOf(nodes[2]) // on the host that should have been index 2
	verdicts(t, []*Control{openRank(t, configFor(t, nodes, 0)), openRank(t, configFor(t, nodes, 1)), openRank(t, twin)},
		"two nodes have index 1", "pid ")
}

// Two entries that lead to one address and port, and a wrong --index alone.
func TestNeighbourIsTheNodeItself(t *testing.T) {
	nodes := freshNodes(t, 3)
	cfg := configFor(t, nodes, 0)
	cfg.Addrs[1] = cfg.Addrs[0]
	verdicts(t, []*Control{openRank(t, cfg)}, "entry 1 of the list", "leads to this node itself")
}

func TestTwinsAtTheSameNeighbour(t *testing.T) {
	nodes := freshNodes(t, 3)
	twin := configFor(t, nodes, 1)
	twin.Bind = addrOf(Node{Host: strings.TrimSuffix(nodes[0].Host, ".1") + ".99", Port: DefaultPort})
	verdicts(t, []*Control{openRank(t, configFor(t, nodes, 1)), openRank(t, configFor(t, nodes, 2)), openRank(t, twin)}, "two nodes have index 1")
}

// A second node on the same address cannot listen; it says who does, and that
// one is told.
func TestTwinOnOneAddress(t *testing.T) {
	nodes := freshNodes(t, 3)
	first := openRank(t, configFor(t, nodes, 1))
	done := make(chan error, 1)
	go func() { done <- exchange(t.Context(), first) }()
	_, err := Open(t.Context(), configFor(t, nodes, 1))
	if !errors.Is(err, ErrUsage) || !strings.Contains(textOf(err), "ringcli with index 1 of the same list runs there") {
		t.Errorf("the second: %v", err)
	}
	if err := <-done; !errors.Is(err, ErrUsage) || !strings.Contains(textOf(err), "two nodes have index 1") {
		t.Errorf("the first: %v", err)
	}
}

func TestTwinOfARunningRing(t *testing.T) {
	world := ring(t, 2, nil)
	if _, err := Open(t.Context(), configFor(t, world[0].cfg.List, 1)); !errors.Is(err, ErrUsage) {
		t.Errorf("the second: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	noErrors(t, each(world, func(c *Control) error { return c.Barrier(ctx) }))
}

func TestPortInUse(t *testing.T) {
	nodes := freshNodes(t, 2)
	ln, err := net.Listen("tcp", nodes[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("SSH-2.0-test\r\n"))
			_ = c.Close()
		}
	}()
	_, err = Open(t.Context(), configFor(t, nodes, 0))
	if text := textOf(err); !errors.Is(err, ErrUsage) || !strings.Contains(text, nodes[0].String()) || !strings.Contains(text, "in use") {
		t.Errorf("%s: expected usage that names the address", text)
	}
}

func TestOtherVersion(t *testing.T) {
	nodes := freshNodes(t, 2)
	c := openRank(t, configFor(t, nodes, 1))
	conn, err := net.Dial("tcp", nodes[1].String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	b, err := AppendFrame(nil, &Frame{Version: 99, Type: TypeHello, Sender: 0, Receiver: 1, Epoch: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(b); err != nil {
		t.Fatal(err)
	}
	f, err := ReadFrame(conn)
	if err != nil || f.Type != TypeReject || !strings.Contains(string(f.Payload), "speaks version 99") {
		t.Errorf("%+v, %v: expected to be rejected", f, err)
	}
	err = exchange(t.Context(), c)
	if !errors.Is(err, ErrUsage) || !strings.Contains(textOf(err), "version 99") {
		t.Errorf("%v", err)
	}
}
