package bootstrap

import (
	"context"
	"net"
	"strings"
	"syscall"
	"testing"

	"ringcli/ring/bootstrap/hosts"
)

// A process whose predecessor still has the port, and does not answer, listens when that has
// ended.
func TestThePortOfAPredecessor(t *testing.T) {
	t.Parallel()
	cfg := configFor(t, freshNodes(t, 2), 1)
	old, err := net.Listen("tcp", cfg.Bind.String())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if conn, err := old.Accept(); err == nil { // whoever asks hears nothing
			_ = conn.Close()
		}
		_ = old.Close()
	}()
	c, err := Open(within(t), cfg)
	if err != nil {
		t.Fatalf("%v: expected to wait for the port", err)
	}
	closeLater(t, c)
}

// A process that calls while the end of its predecessor's connection is not noticed yet is
// no second node with one index.
func TestANeighbourThatIsStartedAgain(t *testing.T) {
	t.Parallel()
	nodes := freshNodes(t, 3)
	one := openRank(t, configFor(t, nodes, 1))
	var dies cutter
	cfg := configFor(t, nodes, 0)
	dies.install(&cfg)
	dial := cfg.Dial
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dies.dead.Load() {
			return nil, syscall.ECONNREFUSED
		}
		return dial(ctx, network, address)
	}
	old := openRank(t, cfg)
	old.dialler.start()
	caller := func() string {
		if l := one.neighbours.at(left); l != nil {
			return l.who.Instance
		}
		return ""
	}
	until(t, "the first call", func() bool { return caller() == old.own.self.Instance })

	cfg = configFor(t, nodes, 0)
	cfg.Bind = addrOf(hosts.Node{Host: strings.TrimSuffix(nodes[0].Host, ".1") + ".99", Port: defaultPort})
	next := openRank(t, cfg)
	next.dialler.start()
	until(t, "the second call", func() bool {
		one.tally.mu.Lock()
		defer one.tally.mu.Unlock()
		return one.tally.came == 2
	})
	dies.cut()
	until(t, "the place of the first", func() bool { return caller() == next.own.self.Instance || one.Failed() || next.Failed() })
	if one.Failed() || next.Failed() {
		t.Errorf("%v, %v: expected that one took the place of the other", one.Failure(), next.Failure())
	}
}

// While the ring comes up, a process is not told of the death of its own predecessor as if the
// ring had failed for it.
func TestARingThatLostThePredecessor(t *testing.T) {
	t.Parallel()
	nodes := freshNodes(t, 3)
	one := openRank(t, configFor(t, nodes, 1))
	one.outcome.fail(one.own.verdict(KindLost, 0, "rank 0 was lost"), nil)
	next := openRank(t, configFor(t, nodes, 0))
	if err := next.dialler.call(); err == nil || next.Failed() {
		t.Errorf("%v, %v: expected to call again", err, next.Failure())
	}
	one.outcome.fail(one.own.verdict(KindMismatch, 2, "another list"), nil)
}
