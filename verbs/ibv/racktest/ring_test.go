package racktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// seat is where a rank sits.
type seat struct {
	node    int // the machine; 0: the host's leg, where the soft provider speaks RoCEv2
	address netip.Addr
	plain   bool // the machine is without rdma_rxe
}

func (s seat) device() string {
	switch {
	case s.node == 0:
		return "soft:br0"
	case s.plain:
		return "soft:eth0"
	default:
		return "ibv:rxe0"
	}
}

// deviceTo is the device of an edge, which ringcli chooses by itself.
func (s seat) deviceTo(peer seat) string {
	if s.node == peer.node {
		return "shm:0" // two processes of one host
	}
	return s.device()
}

// onRXE are seats in machines.
func onRXE(nodes ...int) []seat {
	var seats []seat
	for _, k := range nodes {
		seats = append(seats, seat{node: k, address: bench.Address(k)})
	}
	return seats
}

// onSoft is a seat on the host's leg, at an address of its own: 10.77.0.last.
func onSoft(t testing.TB, last byte) seat {
	t.Helper()
	prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 77, 0, last}), 24)
	if !strings.Contains(onHost(t, "ip", "addr", "show"), " "+prefix.String()+" ") {
		if err := bench.AddHostAddress(prefix); err != nil {
			t.Fatal(err)
		}
	}
	return seat{address: prefix.Addr()}
}

func listOf(seats []seat) string {
	var list []string
	for _, s := range seats {
		list = append(list, s.address.String())
	}
	return strings.Join(list, ",")
}

// member is a ringcli that runs: a rank of a ring.
type member struct {
	rank           int
	seat           seat
	stdin          io.WriteCloser
	stdout, stderr *output
	done           chan struct{}
	err            error     // once done is closed
	ended          time.Time // likewise
}

// sit starts ringcli with the arguments as a rank of a ring. It ends at the latest
// with the test.
func sit(t testing.TB, seats []seat, rank int, command string, args ...string) *member {
	t.Helper()
	ringcli := binary(t, "ringcli")
	args = append([]string{command, "--index", strconv.Itoa(rank), "--list", listOf(seats), "--output", "json"}, args...)
	ctx, cancel := context.WithCancel(context.Background())
	in, stdin := io.Pipe()
	m := &member{rank: rank, seat: seats[rank], stdin: stdin, stdout: newOutput(), stderr: newOutput(), done: make(chan struct{})}
	var run func() error
	if m.seat.node == 0 {
		c := bench.Host(ctx, ringcli, args...)
		c.Dir, c.Stdout, c.Stderr = t.TempDir(), m.stdout, m.stderr
		run = c.Run
	} else {
		c := bench.Command(ctx, m.seat.node, ringcli, args...)
		c.Dir, c.Stdin, c.Stdout, c.Stderr = "/tmp", in, m.stdout, m.stderr
		run = c.Run
	}
	go func() {
		m.err = run()
		m.ended = time.Now()
		_ = in.Close()
		close(m.done)
	}()
	t.Cleanup(func() {
		cancel()
		_ = stdin.Close()
		<-m.done // Run has a deadline after its context's end
	})
	return m
}

// connect starts `ringcli connect` on all seats. Queue pairs give up a peer after
// 4.096 us * 2^16 * (6 + 1) = 1.9 s: a machine that QEMU emulates may be away for
// longer than the 0.5 s that are the default.
func connect(t testing.TB, seats []seat, args ...string) []*member {
	t.Helper()
	var members []*member
	for rank := range seats {
		members = append(members, sit(t, seats, rank, "connect", append([]string{"--qp-timeout", "16", "--print", "all"}, args...)...))
	}
	return members
}

// await waits until enough has been printed.
func (m *member) await(t testing.TB, what string, limit time.Duration, enough func(stdout string) bool) {
	t.Helper()
	expired := time.After(limit)
	for {
		so, more := m.stdout.now()
		if enough(so) {
			return
		}
		select {
		case <-more:
		case <-m.done:
			if so, _ = m.stdout.now(); !enough(so) {
				t.Fatalf("rank %d ended (%v) before %s:\n%s%s", m.rank, m.err, what, so, m.stderr)
			}
		case <-expired:
			t.Fatalf("rank %d: no %s after %v:\n%s%s", m.rank, what, limit, so, m.stderr)
		}
	}
}

// code waits for the end and returns the exit code, -1 if there is none.
func (m *member) code(t testing.TB, limit time.Duration) int {
	t.Helper()
	select {
	case <-m.done:
	case <-time.After(limit):
		t.Fatalf("rank %d: not ended after %v:\n%s%s", m.rank, limit, m.stdout, m.stderr)
	}
	var exit interface{ ExitCode() int }
	switch {
	case m.err == nil:
		return 0
	case errors.As(m.err, &exit):
		return exit.ExitCode()
	default:
		return -1
	}
}

