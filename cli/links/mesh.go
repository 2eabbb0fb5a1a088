package links

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"ringcli/cli/exit"
	"ringcli/cli/session"
	"ringcli/cli/timing"
	"ringcli/ring/diagnose/links"
	"ringcli/ring/meetings"
)

// measurement goes through rounds of disjoint pairs, on all ranks alike.
type measurement struct {
	s        *session.Session
	m        *session.Member
	meetings *meetings.Meetings
	how      howTo
	number   uint64    // of the next meeting, alike on all ranks
	own      []figures // this rank's since they were told last
	rounds   int       // done
	gone     *gone
	again    bool // suspects are measured: who is tried no more still has no connection
}

// roundTold is what ranks tell each other between two rounds.
type roundTold struct {
	Stop   bool `json:"stop,omitempty"`
	Failed bool `json:"failed,omitempty"` // this rank had no connection in the round that is over
	Worked bool `json:"worked,omitempty"`
}

// errStopped: it was asked to stop, and did so on all ranks together.
func errStopped(done, of int) error {
	return exit.Sharedf(exit.Interrupted, "interrupted after %d of %d rounds; the ring is usable", done, of)
}

// open makes the queue pairs for an own measurement.
func open(ctx context.Context, s *session.Session, how howTo) (*measurement, error) {
	m := s.Member
	met, err := meetings.Open(ctx, m.Ring, how.bytes, how.outstanding, func(ctx context.Context, own meetings.Report, problem error) ([]meetings.Report, error) {
		if err := m.Agree(ctx, problem); err != nil {
			return nil, err
		}
		return session.Share(ctx, m, own)
	})
	if err != nil {
		return nil, err
	}
	n := m.Ring.Size()
	return &measurement{s: s, m: m, meetings: met, how: how, gone: newGone(n, goneTries)}, nil
}

// tournament measures pairs that meet in rounds: meets says whom each rank meets in one. What a
// pair cannot do is noted, and the others go on.
func (x *measurement) tournament(ctx context.Context, what string, count int, meets func(round int) []int) error {
	defer x.s.Progress.Clock("links, %s: %d rounds of %s", what, count, x.how.span)()
	if count == 0 {
		return nil
	}
	rank := x.m.Ring.Rank()
	// While a round is measured the other queue pair waits in its last state: what its peer still
	// asks is answered. After the barrier nobody needs it.
	x.meetings.Part()
	all := meets(0)
	place := int(x.number % meetings.QPs)
	next, problem := x.meet(all[rank], place, place)
	if _, err := x.barrier(ctx, roundTold{}, 0, count); err != nil {
		return err
	}
	for round := range count {
		now, nowProblem, met := next, problem, all
		told := roundTold{}
		switch f := dead(met[rank], ""); {
		case met[rank] < 0:
		case x.gone.is(rank, met[rank]):
			x.without(f)
		default:
			err := nowProblem
			if err == nil {
				e := x.end(now)
				f = e.probe(ctx, x.number, x.m.Ring.Size(), rank)
				if err = e.short(&f); err == nil {
					arrived := f.Arrived
					f, err = e.pair(ctx, rank < met[rank])
					f.Arrived = arrived
				}
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if x.m.Ring.Failed() {
				return x.m.Ring.Err()
			}
			if told.Failed, told.Worked = err != nil, err == nil; err != nil {
				f.Dead, f.Why = true, err.Error()
			} else {
				f.Arrived = nil
			}
			x.own = append(x.own, f)
		}
		x.number++
		if round+1 < count {
			all = meets(round + 1)
			x.meetings.Part()
			place = int(x.number % meetings.QPs)
			next, problem = x.meet(all[rank], place, place)
		}
		tellings, err := x.barrier(ctx, told, round+1, count)
		if err != nil {
			return err
		}
		for a, b := range met {
			if a < b {
				x.gone.note(a, b, tellings[a], tellings[b])
			}
		}
		x.rounds++
	}
	return nil
}

// without notes a pair that is tried no more.
func (x *measurement) without(f figures) {
	if x.again {
		x.own = append(x.own, f)
	}
}

// meet connects one of this rank's places to one of a peer's; nil if that is nobody, or tried no
// more.
func (x *measurement) meet(peer, mine, theirs int) (*meetings.Meeting, error) {
	if peer < 0 || x.gone.is(x.m.Ring.Rank(), peer) {
		return nil, nil
	}
	return x.meetings.Meet(peer, x.number, mine, theirs)
}

// end is this rank's of a meeting, if there is one. All of a round are connected.
func (x *measurement) end(m *meetings.Meeting) *end {
	if m == nil {
		return nil
	}
	return newEnd(x.meetings, m, x.how, x.m.Ring.Timeout(), x.m.Ring.Err)
}

// barrier is between two rounds: all are done with the one, and connected for the next. It
// returns what all tell of the one, by rank.
func (x *measurement) barrier(ctx context.Context, own roundTold, done, of int) ([]roundTold, error) {
	own.Stop = x.s.Stopping()
	all, err := session.Share(ctx, x.m, own)
	if err == nil && slices.ContainsFunc(all, func(told roundTold) bool { return told.Stop }) {
		err = errStopped(done, of)
	}
	return all, err
}

// shifts has all ranks send at once to the rank that is k further on, for each k.
func (x *measurement) shifts(ctx context.Context, ks []int) error {
	n, rank := x.m.Ring.Size(), x.m.Ring.Rank()
	defer x.s.Progress.Clock("links: %d shifts of %s", len(ks), x.how.span)()
	for done, k := range ks {
		x.meetings.Part()
		right, left := links.Shift(n, rank, k)
		to, problem := x.meet(right, 0, 1)
		from, _ := x.meet(left, 1, 0) // what does not come its sender tells of
		if _, err := x.barrier(ctx, roundTold{}, done, len(ks)); err != nil {
			return err
		}
		f, err := shift(ctx, x.end(to), x.end(from))
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case x.m.Ring.Failed():
			return x.m.Ring.Err()
		}
		told := roundTold{}
		if err = cmp.Or(problem, err); err != nil {
			f = dead(right, err.Error())
		}
		if to == nil && problem == nil {
			x.without(dead(right, ""))
		} else {
			told.Failed, told.Worked = err != nil, err == nil
			x.own = append(x.own, f)
		}
		x.number++
		x.rounds++
		// Nobody resets a queue pair that its peer still needs.
		all, err := x.barrier(ctx, told, done+1, len(ks))
		if err != nil {
			return err
		}
		for a := range all {
			b, _ := links.Shift(n, a, k)
			x.gone.note(a, b, all[a], roundTold{})
		}
	}
	return nil
}

