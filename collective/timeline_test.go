package collective

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"ringcli/collective/hostteam"
	"ringcli/collective/program"
	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/trace"
	"ringcli/trace/tracetest"
)

// recorded returns what was recorded of operation seq since then, on all the
// ranks of this process, by name, in the order of their starts.
func recorded(since int64, seq uint64) map[string][]trace.Event {
	events := map[string][]trace.Event{}
	for _, e := range trace.Record().Events {
		if e.Subsystem == trace.Collective.String() && e.Start >= since && e.Args.Value("seq") == seq {
			events[e.Name] = append(events[e.Name], e)
		}
	}
	return events
}

// segment is what a send and its receive have in common.
type segment struct {
	from                 uint64
	seq, position, bytes uint64
}

// segments keys the sends or receives of all ranks, each of which must be there
// once. The sender is as many ranks beyond the peer that the span names.
func segments(t *testing.T, events []trace.Event, n, beyond int) map[segment]trace.Event {
	t.Helper()
	m := map[segment]trace.Event{}
	for _, e := range events {
		k := segment{(e.Args.Value("peer") + uint64(beyond)) % uint64(n), e.Args.Value("seq"), e.Args.Value("position"), e.Args.Value("bytes")}
		if _, twice := m[k]; twice {
			t.Errorf("%s %+v was recorded twice", e.Name, k)
		}
		m[k] = e
	}
	return m
}

// matched compares sends with receives and returns both.
func matched(t *testing.T, events map[string][]trace.Event, n int) (sends, receives map[segment]trace.Event) {
	t.Helper()
	sends = segments(t, events["segment send"], n, n-1)
	receives = segments(t, events["segment receive"], n, 0)
	for k, s := range sends {
		r, ok := receives[k]
		if !ok {
			t.Errorf("segment %+v was sent and not received", k)
		} else if r.End < s.Start {
			t.Errorf("segment %+v: its receive ended %d ns before its send began", k, s.Start-r.End)
		}
	}
	for k := range receives {
		if _, ok := sends[k]; !ok {
			t.Errorf("segment %+v was received and not sent", k)
		}
	}
	return sends, receives
}

// stepsFrom takes a rank's steps out of those of all n ranks: the chain of so many
// that begins where its operation began and ends with it. Steps of two ranks may begin in
// the same tick of the clock, and with the same number: what leads to another end is
// another rank's.
func stepsFrom(at, end int64, all []trace.Event, n, count int) []trace.Event {
	var from func(at int64, i int) []trace.Event
	from = func(at int64, i int) []trace.Event {
		phase, step := uint64(i/(n-1)%2), uint64(i%(n-1))
		for _, e := range all {
			if e.Start != at || e.Args.Value("phase") != phase || e.Args.Value("step") != step {
				continue
			}
			if i == count-1 {
				if e.End == end {
					return []trace.Event{e}
				}
			} else if rest := from(e.End, i+1); rest != nil {
				return append([]trace.Event{e}, rest...)
			}
		}
		return nil
	}
	return from(at, 0)
}

// begunTogether tells whether two ranks began in the same tick of the clock. An
// operation's record does not name its rank, so they cannot be told apart.
func begunTogether(operations []trace.Event) bool {
	begun := map[int64]bool{}
	for _, e := range operations {
		begun[e.Start] = true
	}
	return len(begun) < len(operations)
}

