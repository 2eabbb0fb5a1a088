package chart

import (
	"html/template"
	"strconv"
	"strings"
	"testing"
)

func TestChart(t *testing.T) {
	c := New("time by size", []Curve{
		{"<a>", []Point{{8, 1, "one"}, {1 << 20, 250, "many"}}},
		{"nothing", []Point{{8, 0, ""}, {0, 3, ""}}},
		{"b", []Point{{8, 0.02, ""}, {1 << 20, 1e6, ""}}},
	})
	if len(c.Lines) != 3 || len(c.Lines[0].Dots) != 2 || len(c.Lines[1].Dots) != 0 || len(c.XTicks) != 2 || len(c.YTicks) != 8 {
		t.Fatalf("%+v", c)
	}
	if c.Lines[0].Dots[0].Text != "<a>, 8: one" || c.XTicks[1].Label != "1M" {
		t.Errorf("%+v", c)
	}
	for _, l := range c.Lines {
		for _, d := range l.Dots {
			x, errX := strconv.ParseFloat(d.X, 64)
			y, errY := strconv.ParseFloat(d.Y, 64)
			if errX != nil || errY != nil || x < float64(c.X0) || x > float64(c.X1) || y <= float64(c.Y0) || y >= float64(c.Y1) {
				t.Errorf("outside of the frame: %+v", d)
			}
		}
	}
	var out strings.Builder
	page := template.Must(template.Must(template.New("").Parse(Text)).Parse(`<style>{{template "style"}}</style>{{template "chart" .}}`))
	if err := page.Execute(&out, c); err != nil {
		t.Fatal(err)
	}
	for what, n := range map[string]int{"<polyline": 3, "<circle": 4, "<a>": 0, "&lt;a&gt;, 8: one": 1, "</svg>": 1, ".s11 {": 1} {
		if got := strings.Count(out.String(), what); got != n {
			t.Errorf("%d of %s, want %d", got, what, n)
		}
	}
}

// Nothing has no axes, and a single point no extent.
func TestChartOfLittle(t *testing.T) {
	if c := New("", nil); len(c.Lines)+len(c.XTicks)+len(c.YTicks) != 0 {
		t.Errorf("%+v", c)
	}
	c := New("", []Curve{{"a", []Point{{8, 1, ""}}}})
	if d := c.Lines[0].Dots[0]; strings.Contains(d.X+d.Y, "NaN") || strings.Contains(d.X+d.Y, "Inf") {
		t.Errorf("%+v", d)
	}
}
