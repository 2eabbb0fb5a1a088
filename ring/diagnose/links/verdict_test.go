package links_test

import (
	"slices"
	"testing"

	"ringcli/ring/diagnose/links"
	"ringcli/ring/diagnose/links/linkstest"
)

// judge is the whole way: a mesh, the suspects again, and what holds.
func judge(w *linkstest.World) *links.Verdict {
	return linkstest.Again(links.Judge(w.Measure(nil), links.Options{}), w.N, func(batches [][]links.Pair) *links.Figures {
		return w.Measure(slices.Concat(batches...))
	})
}

// Each kind alone, several at once, and nobody on healthy figures.
func TestVerdicts(t *testing.T) {
	seeds := map[int]int{8: 60, 232: 2}
	if !testing.Short() {
		seeds = map[int]int{4: 200, 8: 400, 64: 100, 232: 20, 1000: 1}
	}
	linkstest.Table(t, linkstest.Seeds(t, seeds), func(n int, seed uint64, kinds []string) (*linkstest.World, *links.Verdict) {
		w := linkstest.New(n, seed, kinds...)
		return w, judge(w)
	})
}

// A loss is told by its own count: also of two ranks, and where one rank loses most of all pairs.
func TestLossyOfFewRanks(t *testing.T) {
	for _, c := range []struct {
		n     int
		lossy func(i, j int) bool
		want  links.Finding
	}{
		{2, func(i, _ int) bool { return i == 0 }, links.Finding{Place: links.OnePair, From: []int{0}, To: []int{1}}},
		{3, func(i, j int) bool { return i == 2 || j == 2 }, links.Finding{Place: links.Node, From: []int{2}, To: []int{2}}},
	} {
		f := links.NewFigures(c.n)
		for i := range c.n {
			for j := range c.n {
				if i == j {
					continue
				}
				f.Alone.Set(i, j, 10)
				f.Latency.Set(i, j, 4)
				f.Packets.Set(i, j, 1000)
				f.Lost.Set(i, j, 1)
				if c.lossy(i, j) {
					f.Lost.Set(i, j, 30)
				}
			}
		}
		v := links.Judge(f, links.Options{})
		if len(v.Findings) != 1 || v.Findings[0].Kind != links.Lossy || v.Findings[0].Place != c.want.Place || !slices.Equal(v.Findings[0].From, c.want.From) || !slices.Equal(v.Findings[0].To, c.want.To) {
			t.Errorf("%d ranks: %+v, expected %+v", c.n, v.Findings, c.want)
		}
		draws := func(p links.Pair) []links.Draw {
			return slices.Repeat([]links.Draw{{Alone: 10, Latency: 4, Packets: 1000, Lost: f.Lost.At(p.From, p.To)}}, 4)
		}
		if v = v.Try(c.n, draws, false); len(v.Findings) != 1 || len(v.Trials(c.n)) > 0 {
			t.Errorf("%d ranks, tried: %+v, expected it proved", c.n, v.Findings)
		}
		all := func(links.Pair) []links.Draw { return []links.Draw{{Alone: 10, Latency: 4, Packets: 1000, Lost: 30}} }
		if v = links.Judge(f, links.Options{}).Try(c.n, all, true); c.n > 2 && (len(v.Findings) > 0 || v.Undecided != 1) {
			t.Errorf("%d ranks, of which all lose as much in the trial: %+v, expected nobody named", c.n, v.Findings)
		}
	}
}

// Who had no connection twice is not tried a third time: all ranks wait for it each time.
func TestDeadAgainOnce(t *testing.T) {
	const n = 5
	measure := func() *links.Figures {
		f := links.NewFigures(n)
		for i := range n {
			for j := range n {
				switch at := i*n + j; {
				case i == 3 && j != i || j == 3 && i != j:
					f.Dead[at] = true
				case i != j:
					f.Alone.V[at], f.Latency.V[at] = 10, 4
				}
			}
		}
		return f
	}
	tries := 0
	v := linkstest.Again(links.Judge(measure(), links.Options{}), n, func([][]links.Pair) *links.Figures {
		tries++
		return measure()
	})
	if f := v.Findings; tries != 1 || len(f) != 1 || f[0].Place != links.Node || f[0].From[0] != 3 || f[0].Again == 0 || !f[0].Certain {
		t.Errorf("%d tries: %+v: expected rank 3 after one", tries, f)
	}
}