// TestTimeline: under each protocol every send has its receive, which does not
// end before the send began; a rank's segments lie within its operation, and its
// steps follow one another from the operation's start to its end.
func TestTimeline(t *testing.T) {
	const n, count = 4, 10007
	w := newWorld(t, n, ring.Options{}, nil)
	k := newKit(w, count, reduce.Float32, reduce.Sum)
	for _, protocol := range []Protocol{Eager, RendezvousWrite, RendezvousRead, ReceiverInitiated} {
		for _, o := range []CallOptions{{}, {Segment: 1024}, {Segment: 1024, Depth: 1}} {
			o.Protocol = protocol
			t.Run(fmt.Sprintf("%s, segments of %d, depth %d", protocol, o.Segment, o.Depth), func(t *testing.T) {
				k.runs(2, count, o)
				var events map[string][]trace.Event
				for again := true; again; again = begunTogether(events["operation"]) {
					since := trace.Clock()
					k.runs(1, count, o)
					events = recorded(since, w.comms[0].watch.Seq)
				}
				sends, receives := matched(t, events, n)
				planned, p := k.laidOut(t, count, o)
				if want := n * p.Incoming; len(sends) != want {
					t.Errorf("%d segments were sent, want %d", len(sends), want)
				}
				want := n * p.Incoming / 2
				if protocol == Eager {
					want = n * p.Incoming // half of them are copied
				}
				if got := len(events["segment reduce"]); got != want {
					t.Errorf("%d segments were reduced or copied, want %d", got, want)
				}
				if got := len(events["operation"]); got != n {
					t.Fatalf("%d operations, want one for each of %d ranks", got, n)
				}
				for _, c := range w.comms {
					c.checkTimeline(t, &planned, &p.Schedule, events, sends, receives)
				}
			})
		}
	}
	var file bytes.Buffer
	if err := errors.Join(trace.WriteRecordings(&file, []trace.Recording{trace.Record()}), tracetest.CheckChrome(&file)); err != nil {
		t.Error(err)
	}
}

// laidOut is an all-reduce as it runs, and how its segments go round the ring.
func (k *kit) laidOut(t *testing.T, count int, o CallOptions) (planned Call, p program.Counts) {
	t.Helper()
	c := k.w.comms[0]
	planned, err := c.Plan(Call{Op: OpAllReduce, Count: count, Type: k.typ, Reduction: k.red, CallOptions: o})
	if err != nil {
		t.Fatal(err)
	}
	p.Program = program.Program{Size: c.Size()}
	planned.LayOut(&p, planned.Op.Program())
	return planned, p
}

func (c *Comm) checkTimeline(t *testing.T, planned *Call, p *program.Schedule, events map[string][]trace.Event, sends, receives map[segment]trace.Event) {
	t.Helper()
	begun := c.exec.Begun()
	i := slices.IndexFunc(events["operation"], func(e trace.Event) bool { return e.Start == int64(begun) })
	if i < 0 {
		t.Fatalf("rank %d: no operation began at %d", c.Rank(), begun)
	}
	op := events["operation"][i]
	if op.Args.Text("op") != "all-reduce" || op.Args.Text("protocol") != planned.Protocol.String() || op.Args.Value("bytes") != uint64(planned.Count)*4 {
		t.Errorf("rank %d: the operation is %+v", c.Rank(), op.Args)
	}
	within := func(what string, e trace.Event) {
		if e.Start < op.Start || e.End > op.End || e.End < e.Start {
			t.Errorf("rank %d: %s [%d, %d] is not within the operation [%d, %d]", c.Rank(), what, e.Start, e.End, op.Start, op.End)
		}
	}
	left := uint64(c.ring.Left().Peer)
	var bytes uint64
	for k, e := range sends {
		if k.from == uint64(c.Rank()) {
			within("a send", e)
		}
	}
	for k, e := range receives {
		if k.from == left {
			within("a receive", e)
			bytes += k.bytes
		}
	}
	transfers, groups := 2*c.Size()-2, (p.Segments+p.Depth-1)/p.Depth
	steps := stepsFrom(op.Start, op.End, events["step"], c.Size(), groups*transfers)
	if steps == nil {
		t.Fatalf("rank %d: no chain of %d steps from the operation's start at %d to its end at %d: %+v", c.Rank(), groups*transfers, op.Start, op.End, events["step"])
	}
	for i, e := range steps {
		bytes -= e.Args.Value("bytes")
		if transfer := uint64(i % transfers); e.Args.Value("phase") != transfer/uint64(c.Size()-1) || e.Args.Value("step") != transfer%uint64(c.Size()-1) {
			t.Errorf("rank %d: step %d is %+v", c.Rank(), i, e.Args)
		}
	}
	if bytes != 0 {
		t.Errorf("rank %d: the receives have %d bytes more than the steps", c.Rank(), int64(bytes))
	}
}

