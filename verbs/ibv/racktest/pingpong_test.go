package racktest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ringcli/verbs/ibv/racktest/rack"
)

// player is one end of a pingpong.
type player struct {
	node    int        // the machine; 0: the host's leg, where ringcli is on soft
	address netip.Addr // to speak from
	stock   bool       // ibv_rc_pingpong, else ringcli
	gid     string     // the GID's index; "" is ringcli's choice
}

func stockIn(k int) player { return player{k, bench.Address(k), true, "1"} }
func oursIn(k int) player  { return player{node: k, address: bench.Address(k)} }

// oursOnSoft is on the host's leg, at an address that is another player's at no time.
func oursOnSoft(t testing.TB, last byte) player {
	s := onSoft(t, last)
	return player{node: s.node, address: s.address}
}

func (p player) String() string {
	switch {
	case p.stock:
		return fmt.Sprintf("stock tool in machine %d", p.node)
	case p.node == 0:
		return "ringcli on soft"
	}
	return fmt.Sprintf("ringcli on rxe in machine %d", p.node)
}

// command is a line of arguments, of the client if there is a server.
func (p player) command(ringcli string, server *player, options []string) []string {
	var args []string
	if p.stock {
		args = []string{"ibv_rc_pingpong", "-d", "rxe0"}
	} else {
		device := seat{node: p.node, address: p.address}.device()
		args = []string{ringcli, "pingpong", "--output", "json", "--device", device, "--bind", p.address.String(), "--timeout", "15s"}
	}
	if p.gid != "" {
		args = append(args, "-g", p.gid)
	}
	args = append(args, options...)
	if server != nil {
		args = append(args, server.address.String())
	}
	return args
}

// run runs a command where the player is. An error has all that it printed.
func (p player) run(ctx context.Context, args []string) (string, error) {
	out := newOutput()
	var run func() error
	if p.node == 0 {
		c := bench.Host(ctx, args[0], args[1:]...)
		c.Dir, c.Stdout, c.Stderr = shared, out, out
		run = c.Run
	} else {
		c := bench.Command(ctx, p.node, args[0], args[1:]...)
		c.Dir, c.Stdout, c.Stderr = "/tmp", out, out
		run = c.Run
	}
	err := run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		err = fmt.Errorf("%s: %v: %w\n%s", p, args, err, out)
	}
	return out.String(), err
}

// listening waits until the player listens, whose TCP port nobody else has there.
func (p player) listening(ctx context.Context) error {
	args := []string{"sh", "-c", "until ss -Hltn 'sport = :18515' | grep -q .; do sleep 0.02; done"}
	if p.node == 0 {
		// ss puts an IPv6 address into brackets, and so does AddrPort.
		args[2] = fmt.Sprintf("until ss -Hltn | grep -qF ' %s '; do sleep 0.02; done", netip.AddrPortFrom(p.address, 18515))
	}
	_, err := p.run(ctx, args)
	return err
}

// match is one pingpong.
type match struct {
	server, client player
	size, mtu      int
	iters          int
	options        []string // of both
	limit          time.Duration
}

func (m match) String() string {
	return fmt.Sprintf("%s serves %s: %d x %d bytes, MTU %d %s", m.server, m.client, m.iters, m.size, m.mtu, strings.Join(m.options, " "))
}

// played is what ringcli says of a match.
type played struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	Role    string `json:"role"`
	Device  string `json:"device"`
	Size    int    `json:"size"`
	Iters   int    `json:"iters"`
	MTU     int    `json:"mtu"`
	Bytes   int    `json:"bytes"`
	Checked bool   `json:"checked"`
	Local   struct {
		GID string `json:"gid"`
	} `json:"local"`
	Seconds        float64                         `json:"seconds"`
	RTT            struct{ P50, P99, Max float64 } `json:"rtt_us"`
	Unacknowledged bool                            `json:"unacknowledged"`
}

