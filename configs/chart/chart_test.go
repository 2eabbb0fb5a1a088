package chart

import (
	"html/template"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestChart(t *testing.T) {
	c := New("time by size", "time (us)", []Curve{
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
	for what, n := range map[string]int{"<polyline": 3, "<circle": 4, "<a>": 0, "&lt;a&gt;, 8: one": 1, "</svg>": 1, ".s11 {": 1, ">size (bytes)</text>": 1, ">time (us)</text>": 1} {
		if got := strings.Count(out.String(), what); got != n {
			t.Errorf("%d of %s, want %d", got, what, n)
		}
	}
}

// The lines between powers of ten have round numbers, where the powers alone are few.
func TestTicks(t *testing.T) {
	for most, want := range map[float64]string{90: "1 2 5 10 20 50 100", 2e6: "1 10 100 1000 10000 100000 1e+06"} {
		var got []string
		for _, tick := range New("", "", []Curve{{"a", []Point{{8, 1.1, ""}, {16, most, ""}}}}).YTicks {
			got = append(got, tick.Label)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("up to %g: %v, want %s", most, got, want)
		}
	}
}

var colors = regexp.MustCompile(`--(back|c\d+): #([0-9a-f]+);`)

// Light and dark, each colour can be told from the others and from the background: by a
// distance of 40 in CIELAB, where 2.3 is what an eye notices, and by the contrast of 3 that
// WCAG asks of graphics. Of two curves of one colour one is dashed.
func TestColorsCanBeToldApart(t *testing.T) {
	light, dark, _ := strings.Cut(Text, "prefers-color-scheme: dark")
	for name, text := range map[string]string{"light": light, "dark": dark} {
		var back [3]float64
		var list [][3]float64
		for _, m := range colors.FindAllStringSubmatch(text, -1) {
			if c := parseColor(t, m[2]); m[1] == "back" {
				back = c
			} else {
				list = append(list, c)
			}
		}
		if len(list) != 6 {
			t.Fatalf("%s: %d colours, want 6", name, len(list))
		}
		for i, c := range list {
			y, b := luminance(c)+0.05, luminance(back)+0.05
			if contrast := max(y/b, b/y); contrast < 3 {
				t.Errorf("%s: the contrast of c%d is %.1f", name, i, contrast)
			}
			for j, other := range list[:i] {
				if d := distance(lab(c), lab(other)); d < 40 {
					t.Errorf("%s: c%d and c%d are %.0f apart", name, i, j, d)
				}
			}
		}
	}
	if !strings.Contains(Text, ".s6, .s7, .s8, .s9, .s10, .s11) polyline { stroke-dasharray") {
		t.Error("the second six are not dashed")
	}
}

// parseColor reads #rgb or #rrggbb as linear light.
func parseColor(t *testing.T, hex string) (c [3]float64) {
	t.Helper()
	for i := range c {
		digits := hex[i*len(hex)/3 : (i+1)*len(hex)/3]
		v, err := strconv.ParseUint(strings.Repeat(digits, 2)[:2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		if c[i] = float64(v) / 255; c[i] > 0.04045 {
			c[i] = math.Pow((c[i]+0.055)/1.055, 2.4)
		} else {
			c[i] /= 12.92
		}
	}
	return c
}

func luminance(c [3]float64) float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }

// lab is a colour in CIELAB (D65).
func lab(c [3]float64) [3]float64 {
	f := func(v float64) float64 {
		if v > 0.008856 {
			return math.Cbrt(v)
		}
		return 7.787*v + 16.0/116
	}
	x, y, z := f((0.4124*c[0]+0.3576*c[1]+0.1805*c[2])/0.95047), f(luminance(c)), f((0.0193*c[0]+0.1192*c[1]+0.9505*c[2])/1.08883)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

func distance(a, b [3]float64) float64 {
	return math.Sqrt((a[0]-b[0])*(a[0]-b[0]) + (a[1]-b[1])*(a[1]-b[1]) + (a[2]-b[2])*(a[2]-b[2]))
}

// Nothing has no axes, and a single point no extent.
func TestChartOfLittle(t *testing.T) {
	if c := New("", "", nil); len(c.Lines)+len(c.XTicks)+len(c.YTicks) != 0 {
		t.Errorf("%+v", c)
	}
	c := New("", "", []Curve{{"a", []Point{{8, 1, ""}}}})
	if d := c.Lines[0].Dots[0]; strings.Contains(d.X+d.Y, "NaN") || strings.Contains(d.X+d.Y, "Inf") {
		t.Errorf("%+v", d)
	}
}
