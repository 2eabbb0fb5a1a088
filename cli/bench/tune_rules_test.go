package bench

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"ringcli/collective"
)

// tuneCurve are points of three variants, the default the first up to a size and then
// the second, each round within so much noise of the times.
func tuneCurve(noise float64, rounds int, times ...[3]float64) []tunePoint {
	random := rand.New(rand.NewPCG(1, 2))
	var points []tunePoint
	for i, at := range times {
		p := tunePoint{op: collective.OpAllReduce, bytes: 8 << (2 * i)}
		if i >= len(times)/2 {
			p.standard = 1
		}
		for range rounds {
			var means []float64
			for _, us := range at {
				means = append(means, us*(1+noise*(2*random.Float64()-1)))
			}
			p.rounds = append(p.rounds, means)
		}
		points = append(points, p)
	}
	return points
}

func TestChooseVariants(t *testing.T) {
	const none = 0 // us: it was never measured
	for _, c := range []struct {
		name   string
		noise  float64
		rounds int
		times  [][3]float64
		want   []int
	}{
		{"all alike", 0.2, 9, [][3]float64{{10, 10, 10}, {10, 10, 10}, {10, 10, 10}, {10, 10, 10}}, []int{0, 0, 1, 1}},
		{"two percent", 0, 9, [][3]float64{{10, 10, 9.8}, {10, 10, 9.8}, {10, 10, 9.8}, {10, 10, 9.8}}, []int{0, 0, 1, 1}},
		{"another at every size", 0.1, 9, [][3]float64{{10, 20, 7}, {10, 20, 7}, {20, 10, 7}, {20, 10, 7}}, []int{2, 2, 2, 2}},
		{"a single switch", 0.01, 9, [][3]float64{{10, 20, 5}, {10, 20, 5}, {20, 10, 30}, {20, 10, 30}}, []int{2, 2, 1, 1}},
		// The switches cost more than the loss at one size.
		{"one size a little worse", 0, 9, [][3]float64{{10, 20, 5}, {10, 20, 10.4}, {20, 10, 5}, {20, 10, 5}}, []int{2, 2, 2, 2}},
		{"one size much worse", 0, 9, [][3]float64{{10, 20, 5}, {10, 20, 30}, {20, 10, 5}, {20, 10, 5}}, []int{2, 0, 2, 2}},
		{"the default switches too late", 0.05, 9, [][3]float64{{10, 5, 20}, {10, 5, 20}, {20, 10, 20}, {20, 10, 20}}, []int{1, 1, 1, 1}},
		{"too few rounds", 0, 2, [][3]float64{{10, 20, 5}, {10, 20, 5}}, []int{0, 1}},
		{"few rounds, and clear", 0, 3, [][3]float64{{10, 20, 5}, {10, 20, 5}}, []int{2, 2}},
		{"few rounds, and not clear", 0, 3, [][3]float64{{10, 20, 9.5}, {20, 10, 9.5}}, []int{0, 1}},
		{"never measured", 0, 9, [][3]float64{{10, 20, none}, {20, 10, none}}, []int{0, 1}},
	} {
		points := tuneCurve(c.noise, c.rounds, c.times...)
		if got := chooseVariants(points, 3); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if chooseVariants(nil, 3) != nil {
		t.Error("nothing was measured")
	}
}

// However the times are, the sequence is no more expensive than any other: all of
// them are tried.
func TestChooseVariantsIsTheCheapest(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	cost := func(points []tunePoint, chosen []int) (sum float64) {
		for i, p := range points {
			if sum += p.price(chosen[i]); chosen[i] != p.standard {
				sum += math.Log(1+tuneGain) / 1000
			}
			if i > 0 && chosen[i] != chosen[i-1] && (chosen[i] != p.standard || chosen[i-1] != points[i-1].standard) {
				sum += math.Log(1 + tuneGain)
			}
		}
		return sum
	}
	for range 200 {
		var times [][3]float64
		for range 5 {
			times = append(times, [3]float64{1 + random.Float64(), 1 + random.Float64(), 1 + random.Float64()})
		}
		points := tuneCurve(0.1, 9, times...)
		got := cost(points, chooseVariants(points, 3))
		for code := range 3 * 3 * 3 * 3 * 3 {
			var other []int
			for range 5 {
				other = append(other, code%3)
				code /= 3
			}
			if c := cost(points, other); c < got-1e-12 {
				t.Fatalf("%v costs %g, what was chosen %g", other, c, got)
			}
		}
	}
}

func TestRulesOfStretches(t *testing.T) {
	list := Variants{{collective.AlgorithmInbox, collective.Eager, ""}, {collective.AlgorithmRing, collective.Eager, ""}, {collective.AlgorithmTree, collective.Eager, ""}}
	times := [][3]float64{{10, 20, 5}, {10, 20, 5}, {20, 10, 30}, {20, 10, 30}}
	points := tuneCurve(0, 9, times...) // 8, 32, 128 and 512 bytes
	chosen := chooseVariants(points, 3)
	stretches := stretchesOf(points, chosen, true)
	// Between two sizes lies their geometric mean.
	if want := []tuneStretch{{0, 1, 64, 2}, {2, 3, 0, 1}}; !slices.Equal(stretches, want) {
		t.Errorf("stretches are %v", stretches)
	}
	rules := rulesOf(points, stretches, list)
	if want := []collective.Rule{{Op: collective.OpAllReduce, MaxBytes: 64, Algorithm: collective.AlgorithmTree, Protocol: collective.Eager}}; !reflect.DeepEqual(rules, want) {
		t.Errorf("rules are %v", rules)
	}
	if gain, n := gainOf(points, stretches[0]); math.Abs(gain-2) > 1e-9 || n != 2 {
		t.Errorf("the gain is %g at %d sizes", gain, n)
	}
	if gain, n := gainOf(points, stretches[1]); gain != 1 || n != 0 {
		t.Errorf("the default's gain is %g at %d sizes", gain, n)
	}
	// A tie at the last size is no reason to go on beyond it.
	points[3].rounds = tuneCurve(0, 9, [3]float64{10, 10, 10})[0].rounds
	if goesOn(points, []int{2, 2, 2, 2}) || !goesOn(points, []int{2, 2, 2, 1}) || !goesOn(points[:1], []int{2}) {
		t.Error("what goes on beyond the last size")
	}
	// What was not measured is left to the default.
	points = tuneCurve(0, 9, [3]float64{10, 20, 5}, [3]float64{10, 20, 5})
	if got := stretchesOf(points, chooseVariants(points, 3), false); !slices.Equal(got, []tuneStretch{{0, 1, 32, 2}}) {
		t.Errorf("cut short: %v", got)
	}
	// A default in the middle needs its rule, the last ones do not.
	points = tuneCurve(0, 9, [3]float64{10, 20, 5}, [3]float64{10, 20, 30}, [3]float64{20, 10, 5}, [3]float64{20, 10, 30})
	rules = rulesOf(points, stretchesOf(points, chooseVariants(points, 3), true), list)
	if len(rules) != 3 || rules[1].Algorithm != collective.AlgorithmInbox || rules[2].MaxBytes != 256 {
		t.Errorf("rules are %v", rules)
	}
	if err := (collective.Table{Rules: rules}).Validate(); err != nil {
		t.Error(err)
	}
}

// What is hopeless sits out, but not the default.
func TestNextRound(t *testing.T) {
	p := tunePoint{standard: 2, rounds: [][]float64{{0, 0, 30000}}}
	iters := []int{1, 1, 1}
	p.next(iters, []float64{10, 1000, 30000}, tuneTurn)
	if want := []int{2000, 20, 1}; !slices.Equal(iters, want) {
		t.Errorf("iterations are %v, want %v", iters, want)
	}
	iters = []int{1, 1, 1}
	p.next(iters, []float64{10, 30000, 10}, tuneTurn)
	if iters[1] != 0 {
		t.Errorf("iterations are %v", iters)
	}
	p = tunePoint{rounds: [][]float64{{10, 18}, {10, 18}, {10, 18}, {10, 18}}}
	iters = []int{1, 1}
	p.next(iters, []float64{10, 18}, tuneTurn)
	if iters[1] == 0 {
		t.Error("given up after four rounds")
	}
	p.rounds = append(p.rounds, []float64{10, 18})
	p.next(iters, []float64{10, 18}, tuneTurn)
	if iters[1] != 0 || iters[0] == 0 {
		t.Errorf("iterations are %v", iters)
	}
}
