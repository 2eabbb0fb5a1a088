package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"ringcli/cli/exit"
	"ringcli/verbs/verbstest"
)

// TestTransportBesideUCX measures small writes of `ringcli transport` beside ucx_perftest's
// ucp_put_lat by turns: shm beside UCX over posix, soft beside UCX over tcp. It prints the
// medians of all rounds, and the median of each round's ratio: above 1 ringcli is faster.
// ucp_put_lat is half of a put there and a put back that each end polls for, as is half of a
// RoundTrip; a Write is waited for, and UCX's is not. It is for people: RINGTEST_MATRIX=full.
func TestTransportBesideUCX(t *testing.T) {
	if !verbstest.Full() {
		t.Skip("figures for people: RINGTEST_MATRIX=full")
	}
	if _, err := exec.LookPath("ucx_perftest"); err != nil {
		t.Skipf("%v: Debian has it in ucx-utils", err)
	}
	const rounds = 7
	median := func(list []float64) float64 { return slices.Sorted(slices.Values(list))[len(list)/2] }
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "us\tsize\tWrite\thalf RoundTrip\tucp_put_lat\tratio\tleast\tgreatest\t")
	for _, pair := range [][2]string{{"shm", "posix"}, {"soft:lo", "tcp"}} {
		device, tls := pair[0], pair[1]
		v, _ := served(t, "--device "+device)
		for _, size := range []int{8, 64, 512, 4096} {
			var writes, halves, puts, ratios []float64
			for round := range rounds {
				for turn := range 2 {
					if (turn+round)%2 == 0 {
						puts = append(puts, putLatency(t, tls, size))
						continue
					}
					code, stdout, stderr := finish(t, words(fmt.Sprintf("transport bench --device %s -b %d -e %[2]d --benchmark_filter _(Write|RoundTrip)/ --benchmark_min_time 0.2s --output json %s", device, size, v.host))...)
					if code != exit.OK {
						t.Fatalf("exit code %d: %s", code, stderr)
					}
					r := reportOf(t, stdout).Benchmarks
					if len(r) != 2 || !strings.Contains(r[1].Name, "RoundTrip") {
						t.Fatalf("%s: expected Write and RoundTrip", stdout)
					}
					writes, halves = append(writes, r[0].RealTime), append(halves, r[1].RealTime/2)
				}
				ratios = append(ratios, puts[round]/halves[round])
			}
			_, _ = fmt.Fprintf(table, "%s, UCX %s\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", device, tls, size, median(writes), median(halves), median(puts), median(ratios), slices.Min(ratios), slices.Max(ratios))
		}
		v.stop(t)
	}
	_ = table.Flush()
	t.Logf("medians of %d rounds\n%s", rounds, &b)
}

// putLatency is ucp_put_lat's average of two processes, in microseconds.
func putLatency(t *testing.T, tls string, size int) float64 {
	t.Helper()
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(free.Addr().(*net.TCPAddr).Port)
	_ = free.Close()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	run := func(more ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, "ucx_perftest", append([]string{"-t", "ucp_put_lat", "-s", strconv.Itoa(size), "-n", "5000", "-w", "500", "-p", port, "-f"}, more...)...)
		c.Env = append(os.Environ(), "UCX_TLS="+tls+",self", "UCX_NET_DEVICES=lo")
		return c
	}
	server := run()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = server.Wait() // its client has the figures
	}()
	for {
		out, err := run("127.0.0.1").CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if fields := strings.Fields(line); len(fields) == 8 && fields[0] == "5000" {
				if us, err := strconv.ParseFloat(fields[2], 64); err == nil {
					return us
				}
			}
		}
		if ctx.Err() != nil || !strings.Contains(string(out), "refused") {
			t.Fatalf("ucx_perftest: %v\n%s", err, out)
		}
		time.Sleep(20 * time.Millisecond) // it does not listen yet
	}
}
