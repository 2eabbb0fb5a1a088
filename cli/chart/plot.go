package chart

import (
	"fmt"
	"strings"

	"github.com/guptarohit/asciigraph"

	"ringcli/configs"
)

const (
	plotHeight = 12
	// plotMargin is what stands left of the curves: a label of six characters and
	// the blanks and the axis that asciigraph puts around it.
	plotMargin = 9
	// plotWidth leaves room for the margin and a note's "# " in 80 columns.
	plotWidth = 80 - 2 - plotMargin
)

// plotMarks draw the curves, one each. They differ without colour, too.
var plotMarks = []string{"•", "o", "+", "x", "*", "#", "@", "%"}

// Plot draws curves for a terminal, below a title, against sizes at equal distances.
// All have the same sizes. label writes a value, in six characters. There is no plot
// of a single size.
func Plot(title string, list []Curve, label func(float64) string) []string {
	if len(list[0].Points) < 2 {
		return nil
	}
	curves := make([][]float64, len(list))
	marks, legend := make([]asciigraph.CharSet, len(list)), make([]string, len(list))
	for i, c := range list {
		for _, p := range c.Points {
			curves[i] = append(curves[i], p.Value)
		}
		mark := plotMarks[i%len(plotMarks)]
		marks[i], legend[i] = asciigraph.CreateCharSet(mark), mark+" "+c.Name
	}
	text := asciigraph.PlotMany(curves, asciigraph.Height(plotHeight), asciigraph.Width(plotWidth), asciigraph.LowerBound(0),
		asciigraph.SeriesChars(marks...), asciigraph.YAxisValueFormatter(func(v float64) string { return fmt.Sprintf("%6s", label(v)) }))
	lines := append([]string{title + ":   " + strings.Join(legend, "   ")}, strings.Split(text, "\n")...)
	ticks, labels := sizeAxis(list[0].Points)
	return append(lines, ticks, labels)
}

// sizeAxis draws the lower axis: a tick for each size, and a label where there is
// room for one.
func sizeAxis(points []Point) (ticks, labels string) {
	axis, text := []rune(strings.Repeat("─", plotWidth)), []rune(strings.Repeat(" ", plotWidth+plotMargin))
	free := 0 // where the next label can begin
	for i, p := range points {
		at := i * (plotWidth - 1) / (len(points) - 1)
		axis[at] = '┬'
		label := []rune(configs.FormatSize(p.Bytes))
		if start := min(max(plotMargin+at-len(label)/2, 0), len(text)-len(label)); start >= free {
			copy(text[start:], label)
			free = start + len(label) + 1
		}
	}
	return strings.Repeat(" ", plotMargin-1) + "└" + string(axis), strings.TrimRight(string(text), " ")
}