// play plays a match. Both ends must complete it, within its limit, and say so. It
// may be called on any goroutine.
func (m match) play(ctx context.Context, ringcli string) (played, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, m.limit, fmt.Errorf("not ended after %v", m.limit))
	defer cancel()
	options := append([]string{"-s", strconv.Itoa(m.size), "-n", strconv.Itoa(m.iters), "-m", strconv.Itoa(m.mtu)}, m.options...)
	var served, asked string
	var errs [2]error
	var ends sync.WaitGroup
	ends.Go(func() {
		if served, errs[0] = m.server.run(ctx, m.server.command(ringcli, nil, options)); errs[0] != nil {
			cancel()
		}
	})
	// ringcli as the client waits for its server by itself.
	err := error(nil)
	if m.client.stock {
		err = m.server.listening(ctx)
	}
	if err == nil {
		if asked, errs[1] = m.client.run(ctx, m.client.command(ringcli, &m.server, options)); errs[1] != nil {
			cancel()
		}
	} else {
		errs[1] = err
		cancel()
	}
	ends.Wait()
	if errs[0] != nil || errs[1] != nil {
		return played{}, fmt.Errorf("%s\nserver: %w\nclient: %w", m, errs[0], errs[1])
	}
	var ours played
	for _, end := range []struct {
		player
		role, output string
	}{{m.server, "server", served}, {m.client, "client", asked}} {
		if end.stock {
			if bytes, iters := fmt.Sprintf("%d bytes in ", m.size*m.iters*2), fmt.Sprintf("\n%d iters in ", m.iters); !strings.Contains(end.output, bytes) || !strings.Contains(end.output, iters) {
				return ours, fmt.Errorf("%s: the stock tool does not say %q and %q:\n%s", m, bytes, iters, end.output)
			}
			continue
		}
		if ours, err = m.check(end.player, end.role, end.output); err != nil {
			return ours, err
		}
	}
	return ours, nil
}

// check compares what ringcli says with the match.
func (m match) check(p player, role, output string) (r played, err error) {
	if err := json.Unmarshal([]byte(withoutWaits(output)), &r); err != nil {
		return r, fmt.Errorf("%s: %s: %w: %q", m, p, err, output)
	}
	said := r
	said.RTT, said.Seconds, said.Unacknowledged, said.Local.GID = played{}.RTT, 0, false, ""
	want := played{Command: "pingpong", OK: true, Role: role, Device: seat{node: p.node, address: p.address}.device(), Size: m.size, Iters: m.iters, MTU: m.mtu, Bytes: 2 * m.size * m.iters}
	for _, o := range m.options {
		want.Checked = want.Checked || o == "-c"
	}
	if said != want {
		return r, fmt.Errorf("%s: %s says %s: got %+v, expected %+v", m, p, output, said, want)
	}
	return r, nil
}

func (r played) String() string {
	text := fmt.Sprintf("%.2f s, round trips: p50 %.0f us, p99 %.0f us, max %.0f us", r.Seconds, r.RTT.P50, r.RTT.P99, r.RTT.Max)
	if r.Unacknowledged {
		text += ", the last message unacknowledged"
	}
	return text
}

// play plays matches one after the other.
func play(t *testing.T, matches ...match) {
	t.Helper()
	ringcli := binary(t, "ringcli")
	before := counters(t, 1)
	for _, m := range matches {
		r, err := m.play(t.Context(), ringcli)
		after := counters(t, 1)
		if err != nil {
			t.Errorf("%v\ncounters of machine 1: %s", err, since(before, after))
			continue
		}
		t.Logf("%s: %s; %s", m, r, since(before, after))
		before = after
	}
}

// counters are the device's of machine k, "name:value" each.
func counters(t *testing.T, k int) []string {
	t.Helper()
	return strings.Fields(inVM(t, k, "sh", "-c", "cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep -H . *"))
}

// since tells what has grown. On a clean wire that is not duplicate_request (the
// peer has sent something again) nor completer_retry_err (the device has).
func since(before, after []string) string {
	was := map[string]int{}
	for _, c := range before {
		name, value, _ := strings.Cut(c, ":")
		was[name], _ = strconv.Atoi(value)
	}
	var grown []string
	for _, c := range after {
		name, value, _ := strings.Cut(c, ":")
		if n, _ := strconv.Atoi(value); n > was[name] && name != "lifespan" {
			grown = append(grown, fmt.Sprintf("%s +%d", name, n-was[name]))
		}
	}
	return strings.Join(grown, ", ")
}

const iters = 1000

var sizes = []int{1, 64, 1024, 4096, 65536}

// bothWays are matches in which ours is the client, and such in which it serves.
func bothWays(stock, ours player, matches ...match) []match {
	var all []match
	for _, m := range matches {
		m.iters, m.limit = iters, deadline
		m.server, m.client = stock, ours
		all = append(all, m)
		m.server, m.client = ours, stock
		all = append(all, m)
	}
	return all
}

// The stock tool on rxe with ringcli on soft, where there is no RDMA device.
func TestPingpongSoft(t *testing.T) {
	host := oursOnSoft(t, 254)
	for _, size := range sizes {
		play(t, bothWays(stockIn(1), host, match{size: size, mtu: 1024})...)
	}
	play(t, bothWays(stockIn(1), host, match{size: 65536, mtu: 4096, options: []string{"-c"}}, match{size: 4096, mtu: 1024, options: []string{"-c", "-e"}})...)
}

