package cli

import (
	"fmt"
	"math"
	"strings"

	"ringcli/configs"
)

// The size of a chart and of its margins, in the units of its view box.
const (
	chartWidth, chartHeight         = 720, 380
	chartLeft, chartRight           = 64, 16
	chartTop, chartBottom           = 16, 40
	chartInnerWidth                 = chartWidth - chartLeft - chartRight
	chartInnerHeight                = chartHeight - chartTop - chartBottom
	chartMostLabels                 = 12 // on the axis of sizes
	chartX1, chartY1                = chartWidth - chartRight, chartHeight - chartBottom
	chartLabelBelow, chartLabelLeft = 18, 8
)

// chart is a drawing with logarithmic axes, in coordinates that a template only
// has to write down.
type chart struct {
	Title          string
	Width, Height  int
	X0, Y0, X1, Y1 int
	XTicks, YTicks []tick
	Lines          []line
}

type tick struct {
	At      string // the coordinate
	LabelAt string
	Label   string
}

type line struct {
	Name   string
	Points string // of an SVG polyline
	Dots   []dot
}

type dot struct{ X, Y, Text string }

// newChart draws one figure of all series. What is not above zero has no place
// on a logarithmic axis and is left out.
func newChart(title string, list []series, figureOf func(point) float64) chart {
	c := chart{Title: title, Width: chartWidth, Height: chartHeight, X0: chartLeft, Y0: chartTop, X1: chartX1, Y1: chartY1}
	x, y := newAxis(chartLeft, chartX1), newAxis(chartY1, chartTop)
	var sizes []uint64
	for _, s := range list {
		for _, p := range s.Points {
			if v := figureOf(p); v > 0 && p.Bytes > 0 {
				x.include(float64(p.Bytes))
				y.include(v)
			}
		}
		if len(s.Points) > len(sizes) {
			sizes = sizes[:0]
			for _, p := range s.Points {
				sizes = append(sizes, p.Bytes)
			}
		}
	}
	if x.empty() {
		return c
	}
	y.widen()
	step := (len(sizes) + chartMostLabels - 1) / chartMostLabels
	for i := 0; i < len(sizes); i += step {
		if sizes[i] > 0 {
			at := x.at(float64(sizes[i]))
			c.XTicks = append(c.XTicks, tick{at, coordinate(chartY1 + chartLabelBelow), configs.FormatSize(sizes[i])})
		}
	}
	for decade := math.Floor(y.low); decade <= y.high; decade++ {
		if v := math.Pow(10, decade); decade >= y.low {
			c.YTicks = append(c.YTicks, tick{y.at(v), coordinate(chartLeft - chartLabelLeft), fmt.Sprintf("%g", v)})
		}
	}
	for _, s := range list {
		l := line{Name: s.Name}
		var points strings.Builder
		for _, p := range s.Points {
			v := figureOf(p)
			if v <= 0 || p.Bytes == 0 {
				continue
			}
			d := dot{x.at(float64(p.Bytes)), y.at(v), fmt.Sprintf("%s, %s: %s", s.Name, configs.FormatSize(p.Bytes), figure(v))}
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

func (a *axis) empty() bool { return a.low > a.high }

// widen makes room so that no curve lies on the frame, and that at least one
// power of ten is in sight.
func (a *axis) widen() {
	a.low, a.high = a.low-0.1, a.high+0.1
	if math.Floor(a.high) < a.low {
		a.low = math.Floor(a.high)
	}
}

func (a *axis) at(v float64) string {
	if a.high == a.low {
		return coordinate((a.from + a.to) / 2)
	}
	return coordinate(a.from + (a.to-a.from)*(math.Log10(v)-a.low)/(a.high-a.low))
}

func coordinate(v float64) string { return fmt.Sprintf("%.1f", v) }
