package collective

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"ringcli/collective/reduce"
	"ringcli/collective/script"
	"ringcli/ring"
	"ringcli/trace"
	"ringcli/trace/tracetest"
)

// TestExchangeStats: what one rank sends another receives, and each rank counts
// what its script says.
func TestExchangeStats(t *testing.T) {
	const n, count = 4, 1 << 18 // 1 MiB, in 32 segments
	w := newWorld(t, n, ring.Options{}, nil)
	k := newKit(w, count, reduce.Float32, reduce.Sum)
	const bytes = count * 4
	for _, test := range []struct {
		algorithm  Algorithm
		depth      int
		moved      uint64 // by all ranks, in vectors
		reductions uint64 // by all ranks, in segments
	}{
		{AlgorithmRecursiveDoubling, 0, n * 2, n * 2 * 32},
		{AlgorithmRecursiveDoubling, 1, n * 2, n * 2 * 32},
		{AlgorithmTree, 0, 2 * (n - 1), (n - 1) * 32},
		{AlgorithmTree, 1, 2 * (n - 1), (n - 1) * 32},
		{AlgorithmInbox, 0, n * (n - 1), n * (n - 1) * 32},
		{AlgorithmInbox, 1, n * (n - 1), n * (n - 1) * 32},
	} {
		t.Run(fmt.Sprintf("%s, depth %d", test.algorithm, test.depth), func(t *testing.T) {
			var before [n]Stats
			for r, c := range w.comms {
				before[r] = c.Stats()
			}
			k.runs(1, count, CallOptions{Algorithm: test.algorithm, Depth: test.depth})
			var sum Stats
			for r, c := range w.comms {
				s := minus(c.Stats(), before[r])
				if s.Operations != 1 || s.Writes+s.Reads+s.RTS+s.CTS+s.FIN != 0 {
					t.Errorf("rank %d: %+v", r, s)
				}
				sum.Sent += s.Sent
				sum.Received += s.Received
				sum.EagerWrites += s.EagerWrites
				sum.Reductions += s.Reductions
				sum.Overlapped += s.Overlapped
			}
			if sum.Sent != test.moved*bytes || sum.Received != sum.Sent || sum.EagerWrites != sum.Sent/(32<<10) || sum.Reductions != test.reductions {
				t.Errorf("all ranks: %+v, want %d bytes sent and received, in segments of 32 KiB, and %d reductions", sum, test.moved*bytes, test.reductions)
			}
			if test.depth == 1 && sum.Overlapped != 0 || test.depth != 1 && sum.Overlapped == 0 {
				t.Errorf("at depth %d, %d reductions finished while a transfer was in flight", test.depth, sum.Overlapped)
			}
		})
	}
}

// TestExchangeTimeline: every message has its send and its receive, which lie within
// the operation, and each rank's steps follow one another.
func TestExchangeTimeline(t *testing.T) {
	const n, count = 4, 30001
	w := newWorld(t, n, ring.Options{}, nil)
	k := newKit(w, count, reduce.Float32, reduce.Sum)
	for _, o := range meshWays {
		for _, o.Segment = range []int{0, 4096} {
			t.Run(fmt.Sprintf("%s, segments of %d", o.Algorithm, o.Segment), func(t *testing.T) {
				k.runs(2, count, o)
				since := trace.Clock()
				k.runs(1, count, o)
				events := recorded(since, w.comms[0].watch.Seq)
				if len(events["operation"]) != n {
					t.Fatalf("%d operations, want one for each of %d ranks", len(events["operation"]), n)
				}
				first, last := events["operation"][0].Start, int64(0)
				for _, e := range events["operation"] {
					if e.Args.Text("protocol") != o.Algorithm.String() {
						t.Errorf("the operation is %+v, want %s", e.Args, o.Algorithm)
					}
					first, last = min(first, e.Start), max(last, e.End)
				}
				sends, receives := events["segment send"], events["segment receive"]
				messages, steps, bytes := 0, 0, 0
				planned, err := w.comms[0].Plan(Call{Op: OpAllReduce, Count: count, Type: k.typ, Reduction: k.red, CallOptions: o})
				if err != nil {
					t.Fatal(err)
				}
				for rank := range w.comms {
					var r script.Script
					planned.Script(&r, rank, n, nil)
					cut := script.NewCut(count, planned.Segment/k.typ.Size(), n, &r)
					for _, m := range r.Moves {
						if takesMessage(m) {
							messages += cut.Groups * cut.Pieces(m.Lo, m.Hi)
							bytes += 4 * count
						}
						if m.Do != script.MoveSend {
							steps += cut.Groups
						}
					}
				}
				if len(sends) != messages || len(receives) != messages || len(events["segment reduce"]) < messages {
					t.Errorf("%d sends, %d receives, %d segments reduced or copied, want %d each", len(sends), len(receives), len(events["segment reduce"]), messages)
				}
				for _, e := range slices.Concat(sends, receives) {
					if e.Start < first || e.End > last || e.End < e.Start || e.Args.Value("peer") >= n {
						t.Errorf("%s %+v [%d, %d] is not within the operation [%d, %d]", e.Name, e.Args, e.Start, e.End, first, last)
					}
					if e.Name == "segment send" {
						bytes -= int(e.Args.Value("bytes"))
					}
				}
				if bytes != 0 {
					t.Errorf("the sends lack %d bytes", bytes)
				}
				// Each operation ends with what is left of its last step.
				if got := len(events["step"]); got < steps || got > steps+n {
					t.Errorf("%d steps, want %d to %d", got, steps, steps+n)
				}
			})
		}
	}
	var file bytes.Buffer
	if err := errors.Join(trace.WriteRecordings(&file, []trace.Recording{trace.Record()}), tracetest.CheckChrome(&file)); err != nil {
		t.Error(err)
	}
}

