package links_test

import (
	"math/rand/v2"
	"testing"

	"ringcli/ring/diagnose/links"
)

// A pair that has been slow each time, on hosts that are busy, is named if it is slow whenever its
// controls are not, and never for what the load does to all, or to its own ends.
func TestTrials(t *testing.T) {
	const n = 8
	suspect := links.Pair{From: 5, To: 1}
	figures := links.NewFigures(n)
	for at := range n * n {
		if i, j := at/n, at%n; i != j {
			figures.Alone.Set(i, j, 10)
			figures.Latency.Set(i, j, 4)
		}
	}
	figures.Alone.Set(suspect.From, suspect.To, 5)
	const worlds = 2000
	for _, c := range []struct {
		name                   string
		fault, least, busy     float64 // what the suspect carries; the load leaves all this share or more; its ends wait for so much more
		named, undecided, most int     // of worlds
	}{
		{"fault on idle hosts", 0.4, 0.97, 0, worlds, 0, links.TrialRounds},
		{"fault on busy hosts", 0.4, 0.3, 0, worlds * 95 / 100, worlds / 20, 24},
		{"busy hosts", 1, 0.2, 0, -worlds / 1000, worlds / 20, 24},
		{"busy ends", 0.5, 0.97, 0.9, 0, worlds, 24},
	} {
		named, undecided := 0, 0
		for seed := range uint64(worlds) {
			rng := rand.New(rand.NewPCG(seed, 1))
			v, all, round := links.Judge(figures, links.Options{}), map[links.Pair][]links.Draw{}, 0
			if len(v.Findings) != 1 {
				t.Fatalf("%+v: expected one suspect", v.Findings)
			}
			for pairs := v.Trials(n); len(pairs) > 0; pairs = v.Trials(n) {
				for range links.TrialRounds {
					round++
					for _, batch := range pairs {
						p := batch[0]
						d := links.Draw{Alone: 10 * (c.least + (1-c.least)*rng.Float64()), Waited: 0.5}
						if p == suspect {
							d.Alone, d.Waited = min(d.Alone, 10*c.fault), 0.5+c.busy
						}
						all[p] = append(all[p], d)
					}
				}
				v = v.Try(n, func(p links.Pair) []links.Draw { return all[p] }, round >= links.TrialMost)
			}
			if round > c.most {
				t.Errorf("%s: %d rounds, expected %d", c.name, round, c.most)
			}
			named, undecided = named+len(v.Findings), undecided+v.Undecided
		}
		if c.named >= 0 && named < c.named || c.named <= 0 && named > -c.named || undecided > c.undecided {
			t.Errorf("%s: %d of %d named, %d undecided; expected %d and at most %d", c.name, named, worlds, undecided, c.named, c.undecided)
		}
		t.Logf("%s: %d named, %d undecided", c.name, named, undecided)
	}
}