// tellPart is how many figures a rank tells in one part: some 50 KiB.
const tellPart = 256

// tell gives all ranks what all have measured since the last time.
func (x *measurement) tell(ctx context.Context) ([][]figures, error) {
	all := make([][]figures, x.m.Ring.Size())
	for {
		now := x.own[:min(tellPart, len(x.own))]
		x.own = x.own[len(now):]
		own := figuresTold{More: len(x.own) > 0}
		var err error
		if own.Figures, err = json.Marshal(now); err != nil {
			return nil, err
		}
		parts, err := session.Share(ctx, x.m, own)
		if err != nil {
			return nil, err
		}
		more := false
		for rank, p := range parts {
			var list []figures
			if err := json.Unmarshal(p.Figures, &list); err != nil {
				return nil, fmt.Errorf("what rank %d has measured makes no sense: %w: do all ranks run the same version?", rank, err)
			}
			all[rank] = append(all[rank], list...)
			more = more || p.More
		}
		if !more {
			return all, nil
		}
	}
}

// figuresTold is a part of what a rank has measured.
type figuresTold struct {
	Figures json.RawMessage `json:"figures"`
	More    bool            `json:"more,omitempty"`
}

// results are all that was measured, and as the verdict takes it. Of a thousand ranks they are a
// million pairs: lists by pair take a tenth of the time of maps, and a third of the memory.
type results struct {
	n        int
	best     []*figures // by pair, see at: of several measurements; nil if there is none
	measured int        // pairs
	blind    int        // those with a connection of which nobody can say what they lost
	soft     bool       // CPUs make the packets of some
	copied   bool       // CPUs move the data of some, in memory or as packets
	figures  *links.Figures

	samples [][]*figures // by pair
}

func newResults(n int, group []string) *results {
	r := &results{n: n, best: make([]*figures, n*n), figures: links.NewFigures(n), samples: make([][]*figures, n*n)}
	r.figures.Group = group
	return r
}

// at is the place of a directed pair.
func (r *results) at(from, to int) int { return from*r.n + to }

// of lists one figure of some measurements.
func of(list []*figures, value func(*figures) float64) []float64 {
	values := make([]float64, len(list))
	for i, x := range list {
		values[i] = value(x)
	}
	return values
}

// merge makes one of several measurements of a pair: the best, since whatever else goes on makes
// a figure worse, and a fault is in all of them. It has no connection if it had none in most.
func merge(list []*figures) *figures {
	if len(list) == 1 {
		return list[0]
	}
	gone, live := []*figures(nil), []*figures(nil)
	for _, x := range list {
		if x.Dead {
			gone = append(gone, x)
		} else {
			live = append(live, x)
		}
	}
	if len(gone) > len(live) {
		return gone[0]
	}
	m := *live[0]
	for _, x := range live[1:] {
		m.Alone, m.Both, m.P50, m.P99 = max(m.Alone, x.Alone), max(m.Both, x.Both), min(m.P50, x.P50), min(m.P99, x.P99)
		m.Resent, m.Lost, m.RNR, m.Sent = m.Resent+x.Resent, m.Lost+x.Lost, m.RNR+x.RNR, m.Sent+x.Sent
		m.Unseen |= x.Unseen
	}
	return &m
}

