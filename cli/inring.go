package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ringcli/cli/render"
)

// ringCommands are the commands that run in a ring, in -c and -f.
func ringCommands() []Command {
	list := []Command{
		{
			Name: "self-check", Aliases: []string{"check"}, Group: groupCollective, Where: Line, Needs: Ready,
			Summary: "Prove the ring: a ping, and every collective under every protocol",
			Long: `Pings each neighbour, then runs reduce-scatter, all-gather and all-reduce, each
under eager, rendezvous-write and rendezvous-read, with every element of every
rank verified. It goes on after wrong data, so that its table shows what is
affected.`,
			Run: func(ctx context.Context, s *Session, _ Call) error { return s.selfCheck(ctx) },
		},
		{
			Name: "status", Group: groupCollective, Where: Line, Needs: Ready, Harmless: true,
			Summary: "Show every rank's neighbours and both ends of the queue pairs",
			Run:     runStatus,
		},
		{
			Name: "ping", Group: groupCollective, Where: Line, Needs: Ready, Harmless: true,
			Summary: "Send a message to the right neighbour and back, on every rank",
			Long: `Sends a test message from each rank to its right neighbour and back, over the
queue pair, and verifies its bytes at both ends. The times are whole round
trips, with all ranks pinging at once.`,
			Flags: func(fs *pflag.FlagSet) {
				numberFlag(fs, "iters", "", defaultPings, 1, 1<<24, "the round trips to measure", "round trips measured")
			},
			Run: runPing,
		},
		{
			Name: "counters", Group: groupCollective, Where: Line, Needs: Ready, Harmless: true,
			Summary: "Show what the device and the collectives counted",
			Long: `Shows the device's counters under their hardware names and what the collectives
counted: sums over all ranks, and each rank's growth since counters were last
shown, or since the ring came up. Counters that are zero everywhere are left out
without --all.`,
			Flags: func(fs *pflag.FlagSet) { fs.Bool("all", false, "show counters that are zero on every rank, too") },
			Run:   runCounters,
		},
		{
			Name: "bench", Group: groupCollective, Where: Line, Needs: Ready, Stops: true,
			Summary: benchSummary, Long: benchLong,
			Args: "OPERATION", Words: benchWords, CheckArgs: checkBenchArgs,
			Settings: settingsOfOperation, Flags: benchFlags,
			Check: checkBench, Run: runBench,
		},
	}
	list = append(list, Command{
		Name: "expect", Group: groupLook, Where: Line, Own: true, Harmless: true,
		Summary: "Fail unless a field of the last result is as it should be",
		Long:    expectLong,
		Example: "  all-reduce --size 16M --check; expect wrong == 0; expect --warning busbw >= 1.5",
		Args:    "FIELD RELATION VALUE", Words: []string{"busbw", "algbw", "wrong", "time.p50", "time.p99", "bw"},
		CheckArgs: checkExpect, Flags: expectFlags, Run: runExpect,
	})
	for _, c := range []struct {
		name, summary, long string
		aliases             []string
	}{
		{"all-reduce", "Reduce all ranks' vectors; every rank gets the result", `Reduces the vectors of all ranks element by element; every rank gets the whole
result.`, []string{"allreduce", "ar"}},
		{"reduce-scatter", "Reduce all ranks' vectors; each rank gets its chunk", `Reduces the vectors of all ranks element by element; rank r of n gets elements
r*count/n to (r+1)*count/n of the result.`, []string{"reducescatter", "rs"}},
		{"all-gather", "Collect every rank's chunk; every rank gets the whole vector", `Every rank r of n contributes elements r*count/n to (r+1)*count/n and gets the
whole vector.`, []string{"allgather", "ag"}},
	} {
		list = append(list, Command{
			Name: c.name, Aliases: c.aliases, Group: groupCollective, Where: Line, Summary: c.summary,
			Needs: Ready, Stops: true, Harmless: true,
			Long: c.long + `

The size is that of the whole vector. Times are the slowest rank's; bandwidths
are in GB/s (1e9 bytes) by nccl-tests' formulas. With --check every element of
every rank is compared with a reference, bit for bit.`,
			Settings: settingsOfOperation, Flags: operationFlags, Check: checkOperation, Run: runOperation,
		})
	}
	return list
}

const defaultPings = 100

func runPing(ctx context.Context, s *Session, call Call) error {
	results, err := s.member.ping(ctx, s, int(value[number](call.Flags, "iters").value))
	if err != nil {
		return err
	}
	return s.Out.Print(results...)
}

// ping pings on all ranks and returns everybody's results, by rank.
func (m *Member) ping(ctx context.Context, s *Session, count int) ([]render.Record, error) {
	defer s.Progress.Clock("ping")()
	r, err := m.ring.Ping(ctx, count)
	if err != nil {
		return nil, err
	}
	us := func(d interface{ Nanoseconds() int64 }) float64 { return float64(d.Nanoseconds()) / 1e3 }
	all, err := shareOut(ctx, m, PingResult{
		Command: "ping", OK: true, Rank: m.ring.Rank(), Peer: r.Peer, Bytes: r.Bytes, Iters: r.Count,
		RTT: RoundTrip{us(r.Min), us(r.P50), us(r.P99), us(r.Max)},
	})
	return asRecords(all), err
}

func asRecords[T render.Record](list []T) []render.Record {
	records := make([]render.Record, len(list))
	for i, r := range list {
		records[i] = r
	}
	return records
}

