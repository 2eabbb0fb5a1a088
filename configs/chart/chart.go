// Package chart draws curves with logarithmic axes into pages that are one HTML file and need
// nothing else.
package chart

import (
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"strings"

	"ringcli/configs"
)

// The size of a chart and of its margins, in the units of its view box.
const (
	width, height         = 720, 400
	left, right           = 88, 24
	top, bottom           = 16, 60
	mostLabels            = 10 // on the axis of sizes
	x1, y1                = width - right, height - bottom
	labelBelow, labelLeft = 20, 8
	namesAt               = 18 // the axes' names from the edge
	fewDecades            = 3  // so few need lines between
)

// Text defines templates of html/template: "head", which begins a page with its Title, "style",
// which is in it, and "chart", which draws a Chart. The colour of what has the class s0, s1 and
// so on, a curve or a legend, is var(--c): there are twelve, six colours with lines and six
// with dashes.
//
//go:embed chart.html
var Text string

// Curve is one line of a chart.
type Curve struct {
	Name   string
	Points []Point
}

// Point is a value at a size in bytes. Text is what is said of it.
type Point struct {
	Bytes uint64
	Value float64
	Text  string
}

// Chart is a drawing with logarithmic axes, in coordinates that a template only
// has to write down.
type Chart struct {
	Title          string
	X, Y           string // what the axes are of
	XAt, YAt       Dot    // where that stands
	Width, Height  int
	X0, Y0, X1, Y1 int // of the frame
	XTicks, YTicks []Tick
	Lines          []Line
}

// Tick is a line across a chart.
type Tick struct {
	At      string // the coordinate
	LabelAt string
	Label   string
	Thin    bool // its label is the first to go where there is little room
}

// Line is a curve as it is drawn. A curve without points has an empty one, so that the
// others keep their colours.
type Line struct {
	Name   string
	Points string // of an SVG polyline
	Dots   []Dot
}

// Dot is a point of a Line.
type Dot struct{ X, Y, Text string }

// New draws curves of what y says against the size. What is not above zero has no place
// on a logarithmic axis and is left out.
func New(title, y string, list []Curve) Chart {
	c := Chart{Title: title, X: "size (bytes)", Y: y, Width: width, Height: height, X0: left, Y0: top, X1: x1, Y1: y1}
	c.XAt, c.YAt = Dot{X: coordinate((left + x1) / 2), Y: coordinate(height - namesAt/2)}, Dot{X: coordinate(namesAt), Y: coordinate((top + y1) / 2)}
	across, up := newAxis(left, x1), newAxis(y1, top)
	var sizes []uint64
	for _, s := range list {
		for _, p := range s.Points {
			if v := p.Value; v > 0 && p.Bytes > 0 {
				across.include(float64(p.Bytes))
				up.include(v)
			}
		}
		if len(s.Points) > len(sizes) {
			sizes = sizes[:0]
			for _, p := range s.Points {
				sizes = append(sizes, p.Bytes)
			}
		}
	}
	if across.low > across.high { // there is nothing
		return c
	}
	// No curve lies on the frame, and at least one power of ten is in sight.
	up.low, up.high = up.low-0.1, up.high+0.1
	up.low = min(up.low, math.Floor(up.high))
	step := (len(sizes) + mostLabels - 1) / mostLabels
	for i := 0; i < len(sizes); i += step {
		if sizes[i] > 0 {
			at := across.at(float64(sizes[i]))
			c.XTicks = append(c.XTicks, Tick{at, coordinate(y1 + labelBelow), configs.FormatSize(sizes[i]), len(c.XTicks)%2 == 1})
		}
	}
	steps := []float64{1}
	if up.high-up.low < fewDecades {
		steps = []float64{1, 2, 5}
	}
	for decade := math.Floor(up.low); decade <= up.high; decade++ {
		for _, step := range steps {
			if v := step * math.Pow(10, decade); math.Log10(v) >= up.low && math.Log10(v) <= up.high {
				c.YTicks = append(c.YTicks, Tick{up.at(v), coordinate(left - labelLeft), strconv.FormatFloat(v, 'g', 6, 64), false})
			}
		}
	}
	for _, s := range list {
		l := Line{Name: s.Name}
		var points strings.Builder
		for _, p := range s.Points {
			v := p.Value
			if v <= 0 || p.Bytes == 0 {
				continue
			}
			d := Dot{across.at(float64(p.Bytes)), up.at(v), fmt.Sprintf("%s, %s: %s", s.Name, configs.FormatSize(p.Bytes), p.Text)}
			fmt.Fprintf(&points, "%s,%s ", d.X, d.Y)
			l.Dots = append(l.Dots, d)
		}
		l.Points = strings.TrimSuffix(points.String(), " ")
		c.Lines = append(c.Lines, l)
	}
	return c
}

// axis maps a logarithm onto a coordinate.
type axis struct {
	from, to  float64 // coordinates
	low, high float64 // powers of ten
}

func newAxis(from, to float64) *axis { return &axis{from, to, math.Inf(1), math.Inf(-1)} }

func (a *axis) include(v float64) {
	a.low, a.high = min(a.low, math.Log10(v)), max(a.high, math.Log10(v))
}

func (a *axis) at(v float64) string {
	if a.high == a.low {
		return coordinate((a.from + a.to) / 2)
	}
	return coordinate(a.from + (a.to-a.from)*(math.Log10(v)-a.low)/(a.high-a.low))
}

func coordinate(v float64) string { return fmt.Sprintf("%.1f", v) }
