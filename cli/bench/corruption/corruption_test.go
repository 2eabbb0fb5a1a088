package corruption

import (
	"math/rand/v2"
	"strings"
	"testing"

	"ringcli/collective"
	"ringcli/collective/reduce"
)

// gathered is an all-gather of four ranks.
var gathered = collective.Call{Op: collective.OpAllGather, Count: 4000, Type: reduce.Uint32, CallOptions: collective.CallOptions{Algorithm: collective.AlgorithmRing, Protocol: collective.Eager}}

// How most wrong words differ from what they must be is found, as far as they do alike.
func TestPattern(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	bit := func(k int) *int { return &k }
	for _, c := range []struct {
		name   string
		damage func(want uint64) uint64
		want   Pattern
		says   string
	}{
		{"a bit stuck at one", func(want uint64) uint64 { return want | 1<<17 }, Pattern{Kind: "bit-set", Bit: bit(17), Mask: 1 << 17}, "bit 17 set"},
		{"a bit stuck at zero", func(want uint64) uint64 { return want &^ (1 << 3) }, Pattern{Kind: "bit-cleared", Bit: bit(3), Mask: 1 << 3}, "bit 3 cleared"},
		{"a bit flipped", func(want uint64) uint64 { return want ^ 1<<30 }, Pattern{Kind: "bit-flipped", Bit: bit(30), Mask: 1 << 30}, "bit 30 flipped"},
		{"two bits flipped", func(want uint64) uint64 { return want ^ 0x500 }, Pattern{Kind: "bits-flipped", Mask: 0x500}, "the bits 0x500 flipped"},
		{"zeros", func(uint64) uint64 { return 0 }, Pattern{Kind: "zeroed"}, "zero"},
		{"noise", func(uint64) uint64 { return uint64(rnd.Uint32()) }, Pattern{Kind: "none"}, "no pattern in the bits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := Locator{Checks: 9}
			told := make([]Told, 4)
			for i := 0; len(told[0].Words) < 40; i++ {
				if want := uint64(rnd.Uint32()); c.damage(want) != want {
					told[0].Note(10*i, c.damage(want), want)
				}
			}
			told[0].Wrong = 45
			l.Add(gathered, told)
			got := l.Corruption().Pattern
			if w := c.want; got.Kind != w.Kind || got.Mask != w.Mask || (got.Bit == nil) != (w.Bit == nil) || w.Bit != nil && *got.Bit != *w.Bit || got.Words != 40 || got.Of != 45 {
				t.Errorf("%+v: expected %+v", got, w)
			}
			if want := "40 of 40 wrong words: " + c.says + ", in 1 of 9 checks (5 more words were wrong)"; got.Text != want {
				t.Errorf("%q: expected %q", got.Text, want)
			}
		})
	}
	if (&Locator{Checks: 9}).Corruption() != nil {
		t.Error("nothing is wrong")
	}
}

// Ranks tell of the first wrong words alone. What one has not told of is not taken for right, and
// is counted; a word that several ranks have wrong counts once.
func TestWhereItWentWrong(t *testing.T) {
	wrong := func(rank, from, words int, of uint64) (r Told) {
		for i := range words {
			r.Note(from+2*i, 1, 0)
		}
		r.Rank, r.Wrong = rank, of
		return r
	}
	l := Locator{Checks: 1}
	l.Add(gathered, []Told{wrong(0, 0, wordsTold, 1000), wrong(1, 0, 0, 0), wrong(2, 900, 1, 1), wrong(3, 0, 0, 0)})
	got := l.Corruption()
	if p := got.Pattern; p.Words != wordsTold+1 || p.Of != 1000 {
		t.Errorf("%d words of %d: expected %d of 1000", p.Words, p.Of, wordsTold+1)
	}
	if e := got.Entered; len(e) != 1 || e[0].From != 0 || e[0].To != 0 || e[0].Elements[0] != 0 {
		t.Errorf("%+v: expected that element 0 went wrong within rank 0", e)
	}
	for _, says := range []string{"rank 0 has 1000: 0, 2, 4, 6, 8, 10, 12, 14, ...; rank 2 has 1: 900; ", "element 0 went wrong within rank 0 (suspect)"} {
		if !strings.Contains(got.String(), says) {
			t.Errorf("%q does not say %q", got, says)
		}
	}
	// What has not told of the element may have it wrong, too.
	l = Locator{Checks: 1}
	l.Add(gathered, []Told{wrong(0, 0, 0, 0), wrong(1, 2000, 1, 1), wrong(2, 0, wordsTold, 1000), wrong(3, 0, 0, 0)})
	if e := l.Corruption().Entered; len(e) != 0 {
		t.Errorf("%+v: expected that it is not known", e)
	}
}

// What changed between two ranks is an entry of that edge; later checks add other edges.
func TestTheEdge(t *testing.T) {
	l := Locator{Checks: 3}
	for _, edge := range [][2]int{{0, 1}, {0, 1}, {1, 2}} {
		told := make([]Told, 4)
		told[edge[0]].Journal.Note(edge[0], edge[1], 1, 0, 0, true)
		told[edge[1]].Journal.Note(edge[0], edge[1], 2, 16, 32, true)
		told[edge[1]].Note(17, 1, 0)
		told[edge[1]].Rank, told[edge[1]].Wrong = edge[1], 1
		l.Add(gathered, told)
	}
	got := l.Corruption()
	if e := got.Entered; len(e) != 2 || e[0].From != 0 || e[0].To != 1 || e[0].Elements != [2]int{16, 31} || e[1].To != 2 {
		t.Errorf("%+v", e)
	}
	if text := got.String(); !strings.Contains(text, "elements 16 to 31 changed between rank 0 and rank 1 (certain): all-gather, segment 0") || !strings.Contains(text, "in 3 of 3 checks") {
		t.Errorf("%q", text)
	}
}
