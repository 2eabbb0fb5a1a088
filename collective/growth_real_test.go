package collective

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/verbs/verbstest"
)

// grown is what a step took on a rank, or on all of them.
type grown struct {
	Step                   string
	Us                     float64 // of its median round; begun together with the others
	Messages, Bytes, Peaks float64 // a round; the last is what the process has held at most until then
}

// wire counts what a rank writes to the control ring. A frame is a write.
type wire struct{ frames, bytes atomic.Uint64 }

type counted struct {
	net.Conn
	w *wire
}

func (c counted) Write(b []byte) (int, error) {
	c.w.frames.Add(1)
	c.w.bytes.Add(uint64(len(b)))
	return c.Conn.Write(b)
}

type counting struct {
	net.Listener
	w *wire
}

func (l counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return counted{c, l.w}, nil
}

// peak is VmHWM in bytes.
func peak() float64 {
	text, _ := os.ReadFile("/proc/self/status") // without, it is 0
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseFloat(fields[0], 64)
	return kib * 1024
}

// grow brings up a ring as one of its ranks and takes each step some times.
func (job *rankJob) grow() (said rankSays, err error) {
	var w wire
	ctx := context.Background()
	o := ring.Options{
		Device: job.Device, Timeout: job.Timeout,
		Listen: func(ctx context.Context, network, address string) (net.Listener, error) {
			l, err := new(net.ListenConfig).Listen(ctx, network, address)
			return counting{l, &w}, err
		},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return counted{c, &w}, nil
		},
	}
	said = rankSays{What: "grown", Began: time.Now().UnixNano()}
	r, err := ring.Connect(ctx, job.Servers, job.Rank, o)
	if err != nil {
		return said, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	said.Ready = time.Now().UnixNano()
	said.Steps = append(said.Steps, grown{"bring-up", 0, float64(w.frames.Load()), float64(w.bytes.Load()), peak()})
	c, err := New(r, Options{})
	if err != nil {
		return said, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	step := func(name string, rounds int, do func() error) error {
		count := func() (messages, bytes float64) {
			s := c.Stats()
			return float64(w.frames.Load() + s.EagerWrites + s.Credits + s.Writes + s.Reads + s.RTS + s.CTS + s.FIN), float64(w.bytes.Load() + s.Sent)
		}
		if err := r.Barrier(ctx); err != nil {
			return err
		}
		took := make([]float64, rounds)
		messages, bytes := count()
		for i := range took {
			begun := time.Now()
			if err := do(); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			took[i] = time.Since(begun).Seconds() * 1e6
		}
		slices.Sort(took)
		time.Sleep(settles)
		after, more := count()
		said.Steps = append(said.Steps, grown{name, took[rounds/2], (after - messages) / float64(rounds), (more - bytes) / float64(rounds), peak()})
		return nil
	}
	buffer, err := c.Alloc(1 << 20)
	if err != nil {
		return said, err
	}
	reduction := func(a Algorithm) func() error {
		return func() error {
			return c.AllReduce(ctx, buffer.Addr(), buffer.Addr(), 1<<18, reduce.Float32, reduce.Sum, CallOptions{Algorithm: a})
		}
	}
	err = step("agreement", 1, func() error { return c.Agree(ctx) })
	if err == nil {
		err = step("gather", 5, func() error { _, err := r.Gather(ctx, ring.Purpose{What: "gather"}, nil); return err })
	}
	for _, a := range []Algorithm{AlgorithmRing, AlgorithmRecursiveDoubling} {
		if err == nil {
			err = reduction(a)() // makes the edges
		}
		if err == nil {
			err = step("all-reduce, "+a.String(), 5, reduction(a))
		}
	}
	if err == nil {
		err = r.Barrier(ctx) // nobody leaves before the others are through
	}
	return said, errors.Join(err, buffer.Free())
}

// settles is how long after a step the last that its rank has to send is sent: a rank that has heard
// of all others goes on, though what it passes on waits to be written yet.
const settles = 100 * time.Millisecond

// grownMost are exponents at most, of time, messages, bytes and memory, from 2 to 64 ranks. Two and
// three are too few for any, and time is that of the ranks to a CPU. Of the control ring they are as
// in ring/bootstrap/growthtest, but that an agreement over shared memory has 3.5 messages of two ranks
// and 58 of 64 (0.82), with the heartbeats of its seconds. Messages by doubling go with the logarithm
// (0.24), and bytes are at most twice those of two ranks (0.18). A process has some MiB whatever the
// ranks, and a slot for each of them in memory that they share (0.24).
var grownMost = map[string][4]float64{
	"bring-up":                       {math.Inf(1), 0.7, 1.1, 0.2},
	"agreement":                      {math.Inf(1), 1, 1.1, 0.2},
	"gather":                         {math.Inf(1), 0.7, 1.1, 0.2},
	"all-reduce, ring":               {math.Inf(1), 1.05, 0.25, 0.3},
	"all-reduce, recursive-doubling": {math.Inf(1), 0.3, 0.25, 0.3},
}

// TestGrowthOfProcesses is what bring-up, agreement, gather and an all-reduce of a mebibyte take on
// ranks that are processes of this machine, with exponents; RINGTEST_MATRIX=full takes up to 64. See make growth.
func TestGrowthOfProcesses(t *testing.T) {
	sizes := []int{2, 3}
	if verbstest.Full() {
		sizes = []int{2, 8, 64}
	}
	for _, device := range []string{"soft:lo", "shm:0"} {
		all := map[string][]grown{}
		var steps []string
		for _, n := range sizes {
			ranks := startRanks(t, n, rankJob{Device: device, Timeout: 2 * time.Minute, Grows: true}, t.TempDir())
			var began, ready int64
			var sum []grown
			for rank, p := range ranks {
				s, err := p.awaits("grown", 10*time.Minute)
				if err != nil || s.Error != "" {
					t.Fatalf("%s, rank %d of %d: %v %s", device, rank, n, err, s.Error)
				}
				began, ready = max(began, s.Began), max(ready, s.Ready)
				if sum == nil {
					sum = make([]grown, len(s.Steps))
				}
				for i, g := range s.Steps {
					m := &sum[i]
					*m = grown{g.Step, max(m.Us, g.Us), m.Messages + g.Messages/float64(n), m.Bytes + g.Bytes/float64(n), max(m.Peaks, g.Peaks)}
				}
			}
			sum[0].Us = float64(ready-began) / 1e3 // from the last that came to the last that was ready
			steps = nil
			for _, g := range sum {
				steps = append(steps, g.Step)
				all[g.Step] = append(all[g.Step], g)
				if g.Us <= 0 || g.Peaks <= 0 {
					t.Errorf("%s of %d: %+v", g.Step, n, g)
				}
				if strings.HasPrefix(g.Step, "all-reduce") {
					// Each rank sends 2(n-1)/n of the vector, and some credits and heartbeats; round the
					// ring, memory that is shared takes none.
					least, most := 2*float64(n-1)/float64(n)*(1<<20), 1.05*2*float64(n-1)/float64(n)*(1<<20)
					if strings.HasPrefix(device, "shm") && strings.HasSuffix(g.Step, AlgorithmRing.String()) {
						least, most = 0, 1<<14
					}
					if g.Bytes < least-64 || g.Bytes > most {
						t.Errorf("%s, %s of %d: %.0f bytes a rank, expected %.0f to %.0f", device, g.Step, n, g.Bytes, least, most)
					}
				}
			}
		}
		var b strings.Builder
		out := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
		_, _ = fmt.Fprintln(out, "step\tranks\ttime us\tmessages/rank\tbytes/rank\tpeak MiB/rank\t")
		for _, step := range steps {
			for i, g := range all[step] {
				_, _ = fmt.Fprintf(out, "%s\t%d\t%.0f\t%.1f\t%.0f\t%.1f\t\n", step, sizes[i], g.Us, g.Messages, g.Bytes, g.Peaks/(1<<20))
			}
			_, _ = fmt.Fprintf(out, "%s\texponent\t", step)
			for k, of := range []func(g grown) float64{
				func(g grown) float64 { return g.Us }, func(g grown) float64 { return g.Messages },
				func(g grown) float64 { return g.Bytes }, func(g grown) float64 { return g.Peaks },
			} {
				var rows []growth
				for i, g := range all[step] {
					rows = append(rows, growth{ranks: sizes[i], us: of(g)})
				}
				by := "-" // round the ring, memory that is shared takes no messages
				if rows[0].us > 0 {
					e := exponent(rows, func(g growth) float64 { return g.us })
					by = fmt.Sprintf("%.2f", e)
					most, judged := grownMost[step]
					if k < 3 && strings.HasPrefix(device, "shm") && step == "all-reduce, ring" {
						judged = false // heartbeats alone are sent
					}
					if judged && len(sizes) > 2 && e > most[k] {
						t.Errorf("%s, %s: figure %d grows with the ranks to the power of %.2f, expected at most %.2f", device, step, k, e, most[k])
					}
				}
				_, _ = fmt.Fprint(out, by, "\t")
			}
			_, _ = fmt.Fprintln(out)
		}
		_ = out.Flush()
		t.Logf("%s, processes on %d CPUs: those beyond wait for one\n%s", device, runtime.NumCPU(), b.String())
	}
}
