package bootstrap

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/bootstrap/oob"
)

// verdicts brings up Controls that cannot agree and checks that all of the given
// ones say so, in words and at once.
func verdicts(t *testing.T, world []*Control, words ...string) {
	t.Helper()
	ctx := within(t) // at its end they would say that it has passed
	for i, err := range each(world, func(c *Control) error { return exchange(ctx, c) }) {
		text := textOf(err)
		if !errors.Is(err, usage.Err) || strings.Contains(text, "\n") {
			t.Errorf("rank %d: %s: expected one line of usage", world[i].own.rank, text)
		}
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("rank %d: %s: expected %q", world[i].own.rank, text, w)
			}
		}
	}
}

func TestOtherList(t *testing.T) {
	nodes := freshNodes(t, 3)
	other := append([]hosts.Node(nil), nodes...)
	other[2].Port = 7000
	verdicts(t, []*Control{openRank(t, configFor(t, nodes, 0)), openRank(t, configFor(t, other, 1))},
		"entry 2 is "+nodes[2].String(), other[2].String(), "rank 0 at ", "rank 1 ("+nodes[1].String())
}

// Of a ring whose other ranks have one list, the rank with another is named, wherever it is, by
// all that hear of it.
func TestTheRankWithAnotherList(t *testing.T) {
	for wrong := range 4 {
		nodes := freshNodes(t, 4)
		other := append([]hosts.Node(nil), nodes...)
		other[(wrong+2)%4].Port = 7000
		var world []*Control
		for rank := range nodes {
			list := nodes
			if rank == wrong {
				list = other
			}
			world = append(world, openRank(t, configFor(t, list, rank)))
		}
		ctx := within(t)
		for rank, err := range each(world, func(c *Control) error { return exchange(ctx, c) }) {
			v, is := errors.AsType[*Verdict](err)
			if !is || v.Rank != wrong || v.Code != codes.List || v.Edge.Both {
				t.Errorf("rank %d has another list: rank %d says %#v: expected that rank", wrong, rank, v)
			}
		}
	}
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
	twin.Bind = addrOf(hosts.Node{Host: strings.TrimSuffix(nodes[0].Host, ".1") + ".99", Port: defaultPort})
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
	if !errors.Is(err, usage.Err) || !strings.Contains(textOf(err), "ringcli with index 1 of the same list runs there") {
		t.Errorf("the second: %v", err)
	}
	if err := <-done; !errors.Is(err, usage.Err) || !strings.Contains(textOf(err), "two nodes have index 1") {
		t.Errorf("the first: %v", err)
	}
}

func TestTwinOfARunningRing(t *testing.T) {
	world := ring(t, 2, nil)
	if _, err := Open(t.Context(), configFor(t, world[0].own.cfg.List, 1)); !errors.Is(err, usage.Err) {
		t.Errorf("the second: %v", err)
	}
	ctx := within(t)
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
	if text := textOf(err); !errors.Is(err, usage.Err) || !strings.Contains(text, nodes[0].String()) || !strings.Contains(text, "in use") {
		t.Errorf("%s: expected usage that names the address", text)
	}
}

func TestOtherVersion(t *testing.T) {
	nodes := freshNodes(t, 2)
	c := openRank(t, configFor(t, nodes, 1))
	listenAs(t, nodes[0], "it", 99)
	f := callAs(t, nodes[1], &oob.Frame{Version: 99, Type: TypeHello, Sender: 0, Receiver: 1, Epoch: 1, Payload: []byte(`{"instance":"it"}`)})
	if f.Type != TypeReject || !strings.Contains(string(f.Payload), "speaks version 99") {
		t.Errorf("%+v: expected to be rejected", f)
	}
	err := exchange(t.Context(), c)
	if !errors.Is(err, usage.Err) || !strings.Contains(textOf(err), "version 99") {
		t.Errorf("%v", err)
	}
}

// Nodes of other rings and other versions that call from elsewhere are told why
// they are refused, named, and no harm.
func TestOtherRingsCall(t *testing.T) {
	t.Parallel()
	nodes := freshNodes(t, 3)
	cfg := configFor(t, nodes, 1)
	cfg.Addrs[0] = netip.MustParseAddrPort("192.0.2.1:18600") // where rank 0 is expected, by RFC 5737 nobody
	one := openRank(t, cfg)
	for _, call := range []struct {
		version int
		hello   string
		want    string
	}{
		{oob.Version + 1, `{}`, "speaks version"},
		{oob.Version, `{"size":5,"digest":"x"}`, "list of 5 nodes"},
		{oob.Version, `{"size":3,"digest":"x","list":["a:1","b:1","c:1"]}`, "entry 0 is a:1 there"},
	} {
		f := callAs(t, nodes[1], &oob.Frame{Version: call.version, Type: TypeHello, Sender: 0, Receiver: 1, Payload: []byte(call.hello)})
		if f.Type != TypeReject || !strings.Contains(string(f.Payload), call.want) {
			t.Errorf("%s %s: expected to be rejected: %s", f.Type, f.Payload, call.want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	err := one.waiter.wait(ctx, "news", true, func() []int { return []int{0} })
	for _, want := range []string{"stranger at 127.0.0.1:", "speaks version", "list of 5 nodes", "entry 0 is a:1 there"} {
		if !strings.Contains(textOf(err), want) {
			t.Errorf("%v: expected %q", err, want)
		}
	}
	world := []*Control{openRank(t, configFor(t, nodes, 0)), one, openRank(t, configFor(t, nodes, 2))}
	noErrors(t, each(world, func(c *Control) error { return exchange(within(t), c) }))
}

// callAs sends a first frame to a node and returns what it answers.
func callAs(t *testing.T, to hosts.Node, f *oob.Frame) *oob.Frame {
	t.Helper()
	conn, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	b, err := oob.AppendFrame(nil, f)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(b); err != nil {
		t.Fatal(err)
	}
	answer, err := oob.ReadFrame(conn)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestSameHost(t *testing.T) {
	own := func(a netip.Addr) bool { return a.IsLoopback() || a == netip.MustParseAddr("10.0.0.1") }
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"10.0.0.2", "10.0.0.2", true},
		{"::ffff:10.0.0.2", "10.0.0.2", true},
		{"fe80::1%eth0", "fe80::1", true},
		{"127.0.0.1", "127.3.2.1", true},
		{"127.0.0.1", "10.0.0.1", true},
		{"10.0.0.2", "10.0.0.1", false},
		{"127.0.0.1", "10.0.0.2", false},
	} {
		if got := sameHost(netip.MustParseAddr(c.a), netip.MustParseAddr(c.b), own); got != c.want {
			t.Errorf("%s and %s: %v, expected %v", c.a, c.b, got, c.want)
		}
	}
	if isOwn(netip.MustParseAddr("192.0.2.1")) {
		t.Error("192.0.2.1 is an example's address, not ours")
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if p := netip.MustParsePrefix(a.String()); !isOwn(p.Addr()) {
			t.Errorf("%s is ours", p)
		}
	}
}
