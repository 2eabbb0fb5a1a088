package bench

import (
	"math"
	"slices"

	"ringcli/cli/timing"
	"ringcli/collective"
)

const (
	// tuneGain is the least gain that is worth another variant than the default, and
	// the price of each switch from one variant to another: a curve of few stretches is
	// one that a person can read, and less is gone with the next measurement.
	tuneGain = 0.03
	// tuneRounds are measured where the budget allows it. Two variants that are alike
	// keep their order in so many by chance once in 32. With fewer, a variant must be
	// ahead by tuneClear in each.
	tuneRounds = 5
	tuneFewest = 3
	tuneClear  = 0.10
)

// tunePoint is one operation at one size: what each variant took in each round.
type tunePoint struct {
	op       collective.Operation
	bytes    int64
	standard int        // the index of the variant that is taken without a table
	rounds   roundMeans // without those that only told how long an iteration is
}

// times are the medians of the rounds by variant; +Inf of a variant that never ran.
func (p tunePoint) times(n int) []float64 {
	all := make([]float64, n)
	for w := range all {
		all[w] = math.Inf(1)
		if means := p.rounds.of(w); len(means) > 0 {
			all[w] = timing.Median(means)
		}
	}
	return all
}

// gain is by how many times a variant is faster than the default: the median of the
// rounds' ratios, since what disturbs a round disturbs both. real tells whether that
// is beyond noise: by tuneGain at least, and ahead in every round, or from eight
// rounds on in all but one.
func (p tunePoint) gain(w int) (ratio float64, real bool) {
	var ratios []float64
	ahead, clear := 0, 0
	for _, r := range p.rounds {
		if r[w] <= 0 || r[p.standard] <= 0 {
			continue
		}
		ratios = append(ratios, r[p.standard]/r[w])
		if r[w] < r[p.standard] {
			ahead++
		}
		if r[w]*(1+tuneClear) < r[p.standard] {
			clear++
		}
	}
	if len(ratios) == 0 {
		return 0, false
	}
	ratio = timing.Median(ratios)
	switch n := len(ratios); {
	case n < tuneFewest || ratio < 1+tuneGain:
		return ratio, false
	case n < tuneRounds:
		return ratio, clear == n
	case n < 8:
		return ratio, ahead == n
	default:
		return ratio, ahead >= n-1
	}
}

// price is what it costs to take a variant at this size, beside the default: the
// logarithm of the ratio of their times, so that a gain at one size and the same
// loss at another come to nothing. A gain within noise is none. A variant that was
// given up before there was a ratio is out of the question.
func (p tunePoint) price(w int) float64 {
	if w == p.standard {
		return 0
	}
	ratio, real := p.gain(w)
	switch {
	case ratio == 0:
		return math.Inf(1)
	case real || ratio < 1:
		return -math.Log(ratio)
	}
	return 0
}

// chooseVariants says which of n variants to take at each size of one operation, whose
// points come by size: the cheapest sequence, if each switch that the default does
// not make there, too, costs as much as the least gain. So a switch comes only
// where it pays, and with no gain at all the default is what is left.
func chooseVariants(points []tunePoint, n int) []int {
	if len(points) == 0 {
		return nil
	}
	var (
		change = math.Log(1 + tuneGain)
		// other decides between the default and what is as good.
		other = change / 1000
		best  = make([][]float64, len(points))
		from  = make([][]int, len(points))
	)
	for i, p := range points {
		best[i], from[i] = make([]float64, n), make([]int, n)
		for w := range n {
			here := p.price(w)
			if w != p.standard {
				here += other
			}
			if i == 0 {
				best[i][w] = here
				continue
			}
			least := math.Inf(1)
			for before := range n {
				cost := best[i-1][before]
				if before != w && (before != points[i-1].standard || w != p.standard) {
					cost += change
				}
				if cost < least {
					least, from[i][w] = cost, before
				}
			}
			best[i][w] = least + here
		}
	}
	chosen := make([]int, len(points))
	last := len(points) - 1
	for w := range n {
		if best[last][w] < best[last][chosen[last]] {
			chosen[last] = w
		}
	}
	for i := last; i > 0; i-- {
		chosen[i-1] = from[i][chosen[i]]
	}
	return chosen
}

// goesOn tells whether what is taken at the last size is also to be taken beyond:
// the default, or what is truly ahead there.
func goesOn(points []tunePoint, chosen []int) bool {
	last := len(points) - 1
	_, real := points[last].gain(chosen[last])
	return real || chosen[last] == points[last].standard
}

// tuneStretch is a run of sizes of one operation that have one variant.
type tuneStretch struct {
	first, last int   // indexes of points
	upTo        int64 // bytes; 0: any
	variant     int
}

// isDefault tells whether the variant is what is taken without a table, at each size.
func (s tuneStretch) isDefault(points []tunePoint) bool {
	return !slices.ContainsFunc(points[s.first:s.last+1], func(p tunePoint) bool { return p.standard != s.variant })
}

// stretchesOf joins sizes that have the same variant. Between two sizes that were
// measured lies their geometric mean. whole says that the last stretch goes on
// for ever: else nothing is said about what is longer than the last point.
func stretchesOf(points []tunePoint, chosen []int, whole bool) []tuneStretch {
	var list []tuneStretch
	for i, p := range points {
		if last := len(list) - 1; last >= 0 && list[last].variant == chosen[i] {
			list[last].last = i
		} else {
			list = append(list, tuneStretch{first: i, last: i, variant: chosen[i]})
		}
		upTo := p.bytes
		if i+1 < len(points) {
			upTo = int64(math.Sqrt(float64(p.bytes) * float64(points[i+1].bytes)))
		} else if whole {
			upTo = 0
		}
		list[len(list)-1].upTo = upTo
	}
	return list
}

// rulesOf are the rules of one operation. Where the default is what is left at
// the end, no rule says so.
func rulesOf(points []tunePoint, list []tuneStretch, of Variants) []collective.Rule {
	var rules []collective.Rule
	for _, s := range list {
		w := of[s.variant]
		rules = append(rules, collective.Rule{Op: points[s.first].op, MaxBytes: s.upTo, Algorithm: w.Algorithm, Protocol: w.Protocol})
	}
	for len(rules) > 0 && list[len(rules)-1].isDefault(points) {
		rules = rules[:len(rules)-1]
	}
	return rules
}

// gainOf is the geometric mean of the gains over the default, at the sizes of a
// stretch where another variant is taken; n says how many these are.
func gainOf(points []tunePoint, s tuneStretch) (gain float64, n int) {
	sum := 0.0
	for _, p := range points[s.first : s.last+1] {
		if ratio, _ := p.gain(s.variant); ratio > 0 && p.standard != s.variant {
			sum += math.Log(ratio)
			n++
		}
	}
	return math.Exp(sum / float64(max(n, 1))), n
}
