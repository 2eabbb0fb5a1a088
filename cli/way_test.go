package cli

import (
	"slices"
	"strings"
	"testing"

	"ringcli/collective"
)

func TestAlgorithmList(t *testing.T) {
	for text, want := range map[string]string{
		"ring": "ring", "auto": "auto", "RING , rd": "ring,recursive-doubling", "all": "ring,recursive-doubling,tree,inbox",
		"star": "", "": "", "ring,": "", "auto,ring": "", "rd,doubling": "", "all,ring": "",
	} {
		l := newAlgorithmList()
		err := l.Set(text)
		if (err == nil) != (want != "") || l.String() != want {
			t.Errorf("%q: %q, %v, want %q", text, l, err, want)
		}
	}
}

func TestLabelsOfWays(t *testing.T) {
	ring, tree, auto := collective.AlgorithmRing, collective.AlgorithmTree, collective.AlgorithmAuto
	eager, read, none := collective.Eager, collective.RendezvousRead, collective.Auto
	for _, c := range []struct {
		list ways
		w    way
		want string
	}{
		{ways{{ring, eager}, {ring, read}}, way{ring, read}, "rendezvous-read"},
		{ways{{ring, eager}, {ring, read}}, way{tree, eager}, "tree/eager"}, // what auto takes
		{ways{{ring, none}, {tree, none}}, way{tree, none}, "tree"},
		{ways{{ring, none}, {tree, none}}, way{ring, read}, "ring"},
		{ways{{ring, eager}, {tree, eager}}, way{tree, eager}, "tree"},
		{ways{{ring, eager}, {tree, eager}}, way{ring, read}, "ring/rendezvous-read"},
		{ways{{ring, eager}, {ring, read}, {tree, eager}}, way{ring, eager}, "ring/eager"},
	} {
		if got := c.list.label(c.w); got != c.want {
			t.Errorf("%v among %v is %q, want %q", c.w, c.list, got, c.want)
		}
	}
	for w, want := range map[way]string{{auto, none}: "auto", {auto, eager}: "eager", {tree, none}: "tree", {ring, read}: "ring/rendezvous-read"} {
		if w.String() != want {
			t.Errorf("%q, want %q", w, want)
		}
	}
}

func TestShortWay(t *testing.T) {
	for _, c := range [][3]string{
		{"ring", "eager", "eager"}, {"ring", "direct", "ring/direct"}, {"inbox", "direct", "inbox/direct"},
		{"recursive-doubling", "eager", "recursive-doubling"}, {"ring", "rendezvous-write", "rendezvous-write"},
	} {
		if got := shortWay(c[0], c[1]); got != c[2] || len(got) > 18 {
			t.Errorf("%v is %q", c, got)
		}
	}
}

// Names that do not fit are shortened, or stand in two lines.
func TestCompareHead(t *testing.T) {
	var list ways
	for _, a := range collective.Algorithms()[1:] {
		list = append(list, way{a, collective.Auto})
	}
	if got := compareHead(list); !slices.Equal(got, []string{"       ring       doubling   tree       inbox"}) {
		t.Errorf("got %q", got)
	}
	got := compareHead(exampleAlgorithms()[0].Ways)
	if want := []string{
		"       ring       ring       ring       doubling   tree       inbox",
		"       eager      rdv-read   direct     eager      eager      direct",
	}; !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}
