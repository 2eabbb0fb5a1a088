package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/guptarohit/asciigraph"

	"ringcli/cli/render"
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

// plotOf plots busbw against size, whose axis has the same distance from each
// size to the next. There is none for a single size.
func plotOf(rows []CompareRow) []string {
	if len(rows) < 2 {
		return nil
	}
	curves := make([][]float64, len(rows[0].Each))
	marks, legend := make([]asciigraph.CharSet, len(curves)), make([]string, len(curves))
	for i := range rows[0].Each {
		for _, r := range rows {
			curves[i] = append(curves[i], r.Each[i].BusBW)
		}
		mark := plotMarks[i%len(plotMarks)]
		marks[i], legend[i] = asciigraph.CreateCharSet(mark), mark+" "+rows[0].Ways.label(rows[0].Ways[i])
	}
	text := asciigraph.PlotMany(curves, asciigraph.Height(plotHeight), asciigraph.Width(plotWidth), asciigraph.LowerBound(0),
		asciigraph.SeriesChars(marks...), asciigraph.YAxisValueFormatter(func(v float64) string { return fmt.Sprintf("%6s", render.Figure(v)) }))
	lines := append([]string{"busbw in GB/s by size:   " + strings.Join(legend, "   ")}, strings.Split(text, "\n")...)
	ticks, labels := sizeAxis(rows)
	return append(lines, ticks, labels)
}

// sizeAxis draws the lower axis: a tick for each size, and a label where there is
// room for one.
func sizeAxis(rows []CompareRow) (ticks, labels string) {
	axis, text := []rune(strings.Repeat("─", plotWidth)), []rune(strings.Repeat(" ", plotWidth+plotMargin))
	free := 0 // the first place where a label can stand
	put := func(label string, at int) {
		n := utf8.RuneCountInString(label)
		start := min(max(at-n/2, 0), len(text)-n)
		if start >= free {
			copy(text[start:], []rune(label))
			free = start + n + 1
		}
	}
	for i, r := range rows {
		at := i * (plotWidth - 1) / (len(rows) - 1)
		axis[at] = '┬'
		put(configs.FormatSize(r.Each[0].Bytes), plotMargin+at)
	}
	return strings.Repeat(" ", plotMargin-1) + "└" + string(axis), strings.TrimRight(string(text), " ")
}
