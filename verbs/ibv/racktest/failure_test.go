package racktest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ringcli/verbs/ibv/racktest/rack"
)

// A machine is lost in the middle of an all-reduce: the ranks on the others end in
// time, and say with which status and which rank.
func TestLostMachine(t *testing.T) {
	const (
		victim  = 2 // the rank, on machine 3
		node    = victim + 1
		timeout = 10 * time.Second // --timeout: how long nothing may move; an emulated machine takes seconds to open
		// A queue pair gives up sooner (connect); who has nothing in flight to the
		// victim, after the timeout. Then findings are asked for and files written, by
		// a machine that QEMU emulates.
		limit = timeout + 15*time.Second
	)
	rxe := onRXE(1, 2, 3, 4)
	mixed := []seat{rxe[0], onSoft(t, 254), rxe[2], rxe[3]}
	for _, c := range []struct {
		how      string
		seats    []seat
		protocol string
		retries  int
		lose     func() error
		victim   string // what the victim says
	}{
		{"link cut", rxe, "eager", 6, func() error { return bench.Link(node, rack.LinkCut) }, ""},
		{"link down", rxe, "rendezvous-read", 6, func() error { return bench.Link(node, rack.LinkDown) }, "port 1 of ibv:rxe0 went down"},
		{"killed", mixed, "rendezvous-write", 6, func() error { return bench.Kill(node) }, ""},
		// rdma_rxe retries for ever.
		{"link cut, without an end of retries", rxe, "rendezvous-write", 7, func() error { return bench.Link(node, rack.LinkCut) }, ""},
	} {
		t.Run(c.how, func(t *testing.T) {
			t.Cleanup(func() { restore(t, node) })
			script := fmt.Sprintf("all-reduce --count 1000 --iters 1 --warmup 0; all-reduce --size 16M --segment 32K --depth 16 --duration 5m --protocol %s", c.protocol)
			members := connect(t, c.seats, "--timeout", timeout.String(), "--retry-cnt", strconv.Itoa(c.retries), "-c", script)
			for _, m := range members {
				m.await(t, "the first all-reduce", 2*deadline, func(stdout string) bool { return strings.Contains(stdout, `"command":"all-reduce"`) })
			}
			before := sentPackets(t, node)
			// It sends three times as many packets, and takes seconds.
			eventually(t, deadline, "the second all-reduce is at work", func() bool { return sentPackets(t, node) > before+2000 })
			began := time.Now()
			if err := c.lose(); err != nil {
				t.Fatal(err)
			}
			for _, m := range members {
				if m.rank == victim && c.how == "killed" {
					continue
				}
				code := m.code(t, limit-time.Since(began))
				lines := m.lines(t)
				last := lines[len(lines)-1]
				t.Logf("rank %d after %.1f s: %s", m.rank, m.ended.Sub(began).Seconds(), last.Error)
				if code != 2 || last.OK || last.Command != "all-reduce" || len(lines) != 2 {
					t.Errorf("rank %d: exit code %d\n%s%s", m.rank, code, m.stdout, m.stderr)
				}
				kind := "silent"
				if m.rank == victim {
					kind = "isolated"
				}
				if v := last.Verdict; v == nil || v.Kind != kind || v.Rank != victim || !strings.Contains(last.Error, fmt.Sprintf("rank %d (%s:18600)", victim, rxe[victim].address)) {
					t.Errorf("rank %d: expected that rank %d is %s: %+v\n%s%s", m.rank, victim, kind, v, m.stdout, m.stderr)
				}
				if m.rank == victim && !strings.Contains(last.Error+findings(last), c.victim) {
					t.Errorf("the victim does not say %q\n%s%s", c.victim, m.stdout, m.stderr)
				}
			}
			for k := 1; k <= nodes; k++ {
				if k != node {
					nothingLeft(t, k)
				}
			}
		})
	}
}

func findings(l line) string {
	var texts []string
	for _, f := range l.Findings {
		texts = append(texts, f.Text)
	}
	return strings.Join(texts, "\n")
}

// sentPackets is how many packets the device of machine k has sent.
func sentPackets(t testing.TB, k int) int {
	t.Helper()
	n, err := strconv.Atoi(inVM(t, k, "cat", "/sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// nothingLeft checks that no ringcli, and no queue pair of one, is left in machine k.
func nothingLeft(t testing.TB, k int) {
	t.Helper()
	if left, err := tryVM(t, deadline, k, "pgrep", "-a", "ringcli"); err == nil {
		t.Errorf("left in machine %d: %s", k, left)
	}
	for qp := range strings.Lines(inVM(t, k, "rdma", "resource", "show", "qp")) {
		if !slices.Contains(strings.Fields(qp), "GSI") {
			t.Errorf("left in machine %d: %s", k, qp)
		}
	}
}

// restore puts machine k back as it was, and looks for what the test has left there.
func restore(t testing.TB, k int) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*deadline)
	defer cancel()
	if err := bench.Link(k, rack.LinkUp); err != nil { // it is down
		if err := bench.Start(ctx, k); err != nil {
			t.Error(err)
		}
		return
	}
	_, err := bench.Command(ctx, k, "sh", "-c", `
		until grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state; do sleep 0.05; done
		! pgrep -a ringcli`).Output()
	if err != nil {
		t.Errorf("machine %d is not as it was: %v", k, err)
	}
}
