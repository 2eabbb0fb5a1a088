package collective

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/trace"
	"ringcli/verbs"
)

// peerServers names the environment variable with the servers of the ring whose
// rank 1 the test binary is to be.
const peerServers = "RINGTEST_PEER"

// recorderSizes are the bytes of the vectors of BenchmarkRecorder.
var recorderSizes = []int{8, 64 << 10, 1 << 20}

// recorderPairs is how many pairs of runs BenchmarkRecorder makes of a size.
const recorderPairs = 401

// BenchmarkRecorder compares all-reduce by two processes with the flight
// recorder on and off in both: pairs of runs of milliseconds, the order of which
// alternates, so that what else the machine does falls on both. "on/off" is the
// median of the pairs' ratios of time, and "±" half the width of its 95 %
// confidence interval, by order statistics. It measures once, whatever b.N.
func BenchmarkRecorder(b *testing.B) {
	subnet := fmt.Sprintf("127.%d.%d", 1+rand.IntN(250), 1+rand.IntN(250))
	servers := []string{subnet + ".1", subnet + ".2"}
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	peer := exec.CommandContext(ctx, exe, "-test.run=^TestRecorderPeer$")
	peer.Env = append(os.Environ(), peerServers+"="+strings.Join(servers, " "))
	var out strings.Builder
	peer.Stdout, peer.Stderr = &out, &out
	if err := peer.Start(); err != nil {
		b.Fatal(err)
	}
	err = comparePairs(ctx, servers, 0, func(bytes int, ratios, off []float64) {
		slices.Sort(ratios)
		slices.Sort(off)
		half := int(0.98 * math.Sqrt(recorderPairs)) // 1.96 standard deviations of a binomial's rank
		mid := recorderPairs / 2
		b.ReportMetric(ratios[mid], fmt.Sprintf("%dB-on/off", bytes))
		b.ReportMetric((ratios[mid+half]-ratios[mid-half])/2, fmt.Sprintf("%dB-±", bytes))
		b.ReportMetric(off[mid]*1e6, fmt.Sprintf("%dB-us", bytes))
	})
	if err != nil {
		cancel()
	}
	if waited := peer.Wait(); err != nil || waited != nil {
		b.Fatalf("%v; the peer: %v\n%s", err, waited, &out)
	}
}

// TestRecorderPeer is rank 1 of BenchmarkRecorder, in a process of its own.
func TestRecorderPeer(t *testing.T) {
	servers := strings.Fields(os.Getenv(peerServers))
	if len(servers) == 0 {
		t.Skip("the other rank of BenchmarkRecorder")
	}
	if err := comparePairs(context.Background(), servers, 1, func(int, []float64, []float64) {}); err != nil {
		t.Fatal(err)
	}
}

// comparePairs makes the runs of one rank and reports the pairs' ratios of time
// and the seconds of an operation with the recorder off.
func comparePairs(ctx context.Context, servers []string, rank int, report func(bytes int, ratios, off []float64)) (err error) {
	r, err := ring.Connect(ctx, servers, rank, ring.Options{Device: "soft:lo", Wait: verbs.WaitGosched})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	c, err := New(r, Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	defer trace.SetRecorder(trace.RecorderOn())
	for _, bytes := range recorderSizes {
		buffer, err := c.Alloc(uint64(bytes))
		if err != nil {
			return err
		}
		times := max(4, min(100, 4<<20/bytes))
		timed := func(on bool) (seconds float64) {
			trace.SetRecorder(on)
			start := time.Now()
			for range times {
				err = errors.Join(err, c.AllReduce(ctx, buffer.Addr(), buffer.Addr(), bytes/4, reduce.Float32, reduce.Sum, CallOptions{}))
			}
			return time.Since(start).Seconds() / float64(times)
		}
		timed(true)
		ratios, off := make([]float64, recorderPairs), make([]float64, recorderPairs)
		for i := range ratios {
			var on float64
			if i%2 == 0 {
				on, off[i] = timed(true), timed(false)
			} else {
				off[i], on = timed(false), timed(true)
			}
			ratios[i] = on / off[i]
		}
		if err != nil {
			return err
		}
		report(bytes, ratios, off)
	}
	return nil
}
