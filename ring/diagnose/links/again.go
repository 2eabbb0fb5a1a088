package links

import (
	"math"
	"slices"
)

// Draw is one measurement of a directed pair that is measured again.
type Draw struct {
	Alone, Latency, Lost, Packets float64 // as in Figures
	// Waited is for how much of the time threads of its two ends were ready to run and had no CPU.
	Waited float64
}

const (
	// partners is with how many others that do well a rank is measured again, and how many pairs that
	// do well are measured beside all suspects.
	partners = 5
	// leastRounds is after how many rounds each time suspects are judged, and MostRounds how many there
	// are at most: controls of which two in three are as slow tell in 24.
	leastRounds, MostRounds = 4, 24
	// crowdMost bounds in how many pairs of a round a rank is.
	crowdMost = 24
	// alone is up to how many pairs are measured one by one, with nothing else on the network:
	// pairs that are measured at once may share something thin, and that they are slow says nothing
	// then.
	alone = 64
	// certainPartners is how many partners tell a node from a pair: with fewer, a second bad pair
	// of it is as likely.
	certainPartners = 3
	// lossyTimes is how much more than its controls a suspect must lose: software that has no CPU
	// loses packets of all.
	lossyTimes = 8
	// chance is the probability, by the controls, with which a suspect that is named is well.
	chance = 1e-4
)

// trial is of a finding: its own pairs, and controls, which nothing was found about. Those of a pair
// have an end in common with it; those of a rank do not have it as an end.
type trial struct {
	f             *Finding
	own, controls []Pair
}

// well tells of each pair whether nothing was found about it, its ends and its groups.
func (v *Verdict) well(n int) func(Pair) bool {
	suspect, bad := make([]bool, n), map[Pair]bool{}
	for i := range v.Findings {
		switch f := &v.Findings[i]; f.Place {
		case OnePair:
			bad[Pair{f.From[0], f.To[0]}], bad[Pair{f.To[0], f.From[0]}] = true, true
		case Sender, Receiver, Node:
			for _, rank := range slices.Concat(f.From, f.To) {
				suspect[rank] = true
			}
		}
	}
	return func(p Pair) bool {
		return p.From != p.To && !suspect[p.From] && !suspect[p.To] && !bad[p] && !v.between(p)
	}
}

// between tells whether a pair is between two groups that are slow to each other.
func (v *Verdict) between(p Pair) bool {
	return slices.ContainsFunc(v.parts, func(q *part) bool {
		return slices.ContainsFunc([]*effects{q.bandwidth, q.latency}, func(e *effects) bool {
			return e != nil && (e.inBlock(p.From, p.To) || e.inBlock(p.To, p.From))
		})
	})
}

// trials are of the findings that are not proved yet. crowded: the pairs among them are too many
// to be measured one by one.
func (v *Verdict) trials(n int) (list []trial, crowded bool) {
	well, pairs := v.well(n), 0
	var common []Pair
	for k := 1; k < n && len(common) < partners; k++ {
		for i := 0; i < n && len(common) < partners; i++ {
			if p := (Pair{i, (i + k) % n}); well(p) {
				common = append(common, p)
			}
		}
	}
	for i := range v.Findings {
		f := &v.Findings[i]
		if f.proved {
			continue
		}
		list = append(list, trial{f: f, controls: common})
		if f.Place == OnePair {
			pairs++
		}
	}
	const busyControls = 2 // measured one at a time with each suspect
	crowded = pairs > alone
	for i := range list {
		t := &list[i]
		switch f := t.f; f.Place {
		case Group: // all at once: a link between groups may carry a few of them well
			for k := range max(len(f.From), len(f.To)) {
				for turn := range min(partners, len(f.To)) {
					t.own = append(t.own, Pair{f.From[k%len(f.From)], f.To[(k+turn)%len(f.To)]})
				}
			}
		case OnePair:
			p := Pair{f.From[0], f.To[0]}
			t.own = []Pair{p}
			if n == 2 && f.Kind != Lossy { // each direction has a count of its own
				t.controls = []Pair{p.Reverse()}
			} else if n > 2 && !crowded {
				t.controls = nil
				for _, at := range []func(k int) Pair{
					func(k int) Pair { return Pair{p.From, (p.To + k) % n} }, func(k int) Pair { return Pair{(p.From + k) % n, p.To} },
				} {
					for k := 1; k < n; k++ {
						if well(at(k)) {
							t.controls = append(t.controls, at(k))
							break
						}
					}
				}
			}
		default:
			t.own = v.partnersOf(slices.Concat(f.From, f.To)[0], n, f.Place == Receiver)
		}
		if t.f.Kind == Dead {
			t.controls = nil
		} else if v.o.Busy && t.f.Place != Group {
			t.controls = t.controls[:min(busyControls, len(t.controls))]
		}
	}
	return list, crowded
}

