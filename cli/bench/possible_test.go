package bench

import (
	"errors"
	"testing"

	"ringcli/cli/exit"
	"ringcli/collective/model"
)

func TestFloors(t *testing.T) {
	p := Possible{Rate: 10, By: model.Port}
	for text, want := range map[string]float64{"80%": 8, " 100% ": 10, "0.5%": 0.05, "1.5": 1.5, "0": 0} {
		f, err := parseFloor(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got, err := f.of(p); got != want || err != nil {
			t.Errorf("%q of 10 GB/s: %v, %v, want %v", text, got, err, want)
		}
		if again, err := parseFloor(f.String()); again != f || err != nil {
			t.Errorf("%q: %s reads as %v, %v", text, f, again, err)
		}
	}
	for _, text := range []string{"", "%", "0%", "101%", "-1%", "NaN%", "-1", "fast", "1GB/s", "1e10"} {
		if f, err := parseFloor(text); err == nil {
			t.Errorf("%q is %v", text, f)
		}
	}
	var coded *exit.Error
	if _, err := (floor{share: 0.8}).of(Possible{}); !errors.As(err, &coded) || coded.Code != exit.Usage {
		t.Errorf("80 %% of what is not known: %v", err)
	}
	if got, err := (floor{rate: 3}).of(Possible{}); got != 3 || err != nil {
		t.Errorf("3 GB/s where it is not known what is possible: %v, %v", got, err)
	}
}

// TestLeastPossible: the rank whose edges can carry least counts, and not one that does not know.
func TestLeastPossible(t *testing.T) {
	a, b := Possible{12, model.Port, "rank 0"}, Possible{7, model.PCIe, "rank 1"}
	for _, list := range [][]Possible{{a, b}, {b, a}, {{}, a, {}, b, {}}} {
		var least Possible
		for _, p := range list {
			least = leastPossible(least, p)
		}
		if least != b {
			t.Errorf("%v: %v", list, least)
		}
	}
	if share := b.share(3.5); share == nil || *share != 50 {
		t.Errorf("3.5 of 7: %v", share)
	}
	if (Possible{}).share(1) != nil || (Possible{}).text(1) != "" || (Possible{}).whyPossible() != nil {
		t.Error("something is said of what is not known")
	}
}

// TestOfHosts: of what was measured the best rank of a host counts, and of a port each for itself.
func TestOfHosts(t *testing.T) {
	rank := func(host string, by model.Kind, rate float64) told {
		return told{Host: host, RankMeasurement: RankMeasurement{Possible: Possible{Rate: rate, By: by}}}
	}
	all := []told{
		rank("a", model.Memory, 3), rank("b", model.Memory, 5), rank("a", model.Memory, 10), rank("a", model.CPU, 1),
		rank("", model.CPU, 2), rank("", model.CPU, 4), rank("b", model.Port, 6), rank("b", model.Port, 7), rank("b", "", 0),
	}
	want := []float64{10, 5, 10, 1, 2, 4, 6, 7, 0}
	for i, r := range ofHosts(all) {
		if r.Rate != want[i] {
			t.Errorf("rank %d, %s of host %q: %v, want %v", i, r.By, all[i].Host, r.Rate, want[i])
		}
	}
}

func TestFastest(t *testing.T) {
	if got := fastest(1000, func() error { return nil }); !(got > 0) {
		t.Errorf("%v GB/s of steps that do nothing", got)
	}
	if got := fastest(1, func() error { return errors.New("no") }); got != 0 {
		t.Errorf("%v of what fails", got)
	}
}
