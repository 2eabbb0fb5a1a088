package render

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"ringcli/trace"
)

// Width returns how many columns a stream's terminal has; 0 if it is none.
func Width(stream any) int {
	return trace.TerminalColumns(stream)
}

func (p *Printer) printTable(records []Record) error {
	head, _ := Row(records[0])
	title := make([]Cell, len(head))
	for i, c := range head {
		title[i] = Cell{c.Name, Faint}
		head[i].Width = max(c.Width, utf8.RuneCountInString(c.Name))
	}
	var rows [][]Cell
	fresh := !slices.EqualFunc(head, p.head, func(a, b Column) bool { return a.Name == b.Name })
	if fresh {
		rows = append(rows, title)
	}
	for _, r := range records {
		_, row := Row(r)
		rows = append(rows, row)
	}
	for _, row := range rows {
		for i, c := range row {
			head[i].Width = max(head[i].Width, utf8.RuneCountInString(c.Text))
		}
	}
	var b strings.Builder
	if fresh && p.head != nil {
		p.over = ""
		b.WriteByte('\n')
	}
	width := p.width()
	narrow(head, width)
	fold := foldLast(head, rows, width)
	for _, row := range rows {
		p.appendRow(&b, head, row, fold)
	}
	p.head = head
	_, err := io.WriteString(p.w, b.String())
	return err
}

// narrow caps columns of names and texts but the last, the widest first, until
// the table has room. A cell that is wider than its column ends its line, and the
// rest of the row goes on below, under its own columns.
func narrow(head []Column, width int) {
	if width == 0 {
		return
	}
	total := 0
	for _, c := range head {
		total += c.Width + 1
	}
	last := len(head) - 1
	if head[last].Left { // it is folded
		if total -= head[last].Width + 1; total-1 <= width {
			return
		}
		total += min(head[last].Width, foldLeast) + 1
	}
	for total-1 > width {
		widest := -1
		for i, c := range head[:last] {
			if c.Left && c.Width > foldLeast && (widest < 0 || c.Width > head[widest].Width) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		cut := min(total-1-width, head[widest].Width-foldLeast)
		head[widest].Width -= cut
		total -= cut
	}
}

// appendRow pads before it paints, since escape sequences have no width, and
// leaves no blanks at the end of a line.
func (p *Printer) appendRow(b *strings.Builder, head []Column, row []Cell, fold fold) {
	var line strings.Builder
	var below []string
	end := func() {
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
		line.Reset()
	}
	at, start := 0, 0 // where the line is, and where the column begins
	for i, c := range row {
		text := c.Text
		if i == len(row)-1 {
			text, below = fold.split(text)
		}
		if at > start && text != "" {
			end()
			line.WriteString(strings.Repeat(" ", start))
			at = start
		}
		n := utf8.RuneCountInString(text)
		pad := strings.Repeat(" ", max(0, head[i].Width-n))
		if head[i].Left {
			line.WriteString(p.paint(c.Mood, text) + pad + " ")
		} else {
			line.WriteString(pad + p.paint(c.Mood, text) + " ")
		}
		if at <= start {
			at = start + max(head[i].Width, n) + 1
		}
		start += head[i].Width + 1
	}
	end()
	for _, text := range below {
		b.WriteString(strings.Repeat(" ", fold.indent) + p.paint(row[len(row)-1].Mood, text) + "\n")
	}
}

// fold is how the last column of a table, if it holds names or text, is broken
// into lines on a terminal that is too narrow for it. Nothing is cut off, and no
// word is broken but after a comma: a GID or a path can still be copied.
type fold struct {
	beside int // columns that the cell has in its row; 0: it is not broken
	below  int // columns that it has in the lines below
	indent int // of the lines below
}

const (
	// foldLeast is the narrowest column that text is still read in.
	foldLeast = 16
	// foldIndent is that of a cell that has lines of its own.
	foldIndent = 4
)

func foldLast(head []Column, rows [][]Cell, width int) fold {
	last, start := len(head)-1, 0
	for _, c := range head[:last] {
		start += c.Width + 1
	}
	if width == 0 || start+head[last].Width <= width || !head[last].Left {
		return fold{}
	}
	longest := foldLeast
	for _, row := range rows {
		for _, w := range wordsOf(row[last].Text) {
			longest = max(longest, utf8.RuneCountInString(w.text))
		}
	}
	beside := max(width-start, 1)
	if longest <= beside {
		return fold{beside: beside, below: beside, indent: start}
	}
	// Below its row the cell has the whole width.
	return fold{beside: beside, below: max(longest, width-foldIndent), indent: foldIndent}
}

// split returns what stands in the row itself and the lines below it.
func (f fold) split(text string) (first string, below []string) {
	if f.beside == 0 || utf8.RuneCountInString(text) <= f.beside {
		return text, nil
	}
	line, used := "", 0
	for _, w := range wordsOf(text) {
		n, between := utf8.RuneCountInString(w.text), " "
		if w.glued {
			between = ""
		}
		switch {
		case used == 0:
			line, used = w.text, n
		case used+len(between)+n > f.below:
			below = append(below, line)
			line, used = w.text, n
		default:
			line, used = line+between+w.text, used+len(between)+n
		}
	}
	below = append(below, line)
	if f.below == f.beside {
		return below[0], below[1:]
	}
	return "", below
}

// word is a part of a text that is not broken; glued to the one before it if no
// blank stands between them.
type word struct {
	text  string
	glued bool
}

func wordsOf(text string) []word {
	var words []word
	for field := range strings.FieldsSeq(text) {
		glued := false
		for part := range strings.SplitAfterSeq(field, ",") {
			if part != "" {
				words = append(words, word{part, glued})
				glued = true
			}
		}
	}
	return words
}