// partnersOf are pairs of a rank with others that do well, or with any if there are none.
func (v *Verdict) partnersOf(own, n int, receives bool) (list []Pair) {
	others := *v
	others.Findings = slices.DeleteFunc(slices.Clone(v.Findings), func(f Finding) bool {
		return f.Place != OnePair && f.Place != Group && slices.Concat(f.From, f.To)[0] == own
	})
	well := others.well(n)
	for _, any := range []bool{false, true} {
		for k := 1; k < n && len(list) < partners; k++ {
			p := Pair{own, (own + k) % n}
			if receives {
				p = p.Reverse()
			}
			if any || well(p) {
				list = append(list, p)
			}
		}
		if len(list) > 0 {
			break
		}
	}
	return list
}

// Trials returns the pairs of a round of trials, one direction of each: both are measured. Those of a
// batch may be measured at once, as far as they are disjoint. Pairs are measured one at a time, unless
// there are so many that most are chance. Where CPUs move the data, so are ranks, and each suspect
// and its controls in the same moment: what slows a host slows the controls down as well.
func (v *Verdict) Trials(n int) (batches [][]Pair) {
	list, crowded := v.trials(n)
	load, in := make([]int, n), map[Pair]bool{}
	var together, groups []Pair
	for _, t := range list {
		all := t.own
		if n > 2 { // of two the other direction is measured with it
			all = slices.Concat(t.own, t.controls)
		}
		single := v.o.Busy && t.f.Place != Group
		if t.f.Place == OnePair {
			single = !crowded
		}
		for _, p := range all {
			switch {
			case single:
				batches = append(batches, []Pair{p})
			case in[p] || in[p.Reverse()] || t.f.Place != Group && max(load[p.From], load[p.To]) >= crowdMost:
			case t.f.Place == Group && slices.Contains(t.own, p):
				groups, in[p] = append(groups, p), true
			default:
				together, in[p] = append(together, p), true
				load[p.From], load[p.To] = load[p.From]+1, load[p.To]+1
			}
		}
	}
	return slices.DeleteFunc(append([][]Pair{groups, together}, batches...), func(b []Pair) bool { return len(b) == 0 })
}

// Try returns the verdict that is left when all that the trials have measured until now is weighed.
// A suspect of which one measurement is well is none, nor one that loses nothing any more. One is
// named if chance would make all its measurements as bad as they are with a probability below one
// in ten thousand, as often as it does that to the controls. Suspects that are not proved after the
// last round are counted, and not named.
func (v *Verdict) Try(n int, draws func(Pair) []Draw, last bool) *Verdict {
	left := *v
	left.Findings = nil
	list, _ := v.trials(n)
	for i := range v.Findings {
		f := v.Findings[i]
		at := slices.IndexFunc(list, func(t trial) bool { return t.f == &v.Findings[i] })
		if at < 0 || v.holds(&f, list[at], draws, last) {
			if last && !f.proved {
				left.Undecided++
				continue
			}
			f.Certain = f.proved && (n > certainPartners || n == 2 && f.Kind == Lossy) && (f.Place == OnePair || f.Place == Group || f.Again >= certainPartners)
			left.Findings = append(left.Findings, f)
		}
	}
	return &left
}

