package collective

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ringcli/collective/plan"
	"ringcli/collective/reduce"
	"ringcli/collective/topology"
	"ringcli/ring"
	"ringcli/verbs/route"
	"ringcli/verbs/verbstest"
)

// along makes ranks that say they are on the hosts of which each has so many of them, and take
// shared memory to one another there.
func along(sizes ...int) func(rank int) ring.Options {
	hosts := topology.Sized(sizes...)
	return func(rank int) ring.Options {
		h := route.ThisHost()
		h.BootID = fmt.Sprint("host ", hosts.Host(rank))
		return ring.Options{Device: route.Auto, Host: &h}
	}
}

var hierarchical = CallOptions{Algorithm: AlgorithmHierarchical}

// TestMatrixAlongHosts: every operation along hosts is bit for bit what the reference says, with
// shared memory on each host and packets between them, where hosts have as many ranks as others
// and where they have not.
func TestMatrixAlongHosts(t *testing.T) {
	m := sampleMatrix()
	m.private, m.ways = true, []CallOptions{hierarchical, {Algorithm: AlgorithmHierarchical, Depth: 1}}
	m.counts = func(n int) []int { return []int{0, 1, n - 1, n + 1, 1000, 65537} }
	layouts := [][]int{{2, 2}, {3, 1}, {4, 4, 4, 4}, {1, 7}}
	switch {
	case verbstest.Full():
		m.types, m.ops = reduce.Types(), reduce.Ops()
		m.ways = append(m.ways, CallOptions{Algorithm: AlgorithmHierarchical, Segment: 4096, Depth: 16}, CallOptions{Algorithm: AlgorithmHierarchical, Verify: true})
		m.counts = func(n int) []int { return []int{0, 1, n - 1, n, n + 1, 1000, 65537, 1<<17 - 1} }
	case testing.Short() || verbstest.Race:
		m.types, m.ops, layouts = m.types[:1], m.ops[:1], [][]int{{3, 1}}
	}
	for _, sizes := range layouts {
		hosts := topology.Sized(sizes...)
		t.Run(hosts.String(), func(t *testing.T) {
			m := m
			if len(sizes) > 2 && !verbstest.Full() { // its ranks take turns on few CPUs
				m.types, m.ways = m.types[:1], m.ways[:1]
			}
			m.options = along(sizes...)
			t.Logf("%d operations", m.run(t, len(hosts.Order())))
		})
	}
}

// TestMissingRankAlongHosts: where a rank never calls, the others end, and say whom they await:
// that one, or one that waits for it.
func TestMissingRankAlongHosts(t *testing.T) {
	verbstest.Long(t)
	const n, count, missing = 4, 900, 2
	for _, op := range plan.Operations() {
		t.Run(op.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorldOf(t, n, along(2, 2), nil)
			k := newKit(w, count, reduce.Int32, reduce.Sum)
			k.expect(count)
			k.check(op, count, hierarchical, false)
			w.timeout(time.Second)
			call := Call{Op: op, Count: count, Type: k.typ, Root: k.root, CallOptions: hierarchical}
			errs := w.each(func(rank int, c *Comm) error {
				if rank == missing {
					return nil
				}
				call := call
				call.Send, call.Recv = k.send[rank].Addr(), k.recv[rank].Addr()
				if !op.Rooted() {
					return c.Run(context.Background(), call)
				}
				for { // who is through ahead of the others comes again
					if err := c.Run(context.Background(), call); err != nil {
						return err
					}
				}
			})
			said := false
			for rank, err := range errs {
				if rank == missing {
					continue
				}
				if err == nil {
					t.Fatalf("rank %d: %s without rank %d succeeded", rank, op, missing)
				}
				said = said || errors.Is(err, ErrTimeout) && strings.Contains(err.Error(), "awaited from rank")
			}
			if !said {
				t.Errorf("nobody says whom it awaits: %v", errs)
			}
		})
	}
}

// TestHostsThatAreTold: the setting of rank 0 counts, and one that does not fit is refused on all
// ranks.
func TestHostsThatAreTold(t *testing.T) {
	const n, count = 6, 1 << 17
	w := newWorldOf(t, n, func(rank int) ring.Options {
		o := ring.Options{Device: "soft:lo", Hosts: "5"}
		if rank == 0 {
			o.Hosts = "2x2,2"
		}
		return o
	}, nil)
	if got := w.comms[n-1].Hosts().String(); got != "3 hosts of 2 ranks" {
		t.Errorf("%s", got)
	}
	k := newKit(w, count, reduce.Float32, reduce.Sum)
	k.expect(count)
	for _, op := range plan.Operations() {
		k.check(op, count, hierarchical, false)
		k.check(op, count, hierarchical, true)
	}
	w.must(func(_ int, c *Comm) error {
		return c.Run(context.Background(), Call{Op: OpBarrier, CallOptions: hierarchical})
	})
	w.must(func(_ int, c *Comm) error {
		if s := c.Stats(); s.Reductions == 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	servers := freshServers(t, 3)
	errs := make(chan error, len(servers))
	for rank := range servers {
		go func() {
			r, err := ring.Connect(t.Context(), servers, rank, ring.Options{Device: "soft:lo", Hosts: "3,1"})
			if err == nil {
				var c *Comm
				if c, err = New(r, Options{}); err == nil {
					err = c.Agree(t.Context())
					_ = c.Close()
				}
				_ = r.Close()
			}
			errs <- err
		}()
	}
	for range servers {
		if err := <-errs; !errors.Is(err, ErrUsage) {
			t.Errorf("%v: expected that the hosts do not fit", err)
		}
	}
}