// line is what the tests read of a line of JSON.
type line struct {
	Command  string `json:"command"`
	OK       bool   `json:"ok"`
	Error    string `json:"error"`
	Rank     int    `json:"rank"`
	Side     string `json:"side"`
	Peer     int    `json:"peer"`
	Device   string `json:"device"`
	Protocol string `json:"protocol"`
	// Algorithm, Type and Op are not asked for in most tests.
	Algorithm string `json:"algorithm"`
	Type      string `json:"type"`
	Op        string `json:"op"`
	Count     int    `json:"count"`
	Root      int    `json:"root"`
	Ranks     int    `json:"ranks"`
	Wrong     *int   `json:"wrong"`
	Verdict   *struct {
		Kind string `json:"kind"`
		Rank int    `json:"rank"`
	} `json:"verdict"`
	Findings []struct {
		Text string `json:"text"`
	} `json:"findings"`
}

func (m *member) lines(t testing.TB) []line {
	t.Helper()
	var lines []line
	for text := range strings.Lines(m.stdout.String()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("rank %d: %v: %q", m.rank, err, text)
		}
		lines = append(lines, l)
	}
	return lines
}

// protocols are those of data on queue pairs.
var protocols = []string{"eager", "rendezvous-write", "rendezvous-read"}

// collective is a command of the shell, and what its line of JSON must have.
type collective struct {
	command, protocol   string
	root, count         int    // 0 elements: a barrier
	algorithm, typ, red string // "": what the command chooses
}

func (c collective) String() string {
	text := fmt.Sprintf("%s --protocol %s --iters 1 --warmup 1", c.command, c.protocol)
	if c.count > 0 {
		text += fmt.Sprintf(" --count %d --segment 32K --check", c.count)
	}
	if c.root > 0 {
		text += fmt.Sprintf(" --root %d", c.root)
	}
	for _, f := range [][2]string{{"algorithm", c.algorithm}, {"type", c.typ}, {"op", c.red}} {
		if f[1] != "" {
			text += fmt.Sprintf(" --%s %s", f[0], f[1])
		}
	}
	return text
}

// done tells whether a line says that it has run on so many ranks, with every element verified.
func (c collective) done(l line, ranks int) bool {
	right := l.Wrong != nil && *l.Wrong == 0 && l.Count == c.count && l.Root == c.root
	asked := (c.algorithm == "" || l.Algorithm == c.algorithm) && (c.typ == "" || l.Type == c.typ) && (c.red == "" || l.Op == c.red)
	return l.Command == c.command && l.Protocol == c.protocol && asked && l.OK && l.Ranks == ranks && (right || c.count == 0)
}

// everyCollective is every operation under every protocol that it has, of every count. The ranks
// take turns at being the root.
func everyCollective(ranks int) []collective {
	list := []collective{{command: "barrier", protocol: "eager"}} // which moves no data: it has no other
	root := 0
	for _, protocol := range protocols {
		// Elements of float32: fewer than ranks; many segments, and no multiple of anything.
		for _, count := range []int{3, 75001} {
			for _, command := range []string{"reduce-scatter", "all-gather", "all-reduce"} {
				list = append(list, collective{command: command, protocol: protocol, count: count})
			}
			for _, command := range []string{"broadcast", "reduce"} {
				list = append(list, collective{command: command, protocol: protocol, count: count, root: root})
			}
			root = (root + 1) % ranks
		}
	}
	return list
}

// checkCollectives has a ring run collectives and say who is in it, and checks what each rank says.
func checkCollectives(t *testing.T, seats []seat, list []collective) {
	t.Helper()
	began := time.Now()
	script := []string{"ping --iters 10"}
	for _, c := range list {
		script = append(script, c.String())
	}
	script = append(script, "status")
	for _, m := range connect(t, seats, "-c", strings.Join(script, "; ")) {
		if code := m.code(t, time.Duration(len(list))*deadline/4); code != 0 {
			t.Errorf("rank %d, %s: exit code %d (%v)\n%s%s", m.rank, m.seat.device(), code, m.err, m.stdout, m.stderr)
			continue
		}
		lines := m.lines(t)
		for _, c := range list {
			if !slices.ContainsFunc(lines, func(l line) bool { return c.done(l, len(seats)) }) {
				t.Errorf("rank %d: no %s on %d ranks without a wrong element", m.rank, c, len(seats))
			}
		}
		for rank, s := range seats {
			edges := 0
			for _, l := range lines {
				if l.Command != "status" || l.Rank != rank || l.Side == "" {
					continue
				}
				if want := s.deviceTo(seats[l.Peer]); l.Device != want {
					t.Errorf("status of rank %d: the %s edge of rank %d is on %s, expected %s", m.rank, l.Side, rank, l.Device, want)
				}
				if l.Side != "mesh" { // of which there are as many as were needed
					edges++
				}
			}
			if edges != 2 {
				t.Errorf("status of rank %d: rank %d has %d edges, expected 2", m.rank, rank, edges)
			}
		}
		if warned := withoutWaits(m.stderr.String()); warned != "" {
			t.Errorf("rank %d: %s", m.rank, warned)
		}
	}
	t.Logf("%d collectives in %.1f s", len(list), time.Since(began).Seconds())
}

