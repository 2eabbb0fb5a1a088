package links

import (
	"math"
	"slices"
)

// Draw is one measurement of a directed pair in a trial.
type Draw struct {
	Alone, Latency, Lost, Packets float64 // as in Figures
	// Waited is for how much of the time threads of its two ends were ready to run and had no CPU.
	Waited float64
}

const (
	// TrialRounds is how often the pairs of a trial are measured before it is judged, and TrialMost
	// how often at most: controls of which two in three are as slow tell in 24.
	TrialRounds, TrialMost = 4, 24
	// lossyTimes is how much more than its controls a suspect must lose: software that has no CPU
	// lets packets of all go.
	lossyTimes = 8
	// chance is the probability, by the controls, with which a suspect that is named is well.
	chance = 1e-4
)

// trial is of a finding: its own pairs, and controls. Those of a pair have an end in common with
// it; those of a rank do not have it as an end.
type trial struct {
	f             *Finding
	own, controls []Pair
}

// trials are of the findings of what a CPU may do to a pair that none has proved yet.
func (v *Verdict) trials(n int) (list []trial) {
	r := retests{v: v, n: n}
	r.suspects()
	well := func(p Pair) bool {
		return p.From != p.To && !r.suspect[p.From] && !r.suspect[p.To] && !r.bad[p] && !v.between(p)
	}
	for i := range v.Findings {
		f := &v.Findings[i]
		if f.proved || f.Place == Group || f.Kind == Dead {
			continue
		}
		t := trial{f: f}
		var may [][]Pair // one control of each
		if f.Place == OnePair {
			p := Pair{f.From[0], f.To[0]}
			t.own = []Pair{p}
			var there, back []Pair
			for k := 1; k < n; k++ {
				there, back = append(there, Pair{p.From, (p.To + k) % n}), append(back, Pair{(p.From + k) % n, p.To})
			}
			if may = [][]Pair{there, back}; n == 2 && f.Kind != Lossy { // each direction has a count of its own
				t.controls = []Pair{p.Reverse()} // measured with it
			}
		} else {
			own := slices.Concat(f.From, f.To)[0]
			for k := 1; k < n && len(t.own) < 2; k++ {
				if p := (Pair{own, (own + k) % n}); !r.suspect[p.To] && !r.bad[p] && !v.between(p) {
					t.own = append(t.own, p)
				}
			}
			may = make([][]Pair, 2)
			for k := 1; k < n; k++ {
				for other := range n {
					if p := (Pair{other, (other + k) % n}); p.From != own && p.To != own {
						may[k%2] = append(may[k%2], p)
					}
				}
			}
		}
		for _, pairs := range may {
			if at := slices.IndexFunc(pairs, well); at >= 0 {
				t.controls = append(t.controls, pairs[at])
			}
		}
		list = append(list, t)
	}
	return list
}

// Trials returns the pairs of a round of trials, one direction of each, in the order in which they
// are measured, one at a time: each suspect and its controls in the same moment. What slows all of
// a rank down, or its host, slows the controls down as well. It is for pairs that CPUs carry: three
// measurements in a row may each be late by chance there.
func (v *Verdict) Trials(n int) (batches [][]Pair) {
	for _, t := range v.trials(n) {
		pairs := t.own
		if n > 2 {
			pairs = slices.Concat(t.own, t.controls)
		}
		for _, p := range pairs {
			batches = append(batches, []Pair{p})
		}
	}
	return batches
}

// Try returns the verdict that is left when all that the trials have measured until now is weighed.
// A suspect of which one measurement of the time is well is none, nor one that loses nothing any
// more. One is named if chance would make all its measurements as bad as they are with a
// probability below one in ten thousand, as often as it does that to the controls. Of whom that is
// not said after the last round is counted, and not named.
func (v *Verdict) Try(n int, draws func(Pair) []Draw, last bool) *Verdict {
	left := *v
	left.Findings = nil
	tried := map[*Finding]trial{}
	for _, t := range v.trials(n) {
		tried[t.f] = t
	}
	for i := range v.Findings {
		f, t := v.Findings[i], tried[&v.Findings[i]]
		if t.f == nil {
			left.Findings = append(left.Findings, f)
			continue
		}
		sides := [][]Pair{t.own}
		if f.Place == Receiver || f.Place == Node || f.BothWays {
			back := slices.Clone(t.own)
			for k := range back {
				back[k] = back[k].Reverse()
			}
			if sides = append(sides, back); f.Place == Receiver {
				sides = sides[1:]
			}
		}
		var bad []bool
		f.proved = true
		for _, own := range sides {
			isBad, proved := v.weigh(&f, own, t.controls, draws)
			bad = append(bad, isBad)
			f.proved = f.proved && (proved || !isBad)
		}
		switch {
		case !slices.Contains(bad, true):
			continue
		case !f.proved && last:
			left.Undecided++
			continue
		case f.proved && f.BothWays && !bad[0]:
			f.From, f.To = f.To, f.From
			fallthrough
		case f.proved && f.BothWays && !bad[1]:
			f.BothWays, f.Partners, f.Of = false, 1, 1
		}
		left.Findings = append(left.Findings, f)
	}
	return &left
}

// loses is the share of the packets that pairs have lost in their trials, and how many packets.
func loses(pairs []Pair, draws func(Pair) []Draw) (share, lost float64) {
	packets := 0.0
	for _, p := range pairs {
		for _, d := range draws(p) {
			if d.Packets > 0 && !math.IsNaN(d.Lost) {
				lost, packets = lost+d.Lost, packets+d.Packets
			}
		}
	}
	return lost / max(1, packets), lost
}

// weigh tells whether all measurements of a suspect's pairs are bad, and whether that is no chance.
func (v *Verdict) weigh(f *Finding, own, controls []Pair, draws func(Pair) []Draw) (bad, proved bool) {
	if f.Kind == Lossy {
		share, lost := loses(own, draws)
		others, _ := loses(controls, draws)
		return lost >= lossyLeast && f.bad(share), share > lossyTimes*others
	}
	figure := func(of *Finding, p Pair, d Draw) float64 {
		if f.Kind == Late {
			return d.Latency / math.Exp(-v.expected(of, p))
		}
		return d.Alone / math.Exp(v.expected(of, p))
	}
	var others, waits []float64
	level := math.NaN() // the worst of what controls do at their best
	for _, p := range controls {
		best := math.NaN()
		for _, d := range draws(p) {
			r := figure(&Finding{Kind: f.Kind, Place: OnePair}, p, d)
			if math.IsNaN(r) {
				continue
			}
			others, waits = append(others, r), append(waits, d.Waited)
			if math.IsNaN(best) || (r > best) == (f.Kind == Slow) {
				best = r
			}
		}
		if math.IsNaN(level) || (best < level) == (f.Kind == Slow) {
			level = best
		}
	}
	if len(others) == 0 {
		return true, false
	}
	usual, as := quantile(waits, 0.5), 0
	for _, r := range others {
		if f.bad(r / level) {
			as++
		}
	}
	count, unclear := 0, false
	for _, p := range own {
		for _, d := range draws(p) {
			absolute := figure(f, p, d)
			r := absolute / level
			switch {
			case math.IsNaN(r):
			case !f.bad(absolute):
				return false, false
			case !f.bad(r): // as good as controls that have been better: they may be so again
				unclear = true
			case f.Kind == Slow && d.Waited-usual > (1-r)/2: // its ends had no CPU for half of what is missing
			default:
				count++
			}
		}
	}
	share := (float64(as) + 0.5) / float64(len(others)+1)
	return true, !unclear && math.Pow(share, float64(count)) < chance
}