// TestTimelineOfPhases: a synchronized all-reduce is three passes, each with its
// number; the phases of reduce-scatter and all-gather are told apart.
func TestTimelineOfPhases(t *testing.T) {
	const n, count = 3, 1000
	w := newWorld(t, n, ring.Options{}, nil)
	k := newKit(w, count, reduce.Float32, reduce.Sum)
	since := trace.Clock()
	k.runs(1, count, CallOptions{Protocol: Eager, Sync: true})
	for i, want := range []struct {
		op    string
		phase uint64
	}{{"all-reduce", 0}, {"barrier", 1}, {"all-reduce", 1}} {
		events := recorded(since, uint64(i+1))
		matched(t, events, n)
		if len(events["operation"]) != n || len(events["step"]) != n*(n-1) {
			t.Errorf("pass %d: %d operations and %d steps, want %d and %d", i+1, len(events["operation"]), len(events["step"]), n, n*(n-1))
		}
		for _, e := range events["operation"] {
			if e.Args.Text("op") != want.op {
				t.Errorf("pass %d is %+v, want %s", i+1, e.Args, want.op)
			}
		}
		for _, e := range events["step"] {
			if e.Args.Value("phase") != want.phase || e.Args.Value("step") >= n-1 {
				t.Errorf("pass %d has step %+v, want phase %d", i+1, e.Args, want.phase)
			}
		}
	}
}

// TestTimelineOfSharedMemory: ranks that share memory record their steps, one for each
// phase, and when they work.
func TestTimelineOfSharedMemory(t *testing.T) {
	const n, count = 3, 100_000
	w := newWorld(t, n, ring.Options{Device: shared0}, nil)
	k := newKit(w, count, reduce.Float32, reduce.Sum)
	k.expect(count)
	for _, c := range []struct {
		op    Operation
		o     CallOptions
		steps int // of a rank
	}{
		{OpAllReduce, CallOptions{Algorithm: AlgorithmRing}, 2}, {OpAllReduce, CallOptions{Algorithm: AlgorithmRing, Sync: true}, 2},
		{OpReduceScatter, CallOptions{Algorithm: AlgorithmRing}, 1}, {OpAllGather, CallOptions{Algorithm: AlgorithmRing}, 1},
		{OpAllReduce, CallOptions{Algorithm: AlgorithmInbox}, 1}, {OpAllGather, CallOptions{Algorithm: AlgorithmInbox}, 1},
	} {
		t.Run(fmt.Sprintf("%s, %s, sync %v", c.op, c.o.Algorithm, c.o.Sync), func(t *testing.T) {
			since := trace.Clock()
			for {
				k.check(c.op, count, c.o, false)
				if w.comms[0].watch.Seq%hostteam.InboxRecorded == 0 || c.o.Algorithm == AlgorithmRing && !c.o.Sync {
					break
				}
			}
			events := recorded(since, w.comms[0].watch.Seq)
			if len(events["operation"]) != n || len(events["step"]) != c.steps*n || len(events["work"]) < n {
				t.Errorf("%d operations, %d steps, %d stretches of work", len(events["operation"]), len(events["step"]), len(events["work"]))
			}
			for _, op := range events["operation"] {
				at, worked := op.Start, false
				for _, e := range events["step"] {
					if e.Start == at && e.End <= op.End {
						at = e.End
					}
				}
				for _, e := range events["work"] {
					worked = worked || op.Start <= e.Start && e.End <= op.End
				}
				if at != op.End || !worked {
					t.Errorf("steps from %d to %d of an operation to %d; it works: %v", op.Start, at, op.End, worked)
				}
			}
			for _, e := range events["step"] {
				if want := uint64(8 * count / 3); e.Args.Value("bytes")/100 != want/100 && e.Args.Value("bytes") != 8*count {
					t.Errorf("step %+v, want %d bytes", e.Args, want)
				}
			}
		})
	}
}