// A ring of four kernels.
func TestRing(t *testing.T) { checkCollectives(t, onRXE(1, 2, 3, 4), everyCollective(4)) }

// Rings of two ranks on rxe and two on this host, which ringcli chooses by itself: to
// each other these share memory, to the others they are soft.
func TestMixedRing(t *testing.T) {
	vm1, vm2 := onRXE(1, 2)[0], onRXE(1, 2)[1]
	host, further := onSoft(t, 254), onSoft(t, 201)
	for _, c := range []struct {
		name  string
		seats []seat
	}{
		{"every edge mixed", []seat{vm1, host, vm2, further}},
		{"one edge of each", []seat{vm1, vm2, host, further}}, // rxe-rxe, rxe-soft, shm-shm, soft-rxe
	} {
		t.Run(c.name, func(t *testing.T) { checkCollectives(t, c.seats, everyCollective(len(c.seats))) })
	}
}

// Stock tools that were given the ring's port are named, whether they call or are
// called, and those that call keep nobody from bringing the ring up.
func TestStrangers(t *testing.T) {
	t.Run("that call", func(t *testing.T) {
		seats := onRXE(1, 2)
		zero := sit(t, seats, 0, "connect", "-c", "ping")
		eventually(t, deadline, "rank 0 listens", func() bool { return listens(t, 1) })
		for _, c := range []struct {
			node int
			tool []string
			want string
		}{
			{3, []string{"ibv_rc_pingpong", "-d", "rxe0", "-g", "1"}, "10.77.0.3:%: ibv_rc_pingpong"},
			{4, []string{"ib_write_bw", "-d", "rxe0", "-x", "1"}, ""},
			{2, []string{"ib_write_lat", "-d", "rxe0", "-x", "1"}, ""}, // where the neighbour will be
		} {
			if out, err := tryVM(t, deadline, c.node, append(c.tool, "-p", "18600", "10.77.0.1")...); err == nil {
				t.Errorf("%v has found somebody to work with:\n%s", c.tool, out)
			}
			if c.want == "" {
				continue // it is told of in the end
			}
			from, what, _ := strings.Cut(c.want, "%")
			eventually(t, deadline, "a warning of "+c.want, func() bool {
				_, text, found := strings.Cut(zero.stderr.String(), "stranger at "+from)
				text, _, _ = strings.Cut(text, "\n")
				return found && strings.Contains(text, " on port 10.77.0.1:18600"+what) && strings.Contains(text, "is there, not ringcli")
			})
		}
		one := sit(t, seats, 1, "connect", "-c", "ping")
		for _, m := range []*member{zero, one} {
			if code := m.code(t, 2*deadline); code != 0 {
				t.Errorf("rank %d: exit code %d\n%s%s", m.rank, code, m.stdout, m.stderr)
			}
		}
		_, more, found := strings.Cut(zero.stderr.String(), "2 more strangers within ")
		more, _, _ = strings.Cut(more, "\n")
		if !found || !strings.Contains(more, "perftest") || !strings.Contains(more, "is there, not ringcli") {
			t.Errorf("the others are not told of\n%s", zero.stderr)
		}
	})
	for _, c := range []struct {
		tool []string
		want string
	}{
		// The one cannot make sense of our hello and hangs up, the other speaks first.
		{[]string{"ibv_rc_pingpong", "-d", "rxe0", "-g", "1"}, "took the connection and closed it without an answer"},
		{[]string{"ib_write_bw", "-d", "rxe0", "-x", "1"}, "perftest 6"},
	} {
		t.Run(c.tool[0]+" is called", func(t *testing.T) {
			startVM(t, 2, append(c.tool, "-p", "18600")...)
			eventually(t, deadline, "it listens", func() bool { return listens(t, 2) })
			zero := sit(t, onRXE(1, 2), 0, "connect", "--timeout", "3s", "-c", "ping")
			code := zero.code(t, 2*deadline)
			if code != 2 || !strings.Contains(zero.stdout.String(), c.want) {
				t.Errorf("exit code %d\n%s%s", code, zero.stdout, zero.stderr)
			}
		})
	}
}

// listens tells whether the ring's port is taken in machine k.
func listens(t testing.TB, k int) bool {
	t.Helper()
	return inVM(t, k, "ss", "-Hltn", "sport = :18600") != ""
}
