//go:build linux

package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"github.com/guptarohit/asciigraph"

	"ringcli/collective"
	"ringcli/configs"
	"ringcli/configs/chart"
)

const (
	plotHeight = 14
	plotWidth  = 90
	// plotMargin is what stands left of the curves: a label of six characters and
	// the blanks and the axis that asciigraph puts around it.
	plotMargin = 9
)

// plotMarks draw the curves, one for each of contenders: a contender's is always the
// same.
var plotMarks = []string{"M", "c", "r", "d", "h", "s", "H", "●", "○", "◌", "T", "D", "R", "A", "S", "_", ".", "■", "□", "▪", "▫"}

// all are the contenders of an operation that were measured, in their order.
func (r *Results) all(op collective.Operation, ranks int) []contender {
	var list []contender
	present := r.present(op, ranks, rolePeer, roleOurs, roleTCP, roleSoft, roleLimit, roleBaseline)
	for _, who := range contenders {
		for _, p := range present {
			if p.name == who.name {
				list = append(list, who)
			}
		}
	}
	return list
}

// plot draws time against size, both logarithmic, for a terminal. There is none for a
// single size.
func (r *Results) plot(op collective.Operation, ranks int) []string {
	var cells []*cellResults
	for _, c := range r.cells {
		if c.op == op && c.ranks == ranks {
			cells = append(cells, c)
		}
	}
	shown := r.all(op, ranks)
	if len(cells) < 2 || len(shown) == 0 {
		return nil
	}
	curves := make([][]float64, len(shown))
	marks, legend := make([]asciigraph.CharSet, len(shown)), make([]string, len(shown))
	for i, who := range shown {
		for _, c := range cells {
			v := math.NaN() // asciigraph leaves a gap
			if m := c.of[who.name].median(); m > 0 {
				v = math.Log10(m)
			}
			curves[i] = append(curves[i], v)
		}
		mark := markOf(who)
		marks[i], legend[i] = asciigraph.CreateCharSet(mark), mark+" "+who.name
	}
	text := asciigraph.PlotMany(curves, asciigraph.Height(plotHeight), asciigraph.Width(plotWidth), asciigraph.SeriesChars(marks...),
		asciigraph.YAxisValueFormatter(func(v float64) string { return fmt.Sprintf("%6s", figure(math.Pow(10, v))) }))
	lines := append([]string{"us by size:  " + strings.Join(legend, "  ")}, strings.Split(text, "\n")...)
	labels := []rune(strings.Repeat(" ", plotMargin+plotWidth+8))
	for i, c := range cells {
		copy(labels[plotMargin+i*(plotWidth-1)/(len(cells)-1):], []rune(configs.FormatSize(c.bytes)))
	}
	return append(lines, strings.TrimRight(string(labels), " "))
}

func markOf(who contender) string {
	for i, c := range append(fielded(who.hosts), baselines("")...) {
		if c.name == who.name {
			return plotMarks[i]
		}
	}
	return "?"
}

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.Must(template.New("page").Funcs(template.FuncMap{
	"figure": figure, "size": configs.FormatSize,
}).Parse(chart.Text)).Parse(pageText))

// pagePart is what a page has of one operation and one number of ranks.
type pagePart struct {
	Chart chart.Chart
	Head  []string
	Rows  [][]string
}

// page writes the curves, the ratios and where they were measured as one HTML file.
func (r *Results) page(w io.Writer) error {
	var parts []pagePart
	ratios := r.ratios()
	fielded := fielded(r.options.hosts > 0)
	if r.options.baseline != "" {
		fielded = append(fielded, baselines("")...)
	}
	for _, n := range r.options.rankNumbers {
		for _, op := range r.options.operations {
			part := pagePart{Head: []string{"size"}}
			var curves []chart.Curve
			// Every contender has its place and so its colour, here or not.
			for _, who := range fielded {
				curve := chart.Curve{Name: who.name}
				for _, c := range r.cells {
					if m := c.of[who.name].median(); c.op == op && c.ranks == n && m > 0 {
						curve.Points = append(curve.Points, chart.Point{Bytes: c.bytes, Value: m, Text: figure(m) + " us"})
					}
				}
				curves = append(curves, curve)
			}
			part.Chart = chart.New(fmt.Sprintf("%s on %d ranks: time (us) by size", op, n), "time (us)", curves)
			shown := r.all(op, n)
			for _, who := range shown {
				part.Head = append(part.Head, who.name)
			}
			for _, c := range r.cells {
				if c.op != op || c.ranks != n {
					continue
				}
				row := []string{configs.FormatSize(c.bytes)}
				for _, who := range shown {
					text := figure(c.of[who.name].median())
					for _, ratio := range ratios {
						if ratio.Operation == op.String() && ratio.Ranks == n && ratio.Bytes == c.bytes && ratio.Contender == who.name {
							text += fmt.Sprintf(" (%s)", figure(ratio.Spread.Median))
						}
					}
					row = append(row, text)
				}
				part.Rows = append(part.Rows, row)
			}
			parts = append(parts, part)
		}
	}
	return pageTemplate.Execute(w, struct {
		*Results
		Names []string
		Parts []pagePart
	}{r, names(fielded), parts})
}
