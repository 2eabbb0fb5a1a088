package udptest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"ringcli/verbs/cpu"
	"ringcli/verbs/cpu/cputest"
	"ringcli/verbs/soft/udp"
)

// The benchmark's receiver is this test binary again, told so by the
// environment: "bandwidth" or "ping-pong", local, peer, size, count, CPU.
const childVariable = "UDPTEST_RECEIVER"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := child(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type measurement func(ctx context.Context, role Role, local, peer netip.AddrPort, size, count int) (Result, error)

var measurements = map[string]measurement{"bandwidth": Bandwidth, "ping-pong": PingPong}

func child(args []string) error {
	local, err := netip.ParseAddrPort(args[1])
	if err != nil {
		return err
	}
	peer, err := netip.ParseAddrPort(args[2])
	if err != nil {
		return err
	}
	var n [3]int
	for i := range n {
		if n[i], err = strconv.Atoi(args[3+i]); err != nil {
			return err
		}
	}
	if n[2] >= 0 {
		if err := cputest.Pin(n[2]); err != nil {
			return err
		}
	}
	_, err = measurements[args[0]](context.Background(), Receiver, local, peer, n[0], n[1])
	return err
}

// ports finds two free addresses.
func ports(t testing.TB, ip string) (a, b netip.AddrPort) {
	t.Helper()
	var conns [2]*udp.Conn
	for i := range conns {
		c, err := udp.Listen(netip.AddrPortFrom(netip.MustParseAddr(ip), 0))
		if err != nil {
			t.Skipf("no %s here: %v", ip, err)
		}
		conns[i] = c
	}
	for _, c := range conns {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return conns[0].LocalAddr(), conns[1].LocalAddr()
}

// both runs the two ends as goroutines.
func both(t *testing.T, f measurement, ip string, size, count int) (sender, receiver Result) {
	t.Helper()
	a, b := ports(t, ip)
	done := make(chan error, 1)
	go func() {
		var err error
		receiver, err = f(t.Context(), Receiver, b, a, size, count)
		done <- err
	}()
	sender, err := f(t.Context(), Sender, a, b, size, count)
	if err != nil {
		t.Error("sender:", err)
	}
	if err := <-done; err != nil {
		t.Error("receiver:", err)
	}
	return sender, receiver
}

func TestBandwidth(t *testing.T) {
	for _, c := range []struct{ size, count int }{{1, 1}, {64, 5000}, {4096, 100}, {4097, 100}, {1 << 20, 20}, {5<<20 + 3, 2}} {
		for _, ip := range []string{"127.0.0.1", "::1"} {
			sender, receiver := both(t, Bandwidth, ip, c.size, c.count)
			for _, r := range []Result{sender, receiver} {
				if len(r.Durations) != c.count || r.MessageSize != c.size {
					t.Errorf("%d messages of %d bytes over %s: %d durations for size %d", c.count, c.size, ip, len(r.Durations), r.MessageSize)
				}
			}
		}
	}
}

func TestPingPong(t *testing.T) {
	for _, ip := range []string{"127.0.0.1", "::1"} {
		sender, _ := both(t, PingPong, ip, 64, 100)
		if len(sender.Durations) != 100 || slices.Min(sender.Durations) <= 0 {
			t.Errorf("half round trips over %s: %v", ip, sender.Durations)
		}
	}
}

// TestDisagreement gives the ends different sizes: both must say so.
func TestDisagreement(t *testing.T) {
	a, b := ports(t, "127.0.0.1")
	done := make(chan error, 1)
	go func() {
		_, err := Bandwidth(t.Context(), Receiver, b, a, 100, 1)
		done <- err
	}()
	_, err := Bandwidth(t.Context(), Sender, a, b, 200, 1)
	if other := <-done; err == nil || other == nil {
		t.Errorf("sender: %v, receiver: %v; expected errors from both", err, other)
	}
}

// TestAlone has no other end: the context ends it.
func TestAlone(t *testing.T) {
	a, b := ports(t, "127.0.0.1")
	for _, role := range []Role{Sender, Receiver} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := PingPong(ctx, role, a, b, 64, 1)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("role %d: %v, expected the context's error", role, err)
		}
	}
}

func TestArguments(t *testing.T) {
	a, b := ports(t, "127.0.0.1")
	for _, size := range []int{0, -1, Payload + 1} {
		if _, err := PingPong(t.Context(), Sender, a, b, size, 1); err == nil {
			t.Errorf("a ping-pong of %d bytes started", size)
		}
	}
	if _, err := Bandwidth(t.Context(), 7, a, b, 1, 1); err == nil {
		t.Error("role 7 started")
	}
	c, err := udp.Listen(a)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Bandwidth(t.Context(), Sender, a, b, 1, 1); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a port in use: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkProcesses measures between two processes, pinned to two CPUs or not.
// An iteration is one message or round trip; the metrics are of the median.
func BenchmarkProcesses(b *testing.B) {
	cpus, err := cpu.Allowed()
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"bandwidth", "ping-pong"} {
		for _, pinned := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/pinned=%v", name, pinned), func(b *testing.B) {
				if pinned && len(cpus) < 2 {
					b.Skip("one CPU")
				}
				size, peerCPU := 1<<20, -1
				if name == "ping-pong" {
					size = 64
				}
				if pinned {
					peerCPU = cpus[1]
				}
				processes(b, name, size, cpus[0], peerCPU)
			})
		}
	}
}

func processes(b *testing.B, name string, size, ownCPU, peerCPU int) {
	local, peer := ports(b, "127.0.0.1")
	cmd := exec.Command(os.Args[0], name, peer.String(), local.String(), strconv.Itoa(size), strconv.Itoa(b.N), strconv.Itoa(peerCPU))
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	type outcome struct {
		r   Result
		err error
	}
	done := make(chan outcome, 1)
	go func() { // its thread dies with it, and the pinning too
		if peerCPU >= 0 {
			if err := cputest.Pin(ownCPU); err != nil {
				done <- outcome{err: err}
				return
			}
		}
		r, err := measurements[name](context.Background(), Sender, local, peer, size, b.N)
		done <- outcome{r, err}
	}()
	o := <-done
	if err := cmd.Wait(); err != nil {
		b.Error("receiver:", err)
	}
	if o.err != nil {
		b.Fatal(o.err)
	}
	slices.Sort(o.r.Durations)
	median := o.r.Durations[len(o.r.Durations)/2]
	if name == "bandwidth" {
		b.ReportMetric(float64(size)/float64(median.Nanoseconds()), "GB/s")
	} else {
		b.ReportMetric(float64(median.Nanoseconds())/1000, "us/half-round-trip")
	}
}
