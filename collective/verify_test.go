package collective

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/ring/bootstrap"
)

// verified are the ways with verified segments.
func verified(ways []CallOptions) (list []CallOptions) {
	for _, way := range ways {
		way.Verify = true
		list = append(list, way)
	}
	return list
}

// TestVerified: with their checksums segments come to the same results, by all ways, while
// ranks are ahead of each other, and between operations without.
func TestVerified(t *testing.T) {
	for _, device := range []string{"soft:lo", shared0} {
		for _, n := range []int{2, 3, 5} {
			if n == 5 && testing.Short() {
				continue
			}
			t.Run(fmt.Sprintf("%s, %d ranks", device, n), func(t *testing.T) {
				const most = 40_000
				w := newWorld(t, n, ring.Options{Device: device, Slots: 16}, nil)
				k := newKit(w, most, reduce.Float32, reduce.Sum)
				for _, count := range []int{0, 1, n + 1, 1000, most} {
					k.expect(count)
					for _, way := range append(verified(append(allWays(), CallOptions{}, CallOptions{Segment: 512, Depth: 2}, CallOptions{Depth: 1})), CallOptions{}) {
						for op := range OpBarrier {
							k.check(op, count, w.comms[0].elseEager(op, way), op == OpAllReduce)
						}
					}
				}
			})
		}
	}
}

// TestVerifyNamesTheEdge: what changes on the way to a rank is found before it is used, and
// all ranks are told the edge that it came over, and where it was.
func TestVerifyNamesTheEdge(t *testing.T) {
	const n, count, odd = 4, 4000, 2
	for _, way := range verified(allWays()) {
		for op := range OpBarrier {
			for _, at := range []int{0, 1} {
				if way.Protocol == ReceiverInitiated && op != OpAllReduce || way.Algorithm == AlgorithmTree && at == 1 {
					continue
				}
				if way.Protocol == ReceiverInitiated && at == 1 {
					at = n // in the second phase
				}
				t.Run(fmt.Sprintf("%s %s, segment %d", op, wayName(way), at), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, n, ring.Options{}, func(rank int) Options {
						return Options{Corrupt: func(_ Operation, segment int, payload []byte) {
							if rank == odd && segment == at && len(payload) > 0 {
								payload[len(payload)/2] ^= 4
							}
						}}
					})
					k := newKit(w, count, reduce.Int32, reduce.Sum)
					errs := w.each(func(rank int, c *Comm) error {
						call := Call{Op: op, Count: count, Type: reduce.Int32, Reduction: reduce.Sum, Send: k.send[rank].Addr(), Recv: k.recv[rank].Addr(), CallOptions: way}
						if err := c.Run(context.Background(), call); err != nil {
							return err
						}
						return c.Barrier(context.Background()) // of who had all that it needed before
					})
					var found *CorruptionError
					if !errors.As(errs[odd], &found) || found.Edge.To != odd || errors.Is(errs[odd], ErrUsage) {
						t.Fatalf("rank %d: %v: expected that it has found damage", odd, errs[odd])
					}
					if way.Algorithm == AlgorithmRing && found.Edge.From != odd-1 || found.Doing.Operation != 1 || found.Bytes == 0 || found.Expected == found.Found {
						t.Errorf("%+v", found)
					}
					words := fmt.Sprintf("data changed between rank %d and rank %d (certain)", found.Edge.From, odd)
					for rank, err := range errs {
						var v *ring.Verdict
						if !strings.Contains(fmt.Sprint(err), words) {
							t.Errorf("rank %d: %v: expected %q", rank, err, words)
						}
						if rank != odd && (!errors.As(err, &v) || v.Kind != bootstrap.KindCorrupt || v.Edge != found.Edge || v.Confidence != bootstrap.Certain || v.Doing.Phase == "") {
							t.Errorf("rank %d: %+v", rank, v)
						}
					}
				})
			}
		}
	}
}

// TestVerifyNotDirect: where no segment travels none can be verified, which is said before
// anything is sent; auto takes another protocol.
func TestVerifyNotDirect(t *testing.T) {
	w := newWorld(t, 2, ring.Options{Device: shared0}, nil)
	k := newKit(w, 1000, reduce.Int32, reduce.Sum)
	call := Call{Op: OpAllReduce, Count: 1000, Type: reduce.Int32, Reduction: reduce.Sum}
	for _, way := range directWays {
		way.Verify = true
		for rank, err := range w.each(func(rank int, c *Comm) error {
			return c.AllReduce(context.Background(), k.send[rank].Addr(), k.recv[rank].Addr(), 1000, reduce.Int32, reduce.Sum, way)
		}) {
			if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "segments cannot be verified by direct: none is sent") {
				t.Errorf("rank %d, %s: %v", rank, wayName(way), err)
			}
		}
	}
	if err := w.comms[0].SetTable(Table{Rules: []Rule{{Op: OpAllReduce, Algorithm: AlgorithmRing, Protocol: Direct}}}); err != nil {
		t.Fatal(err)
	}
	for _, verify := range []bool{false, true} {
		call.Verify = verify
		if plan, err := w.comms[0].Plan(call); err != nil || (plan.Protocol == Direct) == verify || plan.Verify != verify {
			t.Errorf("verify %v: %v, %v", verify, plan, err)
		}
	}
}
