package growthtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"ringcli/ring/bootstrap"
	"ringcli/ring/bootstrap/hosts"
)

// cost is what a step takes.
type cost struct {
	virtual       time.Duration
	frames, bytes float64 // a rank
	memory        float64 // bytes a rank, after it
	cpu           time.Duration
}

var steps = []string{"exchange", "agreement", "gather of nothing"}

// TestGrowth is how the exchange, the agreement and a gather grow with the ranks, with the
// exponents between the two largest rings; RINGTEST_MATRIX=full takes up to 1,000. See make growth.
func TestGrowth(t *testing.T) {
	sizes := []int{2, 8, 24}
	if os.Getenv("RINGTEST_MATRIX") == "full" {
		sizes = []int{2, 8, 64, 250, 1000}
	}
	all := map[int][]cost{}
	for _, n := range sizes {
		synctest.Test(t, func(t *testing.T) { all[n] = bringUp(t, n) })
	}
	var b strings.Builder
	out := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(out, "step\tranks\ttime\tframes/rank\tbytes/rank\tmemory/rank\tCPU/rank\t")
	last, before := sizes[len(sizes)-1], sizes[len(sizes)-2]
	for i, step := range steps {
		for _, n := range sizes {
			c := all[n][i]
			_, _ = fmt.Fprintf(out, "%s\t%d\t%s\t%.1f\t%.0f\t%.0f\t%s\t\n", step, n, c.virtual, c.frames, c.bytes, c.memory, (c.cpu / time.Duration(n)).Round(time.Microsecond))
		}
		x, y := all[before][i], all[last][i]
		e := func(a, b float64) float64 { return math.Log(b/a) / math.Log(float64(last)/float64(before)) }
		_, _ = fmt.Fprintf(out, "%s\texponent\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", step, e(float64(x.virtual), float64(y.virtual)), e(x.frames, y.frames), e(x.bytes, y.bytes),
			e(x.memory, y.memory), e(float64(x.cpu)/float64(before), float64(y.cpu)/float64(last)))
		// Each rank hears of each other one: that is what it must be.
		for what, by := range map[string]float64{"time": e(float64(x.virtual), float64(y.virtual)), "frames": e(x.frames, y.frames), "bytes": e(x.bytes, y.bytes)} {
			if by > 1.15 {
				t.Errorf("%s: %s grows with the ranks to the power of %.2f, from %d to %d", step, what, by, before, last)
			}
		}
	}
	_ = out.Flush()
	t.Log("\n" + b.String())
}

// bringUp has n ranks come up, agree, and gather nothing.
func bringUp(t *testing.T, n int) (costs []cost) {
	net := &network{listeners: map[string]*listener{}}
	nodes, addrs := make([]hosts.Node, n), make([]netip.AddrPort, n)
	for i := range nodes {
		addr := netip.AddrFrom4([4]byte{10, 1, byte(i / 250), byte(1 + i%250)})
		nodes[i] = hosts.Node{Host: addr.String(), Port: 18600}
		addrs[i] = netip.AddrPortFrom(addr, 18600)
	}
	memory := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc + m.StackInuse)
	}
	least := memory()
	ranks := make([]*bootstrap.Control, n)
	each := func(f func(c *bootstrap.Control, rank int) error) {
		var wg sync.WaitGroup
		errs := make([]error, n)
		for rank := range ranks {
			wg.Go(func() { errs[rank] = f(ranks[rank], rank) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("%d ranks: %.2000v", n, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	step := func(f func(c *bootstrap.Control, rank int) error) {
		begun, frames, bytes, cpu := time.Now(), net.frames.Load(), net.bytes.Load(), cpuTime()
		each(f)
		costs = append(costs, cost{
			time.Since(begun), float64(net.frames.Load()-frames) / float64(n), float64(net.bytes.Load()-bytes) / float64(n),
			(memory() - least) / float64(n), cpuTime() - cpu,
		})
	}
	each(func(_ *bootstrap.Control, rank int) (err error) {
		ranks[rank], err = bootstrap.Open(ctx, bootstrap.Config{
			List: nodes, Rank: rank, Addrs: addrs, Bind: addrs[rank], Listen: net.listen, Dial: net.dial(addrs[rank].String()),
			Clock: func() int64 { return time.Now().UnixNano() }, Sample: func(int, int64, int64, int64) {},
		})
		return err
	})
	// What a rank says of its device and slots to a neighbour.
	device := strings.Repeat("x", 600)
	step(func(c *bootstrap.Control, _ int) error {
		_, _, err := c.Exchange(ctx, device, device)
		return err
	})
	// What it says in collective.Agree.
	can := []byte(strings.Repeat("x", 60))
	step(func(c *bootstrap.Control, _ int) error {
		_, err := c.Gather(ctx, bootstrap.Purpose{What: "agreement"}, can)
		return err
	})
	step(func(c *bootstrap.Control, _ int) error {
		_, err := c.Gather(ctx, bootstrap.Purpose{What: "gather"}, nil)
		return err
	})
	each(func(c *bootstrap.Control, _ int) error { return c.Close() })
	return costs
}

// cpuTime is what this process has taken.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails on a bad pointer only
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
