//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"ringcli/verbs/ibv/racktest/rack"
)

const (
	// deadline is for one measurement or change, all of which take seconds.
	deadline = 2 * time.Minute
	// bytesSent is what a bandwidth test moves at most, and mostSent how many
	// messages: half a second to a second of an emulated machine.
	bytesSent = 24 << 20
	mostSent  = 1000
	// leastSent are a few; perftest takes a depth of no more than it sends.
	leastSent = 32
	// bounces are the round trips of a latency test.
	bounces = 200
)

func messages(bytes uint64) int { return int(min(max(bytesSent/bytes, leastSent), mostSent)) }

// bench is two machines: the first is the sender's peer.
type bench struct {
	options
	rack    *rack.Rack
	dir     string // both machines and the host see it
	command string // ringcli, where both see it
	log     io.Writer
}

const (
	peer   = 1
	sender = 2
)

// round is what was measured at one size in one round: MB/s (1e6 bytes a second) and
// microseconds, half a round trip.
type round struct {
	perftestBW, ibvBW, softBW    float64
	perftestLat, ibvLat, softLat float64
}

// measure runs all rounds.
func (b *bench) measure(ctx context.Context) ([]Size, error) {
	rounds := make([][]round, len(b.bytes))
	for i := range b.rounds {
		began := time.Now()
		now := make([]round, len(b.bytes))
		if err := b.onDevice(ctx, now, i); err != nil {
			return nil, fmt.Errorf("round %d: %w", i+1, err)
		}
		if err := b.onSoft(ctx, now); err != nil {
			return nil, fmt.Errorf("round %d: soft: %w", i+1, err)
		}
		for j := range now {
			rounds[j] = append(rounds[j], now[j])
		}
		_, _ = fmt.Fprintf(b.log, "beside: round %d of %d in %.0f s\n", i+1, b.rounds, time.Since(began).Seconds())
	}
	var sizes []Size
	for j, bytes := range b.bytes {
		sizes = append(sizes, summarize(bytes, rounds[j]))
	}
	return sizes, nil
}

// onDevice measures perftest and ringcli by turns, and which is first by turns, too:
// what disturbs grows or fades.
func (b *bench) onDevice(ctx context.Context, now []round, turn int) error {
	for j, bytes := range b.bytes {
		r := &now[j]
		steps := []func() (err error){
			func() (err error) {
				r.perftestBW, err = b.perftest(ctx, "ib_write_bw", bytes, "-n", strconv.Itoa(messages(bytes)), "-t", strconv.Itoa(b.depth))
				r.perftestBW *= float64(1<<20) / 1e6 // its MB is 2^20 bytes
				return err
			},
			func() (err error) { r.ibvBW, r.ibvLat, err = b.ringcli(ctx, "ibv:rxe0", bytes); return err },
			func() (err error) {
				r.perftestLat, err = b.perftest(ctx, "ib_write_lat", bytes, "-n", strconv.Itoa(bounces))
				return err
			},
		}
		if turn%2 == 1 {
			slices.Reverse(steps)
		}
		for _, step := range steps {
			if err := step(); err != nil {
				return fmt.Errorf("%d bytes: %w", bytes, err)
			}
		}
	}
	return nil
}

// onSoft measures ringcli with the device gone, and brings the device back.
func (b *bench) onSoft(ctx context.Context, now []round) (err error) {
	if err := b.both(ctx, "rdma link delete rxe0 && rmmod rdma_rxe"); err != nil {
		return err
	}
	for j, bytes := range b.bytes {
		if now[j].softBW, now[j].softLat, err = b.ringcli(ctx, "soft:eth0", bytes); err != nil {
			return fmt.Errorf("%d bytes: %w", bytes, err)
		}
	}
	return b.both(ctx, "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0")
}

// both runs a script in both machines.
func (b *bench) both(ctx context.Context, script string) error {
	for _, k := range []int{peer, sender} {
		if _, err := b.in(ctx, k, "sh", "-c", script); err != nil {
			return err
		}
	}
	return nil
}

// in runs a command in machine k and returns its output.
func (b *bench) in(ctx context.Context, k int, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, deadline, fmt.Errorf("not ended after %s", deadline))
	defer cancel()
	out, err := b.rack.Command(ctx, k, args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("machine %d: %s: %w\n%s", k, strings.Join(args, " "), cause(ctx, err), out)
	}
	return string(out), nil
}

// perftest runs a server and a client of perftest and returns what the client says:
// its average bandwidth, or its typical, median, latency.
func (b *bench) perftest(ctx context.Context, tool string, bytes uint64, more ...string) (float64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, deadline, fmt.Errorf("not ended after %s", deadline))
	defer cancel()
	args := append([]string{"-d", "rxe0", "-x", "1", "-F", "-m", strconv.Itoa(mtu), "-s", strconv.FormatUint(bytes, 10)}, more...)
	var said strings.Builder // read once the server has ended
	server := b.rack.Command(ctx, peer, tool, args...)
	server.Stdout, server.Stderr = &said, &said
	if err := server.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	finish := func() error { cancel(); return <-ended } // Wait has a deadline after its context's end
	// The shell waits in the machine: a command of its own for each look would take longer.
	const listens = "until ss -Hltn | grep -q ':18515 '; do sleep 0.02; done"
	if _, err := b.in(ctx, peer, "sh", "-c", listens); err != nil {
		_ = finish()
		return 0, fmt.Errorf("%w\n%s", err, said.String())
	}
	out, err := b.in(ctx, sender, append(append([]string{tool}, args...), b.rack.Address(peer).String())...)
	if err != nil {
		_ = finish()
		return 0, err
	}
	select {
	case err := <-ended:
		if err != nil {
			return 0, fmt.Errorf("%w\n%s", err, said.String())
		}
	case <-ctx.Done():
		_ = finish()
		return 0, context.Cause(ctx)
	}
	return perftestFigure(tool, bytes, out)
}

// perftestFigure reads the line of a size that perftest prints: bytes, iterations, and
// then peak and average bandwidth, or least, greatest and typical latency.
func perftestFigure(tool string, bytes uint64, out string) (float64, error) {
	column := map[string]int{"ib_write_bw": 3, "ib_write_lat": 4}[tool]
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) <= column || fields[0] != strconv.FormatUint(bytes, 10) {
			continue
		}
		if f, err := strconv.ParseFloat(fields[column], 64); err == nil && f > 0 {
			return f, nil
		}
	}
	return 0, fmt.Errorf("%s: no figure for %d bytes in what it printed:\n%s", tool, bytes, out)
}
