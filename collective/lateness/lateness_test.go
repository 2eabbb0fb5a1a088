package lateness

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ringcli/trace"
)

const ms = int64(time.Millisecond)

// round is a ring of ranks that run one all-reduce after the other, hop by hop: the simplest
// in which waits are passed on.
type round struct {
	n     int
	free  []int64              // when each rank has ended what it did last
	delay func(from int) int64 // of the edge to the right neighbour
	c     []Counter
	out   []Flight
}

func newRound(n int) *round {
	r := &round{n: n, free: make([]int64, n), delay: func(int) int64 { return ms / 20 }, c: make([]Counter, n), out: make([]Flight, n)}
	for i := range r.free {
		r.free[i] = 1
	}
	return r
}

// run runs an operation that rank i enters late(i) after the one before.
func (r *round) run(late, still func(rank int) int64) {
	at, begun := make([]int64, r.n), make([]int64, r.n)
	for i := range at {
		begun[i] = r.free[i] + ms/1000 + late(i)
		at[i] = begun[i]
		r.c[i].Begin(trace.Stamp(begun[i]))
	}
	for hop := range 2 * (r.n - 1) {
		next := make([]int64, r.n)
		for i := range at {
			left := (i + r.n - 1) % r.n
			came := at[left] + r.delay(left)
			r.out[left].Add(trace.Stamp(at[left]), trace.Stamp(came))
			next[i] = max(at[i], came)
			if hop == 0 {
				r.c[i].Came(trace.Stamp(next[i]))
			}
			if d := still(i); hop == 1 && d > 0 { // it stops when it has just looked at the clock
				r.c[i].Ran(trace.Stamp(next[i]))
				next[i] += d
				r.c[i].Ran(trace.Stamp(next[i]))
			} else {
				// Who waits looks at its clock often.
				for t := at[i]; t < next[i]; t += 10 * ms {
					r.c[i].Ran(trace.Stamp(t))
				}
				r.c[i].Ran(trace.Stamp(next[i]))
			}
		}
		at = next
	}
	for i := range at {
		r.c[i].End(trace.Stamp(at[i]))
		r.free[i] = at[i]
	}
}

// records are what the ranks have kept, of that time.
func (r *round) records(took int64) []Record {
	all := make([]Record, r.n)
	for i := range all {
		r.c[i].Edge(&r.out[i], i, (i+1)%r.n)
		all[i] = r.c[i].Take()
		all[i].Took = took
	}
	return all
}

func never(int) int64 { return 0 }

func told(all []Record) string {
	var list []string
	Excuse(all)
	for _, f := range Judge(all) {
		who := fmt.Sprint(f.Kind, " ", f.Rank)
		if f.To != nil {
			who += fmt.Sprint(" to ", *f.To)
		}
		if f.Why != "" {
			who += ": " + string(f.Why)
		}
		list = append(list, who)
	}
	return strings.Join(list, ", ")
}

// The one that was late is told, and the edge that was slow, on rings of several lengths,
// and no rank behind them that only passed the wait on.
func TestJudge(t *testing.T) {
	const ops = 50
	for _, n := range []int{2, 3, 4, 5, 8, 33} {
		jitter := rand.New(rand.NewPCG(1, uint64(n)))
		some := func(int) int64 { return jitter.Int64N(ms / 50) }
		only := func(rank int, d int64) func(int) int64 {
			return func(i int) int64 {
				if i == rank {
					return d
				}
				return some(i)
			}
		}
		for _, c := range []struct {
			what, want  string
			late, still func(op int) func(int) int64
			delay       func(op, from int) int64
		}{
			{what: "calm"},
			{what: "30 ms late to each", want: "late 1: it was outside of operations", late: func(int) func(int) int64 { return only(1, 30*ms) }},
			{what: "200 ms late to one", want: "late 1: it was outside of operations", late: func(op int) func(int) int64 {
				if op == 20 {
					return only(1, 200*ms)
				}
				return some
			}},
			{what: "stopped in one", want: "late 0: it stood still", still: func(op int) func(int) int64 {
				if op == 20 {
					return func(i int) int64 {
						if i == 0 {
							return 200 * ms
						}
						return 0
					}
				}
				return never
			}},
			{what: "2 ms more on an edge", want: "slow-edge 0 to 1", delay: func(_, from int) int64 {
				if from == 0 {
					return 2 * ms
				}
				return ms / 20
			}},
			{what: "an edge down once", want: "slow-edge 0 to 1", delay: func(op, from int) int64 {
				if from == 0 && op == 20 {
					return 200 * ms
				}
				return ms / 20
			}},
		} {
			r := newRound(n)
			for op := range ops {
				late, still := some, func(int) int64 { return 0 }
				if c.late != nil {
					late = c.late(op)
				}
				if c.still != nil {
					still = c.still(op)
				}
				if c.delay != nil {
					r.delay = func(from int) int64 { return c.delay(op, from) }
				}
				r.run(late, still)
			}
			if got := told(r.records(r.free[0])); got != c.want {
				t.Errorf("%d ranks, %s: %q: expected %q", n, c.what, got, c.want)
			}
		}
	}
}