// Likewise by IPv6: RDMA by a GID that was asked for, after TCP by IPv4, by which
// alone the stock server listens; and all of it, with a GID that ringcli chooses.
func TestPingpongSoft6(t *testing.T) {
	const index = "2"
	if got, err := netip.ParseAddr(inVM(t, 1, "cat", "/sys/class/infiniband/rxe0/ports/1/gids/"+index)); err != nil || got != bench.Address6(1) {
		t.Fatalf("GID %s of machine 1 is %s, expected that of %s", index, got, bench.Address6(1))
	}
	server, client := stockIn(1), oursOnSoft(t, 254)
	server.gid, client.gid = index, softIndex(t, rack.HostAddress6())
	asker, host := player{1, bench.Address6(1), true, index}, player{node: 0, address: rack.HostAddress6()}
	for _, m := range []match{{server: server, client: client}, {server: host, client: asker}} {
		m.size, m.mtu, m.iters, m.limit, m.options = 4096, 1024, iters, deadline, []string{"-c"}
		r, err := m.play(t.Context(), binary(t, "ringcli"))
		if err != nil {
			t.Error(err)
			continue
		}
		if got, err := netip.ParseAddr(r.Local.GID); err != nil || got != rack.HostAddress6() {
			t.Errorf("%s: ringcli speaks from %s, expected %s", m, r.Local.GID, rack.HostAddress6())
		}
		t.Logf("%s: %s", m, r)
	}
}

// softIndex is the index of an address in the GID table of the host's leg.
func softIndex(t *testing.T, a netip.Addr) string {
	t.Helper()
	output := onHost(t, binary(t, "ringcli"), "devices", "--output", "json")
	for text := range strings.Lines(output) {
		var l struct {
			Device string `json:"device"`
			Index  int    `json:"gid_index"`
			GID    string `json:"gid"`
		}
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%v: %q", err, text)
		}
		if l.Device == "soft:br0" && l.GID == a.String() {
			return strconv.Itoa(l.Index)
		}
	}
	t.Fatalf("soft:br0 has no GID %s:\n%s", a, output)
	return ""
}

// One packet in a hundred is lost each way. The matches mostly wait for timers, so
// those of different machines go on at once; each of the host's has an address, as
// rdma_rxe speaks to UDP port 4791 alone.
func TestPingpongSoftLoss(t *testing.T) {
	ringcli := binary(t, "ringcli")
	lanes := make([][]match, nodes)
	for _, size := range sizes {
		mtu, lane := 1024, 0
		if size == sizes[len(sizes)-1] { // the long ones have machines for themselves
			mtu, lane = 4096, 2
		}
		for i, m := range bothWays(player{}, player{}, match{size: size, mtu: mtu}) {
			lane := lane + i
			stock, ours := stockIn(lane+1), oursOnSoft(t, byte(210+lane))
			m.limit = 2 * deadline
			if m.server, m.client = stock, ours; i == 1 {
				m.server, m.client = ours, stock
			}
			lanes[lane] = append(lanes[lane], m)
		}
	}
	before := make([][]string, nodes+1)
	for k := 1; k <= nodes; k++ {
		before[k] = counters(t, k)
		startVM(t, k, helper(t, "deafen", "eth0")...).await(t, "dropping", deadline)
		if err := bench.Impair(k, "loss", "1%"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := bench.Impair(k); err != nil {
				t.Error(err)
			}
		})
	}
	began := time.Now()
	var all sync.WaitGroup
	for _, matches := range lanes {
		all.Go(func() {
			for _, m := range matches {
				r, err := m.play(t.Context(), ringcli)
				if err != nil {
					t.Error(err)
					continue
				}
				t.Logf("%s: %s", m, r)
			}
		})
	}
	all.Wait()
	t.Logf("all in %.1f s", time.Since(began).Seconds())
	for k := 1; k <= nodes; k++ {
		sent := inVM(t, k, "tc", "-s", "qdisc", "show", "dev", "eth0")
		grown := since(before[k], counters(t, k))
		t.Logf("machine %d: %s; %s", k, strings.Join(strings.Fields(sent), " "), grown)
		if strings.Contains(sent, "dropped 0,") {
			t.Errorf("machine %d has lost nothing of what it sent", k)
		}
		if !strings.Contains(grown, "out_of_seq_request") { // a packet before it is missing
			t.Errorf("machine %d has missed nothing of what was sent to it", k)
		}
	}
}

// ringcli on rxe with the stock tool on another.
func TestPingpongRXE(t *testing.T) {
	play(t, bothWays(stockIn(1), oursIn(2),
		match{size: 4096, mtu: 1024, options: []string{"-c", "-e"}},
		match{size: 1, mtu: 4096, options: []string{"-e"}})...)
	// Who polls leaves a machine's one CPU to rdma_rxe when the scheduler takes it away.
	polling := bothWays(stockIn(1), oursIn(2), match{size: 65536, mtu: 4096, options: []string{"-c"}})
	for i := range polling {
		polling[i].iters = iters / 10
	}
	play(t, polling...)
}
