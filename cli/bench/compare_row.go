package bench

import (
	"fmt"
	"strings"

	"ringcli/cli/render"
	"ringcli/collective"
)

// CompareRow is one size in several variants, side by side. JSON and CSV see their
// Measurements.
type CompareRow struct {
	Variants Variants      // as they were asked for
	Each     []Measurement // of each
	Best     int           // the index of the fastest
	Auto     Variant       // what auto takes at this size
}

// Marks of a variant at a size.
const (
	markBest  = "*"
	markAuto  = "<"
	markWrong = "!"
)

// compareSpacious is up to how many variants have all of their columns in a line of 80
// characters; six have their time and their mark. Wrong elements are marked then,
// and counted below the table; JSON and --html have busbw.
const compareSpacious = 3

// Row implements render.Tabular: a variant's columns follow those of the one before.
func (r CompareRow) Row() ([]render.Column, []render.Cell) {
	fields := "Time.Mean=time|7"
	if len(r.Each) <= compareSpacious {
		fields += "; BusBW=busbw|6; Wrong=wrong|5|wrong"
	}
	head, row := render.Select(r.Each[0], "Bytes=size|8|size")
	for i, m := range r.Each {
		more, cells := render.Select(m, fields)
		var mark render.Cell
		if i == r.Best {
			mark = render.Cell{Text: markBest, Mood: render.Good}
		}
		if m.variant() == r.Auto {
			mark.Text += markAuto
		}
		for j := range cells[:min(2, len(cells))] { // time and busbw
			cells[j].Mood = mark.Mood
		}
		if len(cells) == 1 && !m.OK {
			mark = render.Cell{Text: markWrong, Mood: render.Bad}
		}
		head = append(append(head, more...), render.Column{Width: 2, Left: true})
		row = append(append(row, cells...), mark)
	}
	return head, row
}

// Parts implements render.Parts.
func (r CompareRow) Parts() []render.Record { return render.Records(r.Each) }

// width is that of one variant's columns, with the blank before them.
func (list Variants) width() int {
	if len(list) <= compareSpacious {
		return 1 + 7 + 1 + 6 + 1 + 5 + 1 + 2
	}
	return 1 + 7 + 1 + 2
}

// CompareHead are the lines above the columns that name the variants: one, or where
// the names do not fit, one of algorithms and one of protocols.
func CompareHead(list Variants) []string {
	width := list.width()
	line := func(name func(Variant) string) (text string, fits bool) {
		var b strings.Builder
		b.WriteString("       ") // the column of the sizes, less the note's own "# "
		fits = true
		for _, w := range list {
			short := name(w)
			if len(short) >= width {
				short = shortened.Replace(short)
			}
			fits = fits && len(short) < width
			fmt.Fprintf(&b, "%-*s", width, short)
		}
		return strings.TrimRight(b.String(), " "), fits
	}
	if text, fits := line(list.label); fits {
		return []string{text}
	}
	algorithms, _ := line(func(w Variant) string { return w.Algorithm.String() })
	protocols, _ := line(func(w Variant) string { return w.Protocol.String() })
	return []string{algorithms, protocols}
}

// shortened shortens names to others by which they are known, too.
var shortened = strings.NewReplacer(
	collective.AlgorithmRecursiveDoubling.String(), "doubling", collective.AlgorithmHierarchical.String(), "hier",
	collective.RendezvousWrite.String(), "rdv", collective.RendezvousRead.String(), "rdv-read", collective.ReceiverInitiated.String(), "recv-init",
)