// LinkStatus is one edge of one rank, both ends.
type LinkStatus struct {
	Command   string `json:"command"`
	OK        bool   `json:"ok"` // the queue pair is in RTS
	Rank      int    `json:"rank"`
	Node      string `json:"node"`
	RingState string `json:"ring_state"`
	Side      string `json:"side"`
	Peer      int    `json:"peer"`
	PeerNode  string `json:"peer_node"`
	Device    string `json:"device"`
	State     string `json:"qp_state"`
	MTU       int    `json:"mtu"` // bytes
	SQPSN     uint32 `json:"sq_psn"`
	RQPSN     uint32 `json:"rq_psn"`
	QPN       uint32 `json:"qpn"`
	PSN       uint32 `json:"psn"`
	GID       string `json:"gid"`
	PeerQPN   uint32 `json:"peer_qpn"`
	PeerPSN   uint32 `json:"peer_psn"`
	PeerGID   string `json:"peer_gid"`
	PeerUDP   uint16 `json:"peer_udp_port"`
}

// Columns implements render.Record.
func (l LinkStatus) Columns() []render.Column {
	return []render.Column{
		{Name: "rank"}, {Name: "side", Width: 5, Left: true}, {Name: "peer"}, {Name: "state", Left: true}, {Name: "mtu"},
		{Name: "qpn", Width: 6}, {Name: "to qpn", Width: 6}, {Name: "sq psn", Width: 6}, {Name: "rq psn", Width: 6}, {Name: "to gid", Left: true},
	}
}

// Cells implements render.Record.
func (l LinkStatus) Cells() []render.Cell {
	hex := func(v uint32) string { return fmt.Sprintf("%06x", v) }
	cells := render.Texts(strconv.Itoa(l.Rank), l.Side, strconv.Itoa(l.Peer), l.State, strconv.Itoa(l.MTU),
		hex(l.QPN), hex(l.PeerQPN), hex(l.SQPSN), hex(l.RQPSN), l.PeerGID)
	cells[3].Mood = render.Good
	if !l.OK {
		cells[3].Mood = render.Bad
	}
	return cells
}

func runStatus(ctx context.Context, s *Session, _ Call) error {
	m := s.member
	peers, err := m.ring.Peers()
	if err != nil {
		return err
	}
	var mine []LinkStatus
	for _, p := range peers {
		mine = append(mine, LinkStatus{
			Command: "status", OK: p.State == "RTS", Rank: m.ring.Rank(), Node: m.ring.Nodes()[m.ring.Rank()].String(),
			RingState: m.ring.State().String(), Side: p.Side, Peer: p.Rank, PeerNode: p.Node,
			Device: p.Local.Device, State: p.State, MTU: p.MTU, SQPSN: p.SQPSN, RQPSN: p.RQPSN,
			QPN: p.Local.QPN, PSN: p.Local.PSN, GID: p.Local.GID.String(),
			PeerQPN: p.Remote.QPN, PeerPSN: p.Remote.PSN, PeerGID: p.Remote.GID.String(), PeerUDP: p.Remote.UDPPort,
		})
	}
	all, err := shareOut(ctx, m, mine)
	if err != nil {
		return err
	}
	return s.Out.Print(asRecords(slices.Concat(all...))...)
}

// CounterValue is a counter on all ranks.
type CounterValue struct {
	Command string   `json:"command"`
	OK      bool     `json:"ok"`
	Source  string   `json:"source"` // device or collective
	Name    string   `json:"name"`
	Value   uint64   `json:"value"` // summed over the ranks, since the device was opened
	Delta   uint64   `json:"delta"` // summed over the ranks, since it was last shown
	PerRank []uint64 `json:"delta_per_rank"`
}

// Columns implements render.Record.
func (c CounterValue) Columns() []render.Column {
	return []render.Column{
		{Name: "source", Width: 10, Left: true}, {Name: "counter", Width: 24, Left: true}, {Name: "total", Width: 11}, {Name: "by rank", Left: true},
	}
}

// Cells implements render.Record.
func (c CounterValue) Cells() []render.Cell {
	ranks := make([]string, len(c.PerRank))
	for i, d := range c.PerRank {
		ranks[i] = "+" + strconv.FormatUint(d, 10)
	}
	return render.Texts(c.Source, c.Name, strconv.FormatUint(c.Value, 10), strings.Join(ranks, " "))
}

func runCounters(ctx context.Context, s *Session, call Call) error {
	m := s.member
	now, err := m.counters()
	if err != nil {
		return err
	}
	type growth struct {
		Value map[string]uint64 `json:"value"`
		Delta map[string]uint64 `json:"delta"`
	}
	mine := growth{now, map[string]uint64{}}
	for name, v := range now {
		mine.Delta[name] = v - m.shown[name]
	}
	m.shown = now
	all, err := shareOut(ctx, m, mine)
	if err != nil {
		return err
	}
	keys := map[string]bool{} // ranks may have devices of different providers
	for _, g := range all {
		for key := range g.Value {
			keys[key] = true
		}
	}
	var rows []render.Record
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		source, name, _ := strings.Cut(key, "/")
		c := CounterValue{Command: "counters", OK: true, Source: source, Name: name}
		for _, g := range all {
			c.Value += g.Value[key]
			c.Delta += g.Delta[key]
			c.PerRank = append(c.PerRank, g.Delta[key])
		}
		if c.Value > 0 || isOn(call.Flags, "all") {
			rows = append(rows, c)
		}
	}
	return s.Out.Print(rows...)
}