// holds weighs a finding, and notes what its trial says.
func (v *Verdict) holds(f *Finding, t trial, draws func(Pair) []Draw, last bool) bool {
	switch {
	case f.Kind == Dead: // a load makes no pair fail: one more try is enough
		dead := 0
		for _, p := range t.own {
			if len(draws(p)) == 0 {
				dead++
			}
		}
		f.Again, f.AgainRatio, f.proved = len(t.own), float64(dead)/float64(len(t.own)), true
		return 2*dead > len(t.own)
	case f.Place == Group: // of the last round, beside what slows the controls, too
		median := func(pairs []Pair, f *Finding) (middle float64, n, rounds int) {
			var list []float64
			for _, p := range pairs {
				if d := draws(p); len(d) > 0 {
					list, rounds = figures(list, []float64{v.figure(f, p, d[len(d)-1])}), max(rounds, len(d))
				}
			}
			return quantile(list, 0.5), len(list), rounds
		}
		usual, _, _ := median(t.controls, &Finding{Kind: f.Kind, Place: OnePair})
		ratio, n, rounds := median(t.own, f)
		if usual < 1 {
			ratio /= usual
		}
		f.Again, f.AgainRatio, f.proved = n, ratio, rounds >= leastRounds
		return f.bad(ratio)
	}
	back := make([]Pair, len(t.own))
	for k, p := range t.own {
		back[k] = p.Reverse()
	}
	sides := [][]Pair{t.own}
	if f.Place == Node || f.BothWays {
		sides = append(sides, back)
	}
	var list []float64
	f.Again, f.proved = 0, true
	for _, own := range sides {
		for _, p := range own {
			d := draws(p)
			for _, d := range d {
				list = figures(list, []float64{v.figure(f, p, d)})
			}
			if len(d) > 0 {
				f.Again++
			}
		}
	}
	f.AgainRatio = quantile(list, 0.5)
	var bad []bool
	for _, own := range sides {
		isBad, proved := v.weigh(f, own, t.controls, draws)
		bad = append(bad, isBad)
		f.proved = f.proved && (proved || !isBad)
	}
	if rounds := len(draws(t.own[0])); rounds%leastRounds > 0 && !last { // a look after each would find chance more often
		f.proved = false
	}
	if f.BothWays && bad[0] != bad[1] { // it was chance in the other direction
		if f.BothWays, f.Partners, f.Of = false, 1, 1; bad[1] {
			f.From, f.To = f.To, f.From
		}
	}
	return slices.Contains(bad, true)
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
	var others, waits []float64
	level := math.NaN() // the worst of what controls do at their best
	for _, p := range controls {
		best := math.NaN()
		for _, d := range draws(p) {
			r := v.figure(&Finding{Kind: f.Kind, Place: OnePair}, p, d)
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
			absolute := v.figure(f, p, d)
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

// bad tells whether a ratio is that of the fault: it is half as large at least, as a power. A link
// that groups share is not as full again.
func (f *Finding) bad(ratio float64) bool {
	least := f.Ratio
	if f.Place == Group {
		least = 1
	}
	switch f.Kind {
	case Lossy:
		return ratio > lossyAbove
	case Late:
		return ratio > max(lateAbove, math.Sqrt(least))
	}
	// What is slow and was disturbed besides is less slow again.
	return ratio < min(SlowBelow, max(math.Sqrt(least), SlowBelow*SlowBelow))
}

// figure is what Finding.Ratio would be of one pair of it, measured again.
func (v *Verdict) figure(f *Finding, p Pair, d Draw) float64 {
	switch f.Kind {
	case Lossy:
		return d.Lost / d.Packets
	case Late:
		return d.Latency / math.Exp(-v.expected(f, p))
	}
	return d.Alone / math.Exp(v.expected(f, p))
}

// expected is the logarithm that a pair would have without a finding of it; NaN if none like it
// was measured.
func (v *Verdict) expected(f *Finding, p Pair) float64 {
	for _, q := range v.parts {
		e := q.bandwidth
		if f.Kind == Late {
			e = q.latency
		}
		if e == nil || len(v.parts) > 1 && math.IsNaN(e.rest.At(p.From, p.To)) {
			continue
		}
		sum := e.typical
		if f.Place != Sender && f.Place != Node {
			sum += e.sender[p.From]
		}
		if f.Place != Receiver && f.Place != Node {
			sum += e.receiver[p.To]
		}
		for k := range e.blocks {
			if b := &e.blocks[k]; f.Place != Group && b.has(p.From, p.To) {
				sum += b.effect
			}
		}
		return sum
	}
	return math.NaN()
}
