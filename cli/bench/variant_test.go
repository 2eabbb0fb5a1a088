package bench

import (
	"testing"

	"github.com/spf13/pflag"

	"ringcli/collective"
	"ringcli/collective/plan"
)

func TestAlgorithmList(t *testing.T) {
	for text, want := range map[string]string{
		"ring": "ring", "auto": "auto", "RING , rd": "ring,recursive-doubling", "all": "ring,recursive-doubling,tree,inbox,hierarchical",
		"star": "", "": "", "ring,": "", "auto,ring": "", "rd,doubling": "", "all,ring": "",
	} {
		l := listFlag(pflag.NewFlagSet("", pflag.ContinueOnError), "algorithm", plan.Algorithms(), plan.ParseAlgorithm)
		l.Value = nil
		err := l.Set(text)
		if (err == nil) != (want != "") || l.String() != want {
			t.Errorf("%q: %q, %v, want %q", text, l, err, want)
		}
	}
}

func TestLabelsOfVariants(t *testing.T) {
	ring, tree, auto := collective.AlgorithmRing, collective.AlgorithmTree, collective.AlgorithmAuto
	eager, read, none := collective.Eager, collective.RendezvousRead, collective.Auto
	for _, c := range []struct {
		list Variants
		w    Variant
		want string
	}{
		{Variants{{ring, eager, ""}, {ring, read, ""}}, Variant{ring, read, ""}, "rendezvous-read"},
		{Variants{{ring, eager, ""}, {ring, read, ""}}, Variant{tree, eager, ""}, "tree/eager"}, // what auto takes
		{Variants{{ring, none, ""}, {tree, none, ""}}, Variant{tree, none, ""}, "tree"},
		{Variants{{ring, none, ""}, {tree, none, ""}}, Variant{ring, read, ""}, "ring"},
		{Variants{{ring, eager, ""}, {tree, eager, ""}}, Variant{tree, eager, ""}, "tree"},
		{Variants{{ring, eager, ""}, {tree, eager, ""}}, Variant{ring, read, ""}, "ring/rendezvous-read"},
		{Variants{{ring, eager, ""}, {ring, read, ""}, {tree, eager, ""}}, Variant{ring, eager, ""}, "ring/eager"},
	} {
		if got := c.list.label(c.w); got != c.want {
			t.Errorf("%v among %v is %q, want %q", c.w, c.list, got, c.want)
		}
	}
	for w, want := range map[Variant]string{{auto, none, ""}: "auto", {auto, eager, ""}: "eager", {tree, none, ""}: "tree", {ring, read, ""}: "ring/rendezvous-read"} {
		if w.String() != want {
			t.Errorf("%q, want %q", w, want)
		}
	}
}

func TestShortVariant(t *testing.T) {
	for w, want := range map[Variant]string{
		{collective.AlgorithmRing, collective.Eager, ""}: "eager", {collective.AlgorithmRing, collective.Direct, ""}: "ring/direct",
		{collective.AlgorithmInbox, collective.Direct, ""}: "inbox/direct", {collective.AlgorithmRecursiveDoubling, collective.Eager, ""}: "recursive-doubling",
		{collective.AlgorithmRing, collective.RendezvousWrite, ""}: "rendezvous-write", {collective.AlgorithmRing, collective.ReceiverInitiated, ""}: "receiver-initiated",
	} {
		if got := w.short(); got != want || len(got) > 18 {
			t.Errorf("%v is %q", w, got)
		}
	}
}

func TestProtocolList(t *testing.T) {
	for text, want := range map[string]string{
		"eager": "eager", "auto": "auto", "eager,rendezvous": "eager,rendezvous-write", "eager,recv-init": "eager,receiver-initiated", " Eager , rdv-read ": "eager,rendezvous-read",
		"fast": "", "": "", "eager,": "", "auto,eager": "", "rendezvous,rendezvous-write": "",
	} {
		l := listFlag(pflag.NewFlagSet("", pflag.ContinueOnError), "protocol", plan.Protocols(), plan.ParseProtocol)
		l.Value = &[]collective.Protocol{collective.Eager}
		err := l.Set(text)
		if want == "" {
			if err == nil || l.String() != "eager" {
				t.Errorf("%q: %v, and the list is %s", text, err, l)
			}
			continue
		}
		if err != nil || l.String() != want {
			t.Errorf("%q: %s, %v, want %s", text, l, err, want)
		}
	}
}

func TestStretchWords(t *testing.T) {
	stretch := func(name string, from, to uint64) Stretch {
		return Stretch{From: from, To: to, name: name}
	}
	a, b, c := stretch("eager", 8, 256<<10), stretch("rendezvous-write", 512<<10, 4<<20), stretch("eager", 8<<20, 8<<20)
	for want, list := range map[string][]Stretch{
		"eager is ahead at every size":                                               {a},
		"eager is ahead up to 256K, rendezvous-write from 512K":                      {a, b},
		"eager is ahead up to 256K, rendezvous-write from 512K to 4M, eager from 8M": {a, b, c},
		"eager is ahead up to 8M, rendezvous-write at 16M, eager from 32M":           {a, c, stretch("rendezvous-write", 16<<20, 16<<20), stretch("eager", 32<<20, 64<<20)},
	} {
		if got := stretchWords(list, "is ahead"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