// TestTimelineOfOne: a ring of one sends nothing, and its operation is recorded.
func TestTimelineOfOne(t *testing.T) {
	w := newWorld(t, 1, ring.Options{}, nil)
	k := newKit(w, 10, reduce.Float32, reduce.Sum)
	since := trace.Clock()
	k.runs(1, 10, CallOptions{})
	if got := recorded(since, 1); len(got) != 1 || len(got["operation"]) != 1 || got["operation"][0].Args.Value("bytes") != 40 {
		t.Errorf("recorded %+v, want one operation of 40 bytes", got)
	}
}

// TestTimelineOfFailure: an operation that is cancelled is recorded before its
// call returns, with what it was waiting for.
func TestTimelineOfFailure(t *testing.T) {
	for _, protocol := range []Protocol{Eager, RendezvousWrite, RendezvousRead, ReceiverInitiated} {
		t.Run(protocol.String(), func(t *testing.T) {
			const n, count = 2, 1000
			w := newWorld(t, n, ring.Options{}, nil)
			k := newKit(w, count, reduce.Float32, reduce.Sum)
			since := trace.Clock()
			ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
			defer cancel()
			// Rank 1 does not take part.
			err := w.comms[0].AllReduce(ctx, k.send[0].Addr(), k.recv[0].Addr(), count, k.typ, k.red, CallOptions{Protocol: protocol})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got %v, want a cancelled operation", err)
			}
			events := recorded(since, 1)
			if len(events["operation"]) != 1 || len(events["step"]) != 1 || len(events["segment receive"]) != 0 {
				t.Fatalf("recorded %+v, want an operation and its first step, and no receive", events)
			}
			op, step := events["operation"][0], events["step"][0]
			if step.Start != op.Start || step.End != op.End || op.End-op.Start < int64(300*time.Millisecond) { // it may begin late, on a busy machine
				t.Errorf("step [%d, %d] of operation [%d, %d], want both to take the time until the cancellation", step.Start, step.End, op.Start, op.End)
			}
			// The WRITE into a slot needs no consent; the data of an RTS were not fetched.
			open := map[Protocol]string{Eager: "segment awaited", ReceiverInitiated: "segment awaited", RendezvousRead: "segment send"}[protocol]
			if open != "" && len(events[open]) == 0 {
				t.Errorf("recorded %+v, want a %s", events, open)
			}
		})
	}
}

// TestMessagesAreRecorded: RTS, CTS, FIN and credits are recorded where the
// collective's events are traced, and not otherwise.
func TestMessagesAreRecorded(t *testing.T) {
	const n, count = 2, 1000
	w := newWorld(t, n, ring.Options{}, nil)
	k := newKit(w, count, reduce.Float32, reduce.Sum)
	since := trace.Clock()
	run := func(level string, protocol Protocol) map[string][]trace.Event {
		withTrace(t, "off,collective="+level, io.Discard, func() { k.runs(1, count, CallOptions{Protocol: protocol}) })
		return recorded(since, w.comms[0].watch.Seq)
	}
	for name := range run("info", RendezvousWrite) {
		if strings.HasPrefix(name, "RTS") || strings.HasPrefix(name, "CTS") {
			t.Errorf("%s was recorded at level info", name)
		}
	}
	for protocol, names := range map[Protocol][]string{RendezvousWrite: {"RTS", "CTS"}, RendezvousRead: {"RTS", "FIN"}} {
		events := run("debug", protocol)
		_, p := k.laidOut(t, count, CallOptions{Protocol: protocol})
		for _, name := range names {
			sent, received := events[name+" sent"], events[name+" received"]
			if want := n * p.Incoming; len(sent) != want || len(received) != want {
				t.Errorf("%s: %d %s sent and %d received, want %d", protocol, len(sent), name, len(received), want)
			}
		}
	}
}
