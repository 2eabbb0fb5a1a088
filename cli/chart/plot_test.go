package chart

import (
	"fmt"
	"strings"
	"testing"
)

func TestPlotFits(t *testing.T) {
	label := func(v float64) string { return fmt.Sprintf("%.3f", v) }
	curves := func(sizes int, flat bool) []Curve {
		list := []Curve{{Name: "eager"}, {Name: "rendezvous-write"}, {Name: "rendezvous-read"}}
		for i := range list {
			for n := range sizes {
				p := Point{Bytes: 8 << (3 * n), Value: float64((i+1)*(n+1)) / 2}
				if flat {
					p.Value = 0 // a ring of one
				}
				list[i].Points = append(list[i].Points, p)
			}
		}
		return list
	}
	for _, n := range []int{2, 3, 5} {
		lines := Plot("busbw in GB/s by size", curves(n, false), label)
		if len(lines) != plotHeight+1+3 {
			t.Errorf("%d sizes: %d lines", n, len(lines))
		}
		text := strings.Join(lines, "\n")
		for _, mark := range plotMarks[:3] {
			if strings.Count(text, mark) < 5 {
				t.Errorf("%d sizes: no curve of %q in\n%s", n, mark, text)
			}
		}
		for _, line := range lines {
			if len([]rune(line)) > 78 {
				t.Errorf("%d characters: %s", len([]rune(line)), line)
			}
		}
	}
	if Plot("", curves(1, false), label) != nil {
		t.Error("one size is plotted")
	}
	if lines := Plot("", curves(3, true), label); len(lines) == 0 {
		t.Error("no plot of a ring of one")
	}
}
