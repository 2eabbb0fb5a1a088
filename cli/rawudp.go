package cli

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"ringcli/cli/render"
	"ringcli/ring"
	"ringcli/verbs"
	"ringcli/verbs/cpu"
	"ringcli/verbs/soft/udp/rawbench"
)

// What a round of the comparison with raw UDP moves: a few dozen milliseconds of
// each, so that a slow moment of the machine falls on few of them.
const (
	rawStreamBytes    = 1 << 20
	rawStreamMessages = 200
	rawBounceBytes    = 64
	rawBounces        = 2000
)

// RawComparison is a figure of ours beside the same of raw UDP, medians of
// interleaved rounds.
type RawComparison struct {
	Command string  `json:"command"`
	OK      bool    `json:"ok"`
	Figure  string  `json:"figure"` // "WRITE bandwidth" or "half round trip"
	Unit    string  `json:"unit"`   // GB/s or us
	Bytes   int     `json:"bytes"`
	Rounds  int     `json:"rounds"`
	Ours    float64 `json:"ours"`
	Raw     float64 `json:"raw_udp"`
	Ratio   float64 `json:"ratio"` // ours by raw
}

// Columns implements render.Record.
func (r RawComparison) Columns() []render.Column {
	return []render.Column{
		{Name: "figure", Width: 16, Left: true}, {Name: "unit", Width: 5, Left: true}, {Name: "bytes", Width: 8}, {Name: "rounds", Width: 7},
		{Name: "ringcli", Width: 9}, {Name: "raw UDP", Width: 9}, {Name: "ratio", Width: 7},
	}
}

// Cells implements render.Record.
func (r RawComparison) Cells() []render.Cell {
	return render.Texts(r.Figure, r.Unit, strconv.Itoa(r.Bytes), strconv.Itoa(r.Rounds), figure(r.Ours), figure(r.Raw), figure(r.Ratio))
}

// rawUDP is this rank's end of the comparison.
type rawUDP struct {
	path        *p2pPath
	local, peer netip.AddrPort
}

// compareRawUDP measures a p2p path beside a raw UDP sender and receiver on the
// same two addresses, by turns in the same threads, pinned to a CPU each. It has
// a goroutine of its own: the thread that is pinned ends with it, so that what
// runs after it in a script or a shell may use all CPUs again.
func (s *Session) compareRawUDP(ctx context.Context, path *p2pPath, rounds int) error {
	done := make(chan error, 1)
	go func() { done <- s.compareRawUDPHere(ctx, path, rounds) }()
	return <-done
}

func (s *Session) compareRawUDPHere(ctx context.Context, path *p2pPath, rounds int) error {
	m := s.member
	r, err := m.openRawUDP(ctx, path)
	if err != nil {
		return err
	}
	if path.role != bystander {
		err = cpu.Pin(int(path.role - active))
	}
	if err := m.agree(ctx, err); err != nil {
		return err
	}
	results := []RawComparison{
		{Figure: "WRITE bandwidth", Unit: "GB/s", Bytes: rawStreamBytes},
		{Figure: "half round trip", Unit: "us", Bytes: rawBounceBytes},
	}
	ours, raw := make([][]float64, len(results)), make([][]float64, len(results))
	for round := -1; round < rounds; round++ { // round -1 warms up
		if _, stop, err := m.takeTurn(ctx, s, 1); stop || err != nil {
			if err == nil {
				err = errStopped("%d of %d rounds", max(round, 0), rounds)
			}
			return err
		}
		end := s.Progress.Clock("p2p beside raw UDP, round %d/%d", round+1, rounds)
		err := r.round(ctx, m, round, ours, raw)
		end()
		if err != nil {
			return err
		}
	}
	for i, result := range results {
		result.Command, result.OK, result.Rounds = "bench p2p", true, rounds
		result.Ours, result.Raw = sixPlaces(median(ours[i])), sixPlaces(median(raw[i]))
		if result.Raw > 0 {
			result.Ratio = sixPlaces(result.Ours / result.Raw)
		}
		if err := s.Out.Print(result); err != nil {
			return err
		}
	}
	return nil
}

// round measures every figure of both, one after the other; round -1 is not kept.
func (r *rawUDP) round(ctx context.Context, m *Member, round int, ours, raw [][]float64) error {
	for i, figures := range [][2]func(context.Context) (float64, error){{r.stream, r.rawStream}, {r.bounce, r.rawBounce}} {
		for turn := range figures {
			which := (turn + round&1) % 2 // who goes first alternates
			v, err := figures[which](ctx)
			if err := m.agree(ctx, err); err != nil {
				return err
			}
			switch {
			case round < 0:
			case which == 0:
				ours[i] = append(ours[i], v)
			default:
				raw[i] = append(raw[i], v)
			}
		}
	}
	return nil
}

// openRawUDP finds a free port on each side and tells the other.
func (m *Member) openRawUDP(ctx context.Context, path *p2pPath) (*rawUDP, error) {
	r := &rawUDP{path: path}
	var port uint16
	var openErr error
	if path.role != bystander {
		port, openErr = freePort(path.edge.Local.GID.Addr())
	}
	if err := m.agree(ctx, openErr); err != nil {
		return nil, err
	}
	ports, err := shareOut(ctx, m, port)
	if err != nil || path.role == bystander {
		return r, err
	}
	e := path.edge
	r.local = netip.AddrPortFrom(e.Local.GID.Addr(), port)
	r.peer = netip.AddrPortFrom(e.Remote.GID.Addr(), ports[e.Peer])
	return r, nil
}

func freePort(addr netip.Addr) (uint16, error) {
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
	if err != nil {
		return 0, fmt.Errorf("find a free UDP port: %w", err)
	}
	port := c.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	return port, c.Close()
}

func (r *rawUDP) stream(ctx context.Context) (float64, error) {
	if r.path.role == bystander {
		return 0, nil
	}
	took, err := r.path.stream(ctx, verbs.OpWrite, rawStreamBytes, rawStreamMessages)
	return gigabytes(rawStreamBytes*rawStreamMessages, took), err
}

func (r *rawUDP) rawStream(ctx context.Context) (float64, error) {
	if r.path.role == bystander {
		return 0, nil
	}
	result, err := rawbench.Bandwidth(ctx, r.rawRole(), r.local, r.peer, rawStreamBytes, rawStreamMessages)
	var took time.Duration
	for _, d := range result.Durations {
		took += d
	}
	return gigabytes(rawStreamBytes*rawStreamMessages, took), err
}

func (r *rawUDP) bounce(ctx context.Context) (float64, error) {
	if r.path.role == bystander {
		return 0, nil
	}
	w := newStopwatch()
	err := r.path.bounce(ctx, verbs.OpWrite, rawBounceBytes, rawBounces, w)
	return w.at(50), err
}

func (r *rawUDP) rawBounce(ctx context.Context) (float64, error) {
	if r.path.role == bystander {
		return 0, nil
	}
	result, err := rawbench.PingPong(ctx, r.rawRole(), r.local, r.peer, rawBounceBytes, rawBounces)
	w := newStopwatch()
	for _, d := range result.Durations {
		w.add(d)
	}
	return w.at(50), err
}

func (r *rawUDP) rawRole() rawbench.Role {
	if r.path.role == active {
		return rawbench.Sender
	}
	return rawbench.Receiver
}

func gigabytes(n int, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return float64(n) / took.Seconds() / 1e9
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// isSoft tells whether a raw UDP socket can stand beside the device.
func isSoft(e *ring.Edge) bool { return e.Device().Provider() == "soft" }