// TestExchangeTrace: an operation says which algorithm it runs.
func TestExchangeTrace(t *testing.T) {
	w := newWorld(t, 2, ring.Options{}, nil)
	k := newKit(w, 1000, reduce.Float32, reduce.Sum)
	var out bytes.Buffer
	withTrace(t, "off,collective=debug", &out, func() { k.runs(1, 1000, CallOptions{Algorithm: AlgorithmTree}) })
	for _, words := range []string{
		"operation starts", `call="all-reduce of 1000 float32, sum, tree, eager in segments of 4000 bytes, depth 4"`, "algorithm=tree", "operation ends",
	} {
		if got := strings.Count(out.String(), words); got != 2 {
			t.Errorf("%q was traced %d times by two ranks:\n%s", words, got, &out)
		}
	}
}

// TestExchangeCredits: where more goes one way than the other, slots are given back
// by messages of their own.
func TestExchangeCredits(t *testing.T) {
	const n, count = 5, 1 << 18
	w := newWorld(t, n, ring.Options{}, nil)
	k := newKit(w, count, reduce.Float32, reduce.Sum)
	k.expect(count)
	since := trace.Clock()
	withTrace(t, "off,collective=debug", io.Discard, func() { k.check(OpReduceScatter, count, CallOptions{Algorithm: AlgorithmTree}, true) })
	var credits uint64
	for _, c := range w.comms {
		credits += c.Stats().Credits
	}
	if sent := recorded(since, w.comms[0].watch.Seq)["credit sent"]; uint64(len(sent)) != credits || credits == 0 {
		t.Errorf("%d credits are recorded, %d were sent", len(sent), credits)
	}
}

// TestCommAfterComm: another Comm over the same ring uses the same edges, and what
// the one before left on its way harms nobody.
func TestCommAfterComm(t *testing.T) {
	const n, count = 5, 5 * 24 * 256 // the last of 24 segments makes the last credit
	w := newWorld(t, n, ring.Options{}, nil)
	for round := range 6 {
		k := newKit(w, count, reduce.Int32, reduce.Sum)
		k.expect(count)
		k.check(OpAllReduce, count, ringWays[round%len(ringWays)], true) // polls for edges that the Comm does not know yet
		for range 3 {
			k.check(OpReduceScatter, count, CallOptions{Algorithm: AlgorithmTree, Segment: 1024}, true)
		}
		w.must(func(rank int, c *Comm) (err error) {
			if err := c.Close(); err != nil {
				return err
			}
			w.comms[rank], err = New(w.rings[rank], Options{})
			return err
		})
	}
}

// TestExchangeCorruption: a fault injector sees every segment, and what it does is
// found by the check that the command line uses.
func TestExchangeCorruption(t *testing.T) {
	const n, count = 4, 40000
	for _, way := range meshWays {
		t.Run(way.Algorithm.String(), func(t *testing.T) {
			next := 0
			w := newWorld(t, n, ring.Options{}, func(rank int) Options {
				if rank != 2 {
					return Options{}
				}
				return Options{Corrupt: func(op Operation, segment int, payload []byte) {
					if op != OpAllReduce || segment != next {
						t.Errorf("segment %d of %s, want %d", segment, op, next)
					}
					next++
					payload[len(payload)/2] ^= 0x10
				}}
			})
			w.must(func(rank int, c *Comm) error {
				k := Call{Op: OpAllReduce, Type: reduce.Int32, Reduction: reduce.Sum, Count: count, CallOptions: way}
				check := k.Checker(n, c.Hosts(), matrixSeed)
				b, err := c.Alloc(4 * count)
				if err != nil {
					return err
				}
				check.Fill(rank, b.Bytes())
				if err := c.AllReduce(t.Context(), b.Addr(), b.Addr(), count, reduce.Int32, reduce.Sum, way); err != nil {
					return err
				}
				if wrong, _ := check.Verify(0, count, b.Bytes()); rank == 2 && wrong == 0 {
					t.Errorf("rank 2 has no wrong element")
				}
				return nil
			})
			if next == 0 {
				t.Error("the fault injector was not called")
			}
		})
	}
}