// noise is how far the best of several measurements of a pair is off, as a standard deviation of
// the logarithm: by as much as the next best differs from it. It is that of the better half of the
// pairs: what is at fault, or shares a thin link with others, may be noisy for that. 0 if each
// was measured once.
func (r *results) noise(value func(*figures) float64) float64 {
	type two struct{ best, off float64 }
	var all []two
	for _, list := range r.samples {
		if len(list) < 2 {
			continue
		}
		values := of(list, value)
		slices.Sort(values)
		if n := len(values); values[n-2] > 0 && !math.IsInf(values[n-1], 1) {
			all = append(all, two{values[n-1], math.Log(values[n-1] / values[n-2])})
		}
	}
	// On all ranks alike.
	slices.SortFunc(all, func(a, b two) int { return cmp.Or(cmp.Compare(b.best, a.best), cmp.Compare(a.off, b.off)) })
	var off []float64
	for _, t := range all[:(len(all)+1)/2] {
		off = append(off, t.off)
	}
	if len(off) == 0 {
		return 0
	}
	return links.Normal * timing.Median(off)
}

// add takes in what all ranks told.
func (r *results) add(all [][]figures) {
	for rank, list := range all {
		for i := range list {
			if x := &list[i]; x.To >= 0 && x.To < r.n && x.To != rank {
				at := r.at(rank, x.To)
				r.samples[at] = append(r.samples[at], x)
			}
		}
	}
	r.mergeAll()
}

// takeAgain takes in what was measured of suspects again, as a further pass, but for the pairs to
// leave. A pair that had a connection is not shown without one: nobody was to be named for that.
func (r *results) takeAgain(again *results, leave func(links.Pair) bool) {
	for at, list := range again.samples {
		if len(list) == 0 || r.best[at] == nil || leave(links.Pair{From: at / r.n, To: at % r.n}) {
			continue
		}
		for _, x := range list {
			if !x.Dead || r.best[at].Dead {
				r.samples[at] = append(r.samples[at], x)
			}
		}
	}
	r.mergeAll()
}

// draws are all measurements of a pair, each with how long both ends waited for a CPU meanwhile.
func (r *results) draws(p links.Pair) (list []links.Draw) {
	own, back := r.samples[r.at(p.From, p.To)], r.samples[r.at(p.To, p.From)]
	for k := range min(len(own), len(back)) {
		if x, y := own[k], back[k]; !x.Dead && !y.Dead {
			d := links.Draw{Alone: x.Alone, Latency: max(x.P50, y.P50), Lost: x.Lost, Packets: x.Sent, Waited: x.Waited[0] + y.Waited[1]}
			if x.Unseen&lostUnseen != 0 {
				d.Lost = nan
			}
			list = append(list, d)
		}
	}
	return list
}

// mergeAll makes the figures of all that was taken in.
func (r *results) mergeAll() {
	f := r.figures
	r.measured, r.blind = 0, 0
	clear(f.Dead) // a pair may have come back since
	for at, list := range r.samples {
		if len(list) == 0 {
			continue
		}
		x := merge(list)
		back := r.at(at%r.n, at/r.n)
		r.best[at], r.measured = x, r.measured+1
		r.soft, r.copied = r.soft || x.Soft, r.copied || x.Soft || x.Shared
		if x.Shared {
			f.Kind[at] = 1
		}
		if x.Dead {
			f.Dead[at], f.Dead[back] = true, true
			continue
		}
		f.Alone.V[at], f.Lost.V[at], f.Packets.V[at] = x.Alone, x.Lost, x.Sent
		if x.Unseen&lostUnseen != 0 {
			f.Lost.V[at], r.blind = nan, r.blind+1
		}
		if x.Both > 0 {
			f.Both.V[at] = x.Both
		}
		if x.Asks {
			f.Latency.V[at], f.Latency.V[back] = x.P50, x.P50
		}
	}
	f.Noise = r.noise(func(x *figures) float64 { return x.Alone })
	f.LatencyNoise = r.noise(func(x *figures) float64 { return 1 / x.P50 })
	// What one end could not do both could not.
	for i, dead := range f.Dead {
		if dead {
			for _, m := range []links.Matrix{f.Alone, f.Both, f.Latency, f.Lost, f.Packets} {
				m.Set(i/r.n, i%r.n, nan)
			}
		}
	}
	for at, x := range r.best {
		if back := r.best[r.at(at%r.n, at/r.n)]; x != nil && back != nil && !x.Asks && back.Asks {
			x.P50, x.P99 = back.P50, back.P99
		}
	}
}
