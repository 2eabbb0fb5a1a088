package bootstrap

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/bootstrap/kernel"
)

// Both ends' counts say which way connections are lost, and what cannot be told is not.
func TestCuts(t *testing.T) {
	t.Parallel()
	const long = time.Minute
	for name, c := range map[string]struct {
		size    int
		counted []attempts
		want    []string // the beginning of each
		lost    Direction
	}{
		"both reach each other": {2, []attempts{{Rank: 0, Up: long, Reached: true, Came: 1}, {Rank: 1, Up: long, Reached: true, Came: 1}}, nil, Direction{}},
		"one way, by port": {2, []attempts{{Rank: 0, Up: long, Tried: 9, Came: 1}, {Rank: 1, Up: long, Reached: true}},
			[]string{"the connections of rank 0 (a:18600) to rank 1 (b:18600) do not arrive: 9 attempts, none came, while those the other way do: a firewall"}, Direction{From: 0, To: 1}},
		"one way, all of it, at the end that is heard": {2, []attempts{{Rank: 1, Up: long, Tried: 9, Half: true}},
			[]string{"the connections of rank 0 (a:18600) arrive at rank 1 (b:18600), whose answers do not get back"}, Direction{From: 1, To: 0}},
		"one way, all of it, at the other end": {2, []attempts{{Rank: 0, Up: long, Tried: 9}},
			[]string{"rank 1 (b:18600) does not answer rank 0 (a:18600): 9 attempts: host down, the network, or a firewall for TCP port 18600; which way it is cut cannot be told from here"}, Direction{From: 0, To: 1, Both: true}},
		"a longer ring": {3, []attempts{{Rank: 1, Up: long, Reached: true, Came: 1}, {Rank: 2, Up: long, Tried: 1, Came: 1}, {Rank: 0, Up: long, Reached: true}},
			[]string{"the connections of rank 2 (c:18600) to rank 0 (a:18600) do not arrive: 1 attempt, none came: a firewall at rank 0, at rank 2 or between drops TCP port 18600, or the route from rank 2 leads elsewhere"}, Direction{From: 2, To: 0}},
		"refused by who listens": {2, []attempts{{Rank: 0, Up: long, Tried: 9, Problem: "connection refused"}, {Rank: 1, Up: long, Reached: true}},
			[]string{"rank 0 (a:18600) does not reach rank 1 (b:18600), which listens: connection refused"}, Direction{From: 0, To: 1}},
		"who has only just begun is not blamed": {2, []attempts{{Rank: 0, Up: long, Tried: 9}, {Rank: 1, Up: time.Second, Reached: true}}, nil, Direction{}},
		"nor who refuses and is not known":      {2, []attempts{{Rank: 0, Up: long, Tried: 9, Problem: "connection refused"}}, nil, Direction{}},
	} {
		control := newControl(Config{List: []hosts.Node{{Host: "a", Port: 18600}, {Host: "b", Port: 18600}, {Host: "c", Port: 18600}}[:c.size], Addrs: make([]netip.AddrPort, c.size)})
		var got []string
		late := &TimeoutError{}
		for _, cut := range control.own.cuts(c.counted) {
			got = append(got, cut.text)
			late.Lost = append(late.Lost, cut.lost)
		}
		_, edge, _ := late.blamed()
		ok := len(got) == len(c.want) && edge == c.lost
		for i := range got {
			ok = ok && strings.HasPrefix(got[i], c.want[i])
		}
		if !ok {
			t.Errorf("%s: %q, %+v: expected %q, %+v", name, got, edge, c.want, c.lost)
		}
	}
}

func TestProcAddr(t *testing.T) {
	t.Parallel()
	nodes := freshNodes(t, 1)
	c := openRank(t, configFor(t, nodes, 0))
	found := kernel.Sockets(kernel.Listen, uint16(nodes[0].Port))
	if !slices.ContainsFunc(found, func(s kernel.Socket) bool { return s.Local.String() == c.greeter.listener.Addr().String() }) {
		t.Errorf("%d listeners, and none is %s", len(found), c.greeter.listener.Addr())
	}
}

// Another ringcli that listens on all addresses is called that, and so is one that keeps
// this rank from doing so.
func TestWildcardListener(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "[::]:0")
	if err != nil {
		t.Fatal(err)
	}
	nodes := freshNodes(t, 2)
	for i := range nodes {
		nodes[i].Port = free.Addr().(*net.TCPAddr).Port
	}
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	everywhere := func(nodes []hosts.Node) Config {
		cfg := configFor(t, nodes, 0)
		cfg.Bind = netip.AddrPortFrom(netip.IPv6Unspecified(), cfg.Bind.Port())
		return cfg
	}
	for _, c := range []struct {
		holder, second Config
		want           string
	}{
		{everywhere(nodes[:1]), configFor(t, nodes, 1), "rank 0 of another ring listens there, on all addresses of its node (host "},
		{configFor(t, nodes[:1], 0), everywhere(nodes[1:]), "rank 0 of another ring listens there (host "},
	} {
		holder, err := Open(t.Context(), c.holder)
		if err != nil {
			t.Fatal(err)
		}
		second, err := Open(t.Context(), c.second)
		if !usage.Is(err) || !strings.Contains(textOf(err), c.want) {
			t.Errorf("%v: expected %q", err, c.want)
		}
		if second != nil {
			_ = second.Close()
		}
		if err := holder.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Counts reach the other end in frames that do get through.
func TestCountsAreCarried(t *testing.T) {
	t.Parallel()
	nodes := freshNodes(t, 2)
	cfg := configFor(t, nodes, 0)
	cfg.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done() // no answer ever comes
		return nil, ctx.Err()
	}
	world := []*Control{openRank(t, cfg), openRank(t, configFor(t, nodes, 1))}
	ctx, cancel := context.WithCancel(t.Context())
	var known []attempts
	go func() {
		defer cancel()
		for begun := time.Now(); (len(known) < 2 || !known[1].Reached) && time.Since(begun) < patience; time.Sleep(time.Millisecond) {
			known = world[0].tally.known()
		}
	}()
	for r, err := range each(world, func(c *Control) error { return exchange(ctx, c) }) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("rank %d: %v: expected to be cancelled", r, err)
		}
	}
	<-ctx.Done()
	if len(known) != 2 || known[1].Rank != 1 || !known[1].Reached {
		t.Errorf("rank 0 knows %+v: expected rank 1's counts, too", known)
	}
}