// Over shared memory there are waits alone.
func TestJudgeWaitsAlone(t *testing.T) {
	waits := func(ns ...int64) (all []Record) {
		for _, d := range ns {
			all = append(all, Record{Took: 1000 * ms, Waited: d, LongestWait: min(d, 30*ms), Waits: d / (30 * ms)})
		}
		return all
	}
	for _, c := range []struct {
		all  []Record
		want string
	}{
		{waits(900*ms, ms, 880*ms, 890*ms), "late 1"},
		{waits(900*ms, ms), "late 1"},
		{waits(30*ms, 0, 31*ms, 29*ms), "late 1"}, // once
		{waits(15*ms, 0, 15*ms, 15*ms), ""},
		{waits(300*ms, 320*ms, 310*ms, 250*ms), ""},
		{waits(), ""},
		{waits(ms), ""},
	} {
		if got := told(c.all); got != c.want {
			t.Errorf("%+v: %q: expected %q", c.all, got, c.want)
		}
	}
	all := waits(900*ms, ms, 880*ms, 890*ms)
	all[1].NoCPU = 500 * ms
	if got := told(all); got != "no-cpu 1" {
		t.Errorf("%q: expected the machine", got)
	}
	name := func(rank int) string { return fmt.Sprintf("rank %d (n%d)", rank, rank) }
	const want = "rank 1 (n1) had no CPU: 500ms; the others waited 889ms of 1s for it, 29 times, up to 30ms"
	if got := Judge(all)[0].Text(name); got != want {
		t.Errorf("%q: expected %q", got, want)
	}
	for _, c := range []struct {
		waited, noCPU []int64 // ms of 1163
		want          string
	}{
		{[]int64{340, 900, 900, 900, 900, 900}, []int64{1160, 300, 300, 300, 300, 300}, "no-cpu 0"},
		{[]int64{340, 900, 900, 460, 900, 900}, []int64{1160, 300, 300, 1160, 300, 300}, ""}, // their host has too much work
		{[]int64{340, 900, 900, 460, 900, 900, 900, 900}, []int64{1160, 300, 300, 1160, 300, 300, 300, 300}, "no-cpu 0, no-cpu 3"},
		{[]int64{900, 10, 900, 900, 300, 900}, []int64{300, 1160, 300, 300, 300, 300}, "no-cpu 1"}, // rank 4 is late, and rank 1 is later for a known reason
		{[]int64{900, 10, 900, 900, 300, 900}, []int64{100, 100, 100, 100, 100, 100}, "late 1, late 4"},
		{[]int64{900, 10, 900, 900, 500, 900}, []int64{100, 100, 100, 100, 100, 100}, "late 1"}, // less than half as late
	} {
		var all []Record
		for i, waited := range c.waited {
			all = append(all, Record{Took: 1163 * ms, Waited: waited * ms, NoCPU: c.noCPU[i] * ms})
		}
		if got := told(all); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	// Of two stretches, in the other of which it had none.
	late, busy := waits(900*ms, ms, 880*ms, 890*ms), waits(0, 0, 0, 0)
	busy[1].NoCPU = 900 * ms
	Excuse(late)
	Excuse(busy)
	for i := range late {
		late[i].Add(busy[i])
	}
	if f := Judge(late); len(f) != 1 || f[0].Kind != Late || f[0].NoCPU != 900*ms {
		t.Errorf("%+v: expected the rank, not the CPU that it had not at another time", f)
	}
	for _, c := range []struct {
		flight, shortest, from, to, others int64 // ms
		want                               string
	}{
		{5, 0, 0, 0, 0, "slow-edge 0 to 1"},
		{5, 0, 0, 300, 300, ""}, // all wait for a CPU for as long
		{5, 0, 300, 100, 300, ""},
		{5, 0, 0, 700, 300, ""}, // late, if anything: an edge has no CPU
		{60, 0, 300, 300, 300, ""},
		{30, 20, 300, 300, 300, "slow-edge 0 to 1"}, // each segment takes as long
		{30, 20, 700, 100, 300, ""},
	} {
		all := make([]Record, 4)
		for i := range all {
			all[i] = Record{Took: 1000 * ms, From: int64(i), To: int64(i+1) % 4, Flights: 100, InFlight: 100 * ms / 10, NoCPU: c.others * ms}
		}
		all[0].InFlight, all[0].ShortestFlight, all[0].NoCPU, all[1].NoCPU = 100*c.flight*ms, c.shortest*ms, c.from*ms, c.to*ms
		if got := told(all); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	all = []Record{{Took: ms, From: 7, To: 9, Flights: 3, InFlight: ms}, {Took: ms, From: -1, To: 1, Flights: 3, InFlight: 9 * ms}, {}}
	if got := told(all); got != "" {
		t.Errorf("%q of ranks that there are not", got)
	}
}

// Packets that are missing on an edge are told before a CPU that is: the ends of the edge are
// active, and so they wait for a CPU more than ranks that sleep.
func TestJudgeLoss(t *testing.T) {
	lossy := Loss{From: 2, To: 3, Sent: 100_000, Resent: 2500, NAKs: 900}
	for _, c := range []struct {
		what, want string
		change     func(all []Record)
	}{
		{"nothing", "", func([]Record) {}},
		{"loss", "lossy-edge 2 to 3", func(all []Record) { all[2].Loss = lossy }},
		{"packets that overtook others at a port with a rate", "", func(all []Record) {
			all[2].Loss = Loss{From: 2, To: 3, Sent: 12013, Resent: 13, NAKs: 13}
		}},
		{"loss, slow, and its ends have no CPU", "lossy-edge 2 to 3", func(all []Record) {
			all[2].Loss = lossy
			all[2].InFlight, all[3].NoCPU = 20*all[2].InFlight, 900*ms
		}},
		{"few packets are missing, which is enough for slow segments, and the receiver has no CPU", "", func(all []Record) {
			all[2].Loss = Loss{From: 2, To: 3, Sent: 12013, Resent: 13, NAKs: 13}
			all[2].InFlight, all[3].NoCPU = 20*all[2].InFlight, 900*ms
		}},
		{"loss, and its receiver is late since it has no CPU", "lossy-edge 2 to 3", func(all []Record) {
			all[2].Loss = lossy
			all[3].Waited, all[3].NoCPU = 100*ms, 900*ms
		}},
		{"loss at a rank that stood still", "late 3: it stood still", func(all []Record) {
			all[2].Loss = lossy
			all[3].Waited, all[3].Still = 100*ms, 700*ms
		}},
		{"loss, and its sender had no CPU, which looks as if it stood still", "lossy-edge 2 to 3", func(all []Record) {
			all[2].Loss = lossy
			all[2].Waited, all[2].Still, all[2].NoCPU = 100*ms, 700*ms, 900*ms
		}},
		{"a timer ran out", "", func(all []Record) {
			all[2].Loss = Loss{From: 2, To: 3, Sent: 100_000, Resent: 2500, Timeouts: 20}
		}},
		{"some packets overtake others everywhere", "", func(all []Record) {
			for i := range all {
				all[i].Loss = Loss{From: int64(i), To: int64(i+1) % 6, Sent: 100_000, Resent: 300, NAKs: 100}
			}
		}},
		{"one packet", "", func(all []Record) { all[2].Loss = Loss{From: 2, To: 3, Sent: 100, Resent: 1, NAKs: 1} }},
		{"no such ranks", "", func(all []Record) { all[2].Loss.From, all[2].Loss.NAKs, all[2].Loss.Resent = -1, 100, 100 }},
		{"a rank had no CPU, no more than the others", "", func(all []Record) {
			for i := range all {
				all[i].NoCPU = 900 * ms
			}
			all[3].Waited = 200 * ms
		}},
		{"a port lost its link, and packets were sent again", "no-carrier 2", func(all []Record) {
			all[2].NoCarrier, all[2].Loss, all[1].Loss, all[2].InFlight = 300*ms, lossy, lossy, 20*all[2].InFlight
		}},
		{"a rank had no CPU for a moment, as any has on a busy machine", "", func(all []Record) { all[3].Waited, all[3].NoCPU = 700*ms, 900*ms }},
		{"a rank had no CPU, and the others had", "no-cpu 3", func(all []Record) { all[3].Waited, all[3].NoCPU = 200*ms, 600*ms }},
		{"all threads of all ranks had no CPU, and one rank stood still", "no-cpu 3: it stood still", func(all []Record) {
			for i := range all {
				all[i].NoCPU, all[i].Still = 1000*ms, 150*ms
			}
			all[3].Waited, all[3].Still = 50*ms, 850*ms
			all[2].InFlight, all[2].ShortestFlight = 40*all[2].InFlight, 30*ms
		}},
		{"a rank had no CPU, and its neighbour was late for no reason that is known", "no-cpu 3", func(all []Record) {
			for i := range all {
				all[i].Waited, all[i].LongestWait = 820*ms, 820*ms
			}
			all[3].Waited, all[3].LongestWait, all[3].NoCPU = 10*ms, 10*ms, 900*ms
			all[4].Waited = 620 * ms
		}},
		{"so, in no operation for longer than the others", "", func(all []Record) {
			for i := range all {
				all[i].NoCPU, all[i].Still = 1000*ms, 150*ms
			}
			all[3].Still = 850 * ms
			all[2].InFlight, all[2].ShortestFlight = 40*all[2].InFlight, 30*ms
		}},
		{"acknowledgements of a rank that sends slowly are late, too", "slow-rank 2", func(all []Record) {
			all[1].InFlight, all[2].InFlight = 700*all[1].InFlight, 500*all[2].InFlight
		}},
		{"the edge that carries the data is just below slow", "slow-rank 2", func(all []Record) {
			all[1].InFlight, all[2].InFlight = 35*all[1].InFlight/10, 26*all[2].InFlight/10
		}},
		{"an edge waits for one that is far slower", "slow-edge 3 to 4", func(all []Record) {
			all[3].InFlight, all[0].InFlight = 900*all[3].InFlight, 200*all[0].InFlight
		}},
		{"an edge reported by both ends", "slow-edge 3 to 4", func(all []Record) {
			all[3].InFlight *= 100
			all[4] = all[3]
		}},
		{"two edges apart", "slow-edge 0 to 1, slow-edge 3 to 4", func(all []Record) {
			all[0].InFlight, all[3].InFlight = 101*all[0].InFlight, 100*all[3].InFlight
		}},
	} {
		all := make([]Record, 6)
		for i := range all {
			all[i] = Record{Took: 1000 * ms, Waited: 900 * ms, From: int64(i), To: int64(i+1) % 6, Flights: 200, InFlight: 200 * ms}
		}
		c.change(all)
		if got := told(all); got != c.want {
			t.Errorf("%s: %q: expected %q", c.what, got, c.want)
		}
	}
	text := (Finding{Kind: LossyEdge, Rank: 2, To: new(3), Loss: &lossy}).Text(func(rank int) string { return fmt.Sprint("rank ", rank) })
	if want := "the edge from rank 2 to rank 3 loses packets: resent 2500 of 100000 packets (2.5 %); sequence NAKs: 900"; text != want {
		t.Errorf("%q: expected %q", text, want)
	}
	slow := Finding{Kind: SlowRank, Rank: 2, Edges: []Edge{{1, 2, 60 * ms, 90 * ms}, {2, 3, 50 * ms, 80 * ms}}}
	const want = "all slow edges involve rank 2: a segment takes from rank 1 to rank 2 60ms longer than elsewhere, up to 90ms, and from rank 2 to rank 3 50ms longer than elsewhere, up to 80ms; whether it sends or receives slowly is not known, links measures that"
	if text := slow.Text(func(rank int) string { return fmt.Sprint("rank ", rank) }); text != want {
		t.Errorf("%q: expected %q", text, want)
	}
}

func TestWords(t *testing.T) {
	r := Record{Took: 1, Waited: 2, LongestWait: 3, Waits: 4, First: 5, Transfer: 6, Sending: 16, Outside: 7, Reduced: 8, Still: 9, NoCPU: 10, NoCarrier: 1, From: 11, To: 12, Flights: 13, InFlight: 14, LongestFlight: 15, ShortestFlight: 2, Loss: Loss{17, 18, 19, 20, 21, 22, 23}}
	if got := OfWords(r.Words()); got != r {
		t.Errorf("%+v: expected %+v", got, r)
	}
	sum := r
	sum.Add(r)
	want := Record{2, 4, 3, 8, 10, 12, 32, 14, 16, 18, 20, 2, 11, 12, 26, 28, 15, 2, Loss{17, 18, 38, 40, 42, 44, 46}, 0, 0}
	if sum != want {
		t.Errorf("%+v: expected %+v", sum, want)
	}
	sum.Add(Record{From: 1, To: 2, Flights: 1, InFlight: 100, LongestFlight: 100, ShortestFlight: 100}) // takes longer
	if sum.From != 1 || sum.Flights != 1 || sum.LongestFlight != 100 || sum.ShortestFlight != 100 {
		t.Errorf("%+v: expected the slowest edge", sum)
	}
	sum.Add(Record{Took: 1})
	if sum.From != 1 || sum.Flights != 1 || sum.ShortestFlight != 100 || sum.Took != 3 {
		t.Errorf("%+v: expected the edge that there was", sum)
	}
}

func TestCounterAllocatesNothing(t *testing.T) {
	var c Counter
	var f Flight
	if n := testing.AllocsPerRun(100, func() {
		now := trace.Now()
		c.Begin(now)
		c.Came(now)
		c.Ran(now)
		f.Add(now, now+1)
		c.Reduced(now, now+1)
		c.End(now + 2)
		c.Edge(&f, 0, 1)
		c.Take()
	}); n != 0 {
		t.Errorf("%v allocations: expected none", n)
	}
}
