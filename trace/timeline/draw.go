package timeline

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fatih/color"

	"ringcli/trace"
)

// Widths in columns.
const (
	defaultWidth = 80
	leastWidth   = 64 // of the tables
	labelWidth   = 16 // "rank 1000 reduce"
)

// Draw draws the timeline in at most width columns (0: 80; at least 64): up to four
// rows a rank, with a time axis in us, a legend and what each step took.
// Without colour it is plain ASCII.
func (t *Operation) Draw(w io.Writer, width int, colored bool) error {
	width = max(cmp.Or(width, defaultWidth), leastWidth)
	d := drawing{t: t, width: width, columns: width - labelWidth - 2, colored: colored, lanes: seen(t.Ranks)}
	d.wrapped(t.title())
	d.line("")
	d.axis()
	for i := range t.Ranks {
		d.rank(&t.Ranks[i])
	}
	d.axis()
	d.line("")
	d.legend()
	d.line("")
	d.stepTable()
	d.line("")
	d.rankTable()
	_, err := w.Write(d.out.Bytes())
	return err
}

type drawing struct {
	t       *Operation
	width   int
	columns int // of the timeline
	colored bool
	lanes   []lane
	out     bytes.Buffer
}

func (d *drawing) line(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	d.out.WriteString(strings.TrimRight(text, " ") + "\n")
}

// wrapped breaks a sentence at blanks.
func (d *drawing) wrapped(text string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && visible(line)+1+visible(word) > d.width {
			d.line("%s", line)
			line = " "
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	d.line("%s", line)
}

// escape is what paint puts before and behind a text.
var escape = regexp.MustCompile("\x1b\\[[0-9;]*m")

// visible is how many columns a text takes, which is ASCII but for its colour.
func visible(text string) int { return len(escape.ReplaceAllString(text, "")) }

// mark is a symbol of the timeline and its colour.
type mark struct {
	symbol byte
	color  color.Attribute
}

const plainColor = color.Reset

// The marks: full for columns that are taken for at least a half of their
// time, light for less.
var (
	sendMarks    = [2]mark{{'-', color.FgYellow}, {'>', color.FgYellow}}
	receiveMarks = [2]mark{{'-', color.FgMagenta}, {'<', color.FgMagenta}}
	reduceMarks  = [2]mark{{'+', color.FgBlue}, {'#', color.FgBlue}}
	outside      = mark{' ', plainColor}
	idle         = mark{'.', plainColor}
)

func stepMark(s *StepSpan) mark {
	if s.Phase == phaseNames[0] || s.Phase == "reduce" {
		return mark{byte('0' + s.Step%10), color.FgCyan}
	}
	return mark{byte('a' + s.Step%26), color.FgGreen}
}

// span is the time of a column.
func (d *drawing) span(column int) Interval {
	width := float64(max(d.t.Duration, 1)) / float64(d.columns)
	return Interval{int64(float64(column) * width), int64(float64(column+1) * width)}
}

// column is where a time stands, 0 to d.columns.
func (d *drawing) column(at int64) float64 {
	return float64(at) / float64(max(d.t.Duration, 1)) * float64(d.columns)
}

// columnsOf is the first column of an interval and the one behind its last. An
// interval has at least one.
func (d *drawing) columnsOf(part Interval) (first, behind int) {
	first = min(max(int(d.column(part.Start)), 0), d.columns-1)
	behind = int(math.Ceil(d.column(part.End)))
	return first, min(max(behind, first+1), d.columns)
}

// lane is a row of each rank.
type lane struct {
	name  string
	of    func(*Rank) []Interval
	marks [2]mark
	says  string // in the legend, behind its mark
}

var allLanes = []lane{
	{"out", func(r *Rank) []Interval { return r.Sends }, sendMarks, "a segment is sent"},
	{"in", func(r *Rank) []Interval { return r.Receives }, receiveMarks, "one is received"},
	{"reduce", func(r *Rank) []Interval { return r.Reduces }, reduceMarks, "reduced or copied"},
}

// seen are the lanes in which some rank has something: ranks that share memory send
// and receive nothing.
func seen(ranks []Rank) []lane {
	return slices.DeleteFunc(slices.Clone(allLanes), func(l lane) bool {
		return !slices.ContainsFunc(ranks, func(r Rank) bool { return len(l.of(&r)) > 0 })
	})
}

func (d *drawing) rank(r *Rank) {
	name := fmt.Sprintf("rank %d", r.Rank)
	d.row(name, "steps", d.steps(r))
	for _, l := range d.lanes {
		d.row("", l.name, d.bars(r, l.of(r), l.marks))
	}
}

// empty is a row in which the operation is under way and nothing happens.
func (d *drawing) empty(r *Rank) []mark {
	first, behind := d.columnsOf(Interval{r.Start, r.End})
	return slices.Concat(slices.Repeat([]mark{outside}, first), slices.Repeat([]mark{idle}, behind-first),
		slices.Repeat([]mark{outside}, d.columns-behind))
}

// steps gives each column to the step that takes most of it.
func (d *drawing) steps(r *Rank) []mark {
	row := d.empty(r)
	most := make([]int64, d.columns)
	for i := range r.Steps {
		s := &r.Steps[i]
		first, behind := d.columnsOf(s.Interval)
		for c := first; c < behind; c++ {
			column := d.span(c)
			if part := min(s.End, column.End) - max(s.Start, column.Start); part >= most[c] {
				most[c], row[c] = part, stepMark(s)
			}
		}
	}
	return row
}

// bars shows when at least one of the intervals is under way.
func (d *drawing) bars(r *Rank, list []Interval, marks [2]mark) []mark {
	row := d.empty(r)
	taken := make([]int64, d.columns)
	reached := int64(0) // what is covered already; the list is in order
	for _, part := range list {
		first, behind := d.columnsOf(part)
		for c := first; c < behind; c++ {
			column := d.span(c)
			taken[c] += max(min(part.End, column.End)-max(part.Start, column.Start, reached), 0)
			row[c] = marks[0]
			if 2*taken[c] >= column.End-column.Start {
				row[c] = marks[1]
			}
		}
		reached = max(reached, part.End)
	}
	return row
}

func (d *drawing) row(rank, lane string, row []mark) {
	var b strings.Builder
	for i := 0; i < len(row); {
		end := i
		for end < len(row) && row[end].color == row[i].color {
			end++
		}
		text := make([]byte, 0, end-i)
		for _, m := range row[i:end] {
			text = append(text, m.symbol)
		}
		b.WriteString(d.paint(string(text), row[i].color))
		i = end
	}
	d.line("%-*s%6s |%s|", labelWidth-7, rank, lane, b.String())
}

func (d *drawing) paint(text string, attribute color.Attribute) string {
	if !d.colored || attribute == plainColor {
		return text
	}
	return trace.Color(attribute).Sprint(text)
}

// axis writes round times above their columns.
func (d *drawing) axis() {
	row := []byte(strings.Repeat(" ", d.columns+2))
	step := roundStep(max(d.t.Duration, 1), max(d.columns/8, 2))
	free := 0
	for at := int64(0); at <= d.t.Duration; at += step {
		column := 1 + int(d.column(at))
		text := "|" + trimmedUS(at)
		if column >= free && column+len(text) <= len(row) {
			copy(row[column:], text)
			free = column + len(text) + 1
		}
	}
	d.line("%*s%s", labelWidth, "us ", string(row))
}

// roundStep is the least of 1, 2, 5, 10, 20... ns that makes at most ticks of
// the duration.
func roundStep(duration int64, ticks int) int64 {
	for decade := int64(1); ; decade *= 10 {
		for _, m := range []int64{1, 2, 5} {
			if step := m * decade; duration/step <= int64(ticks) {
				return step
			}
		}
	}
}

func (d *drawing) legend() {
	text := fmt.Sprintf("steps %s reduce-scatter, %s all-gather; ", d.paint("0-9", color.FgCyan), d.paint("a-z", color.FgGreen))
	for _, l := range d.lanes {
		text += fmt.Sprintf("%s %s %s; ", l.name, d.paint(string(l.marks[1].symbol), l.marks[1].color), l.says)
	}
	d.wrapped(text + "- + less than half of the column; . nothing")
}

// stepTable has a column for each rank if they fit, and else the spread.
func (d *drawing) stepTable() {
	if len(d.t.Steps) == 0 {
		return
	}
	for _, each := range []bool{true, false} {
		rows := [][]string{{"step, us"}}
		for i := range d.t.Ranks {
			if each {
				rows[0] = append(rows[0], fmt.Sprintf("rank %d", d.t.Ranks[i].Rank))
			}
		}
		if !each {
			rows[0] = append(rows[0], "fastest", "slowest")
		}
		rows[0] = append(rows[0], "slowest")
		for _, s := range d.t.Steps {
			durations := s.Durations
			if !each {
				durations = []int64{slices.Min(durations), slices.Max(durations)}
			}
			row := []string{fmt.Sprintf("%s %d", s.Phase, s.Step)}
			for _, duration := range durations {
				row = append(row, usText(duration))
			}
			slowest := "-"
			if s.Slowest >= 0 {
				slowest = fmt.Sprintf("rank %d", s.Slowest)
			}
			rows = append(rows, append(row, slowest))
		}
		if d.table(rows, d.width) {
			return
		}
	}
}

// table writes rows whose first column is flush left, as the last is, with two
// blanks between columns at least. It writes nothing if they do not fit.
func (d *drawing) table(rows [][]string, width int) bool {
	last := len(rows[0]) - 1
	widths := make([]int, last+1)
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	for i := 1; i < last; i++ {
		widths[i] = max(widths[i], 7) // so that tables of small numbers look alike
	}
	total := 2 * last
	for _, w := range widths {
		total += w
	}
	if total > width {
		return false
	}
	for _, row := range rows {
		text := fmt.Sprintf("%-*s", widths[0], row[0])
		for i := 1; i < last; i++ {
			text += fmt.Sprintf("  %*s", widths[i], row[i])
		}
		d.line("%s  %s", text, row[last])
	}
	return true
}

// rankTable says for each rank how it spent the operation.
func (d *drawing) rankTable() {
	rows := [][]string{{"rank, us", "begins", "ends", "reduces", "waits", "share", ""}}
	for i := range d.t.Ranks {
		r := &d.t.Ranks[i]
		note := ""
		if r.Rank == d.t.Slowest {
			note = "slowest"
		}
		rows = append(rows, []string{strconv.Itoa(r.Rank), usText(r.Start), usText(r.End), usText(r.Reducing), usText(r.Waiting), fmt.Sprintf("%.1f%%", 100*r.WaitingShare), note})
	}
	d.table(rows, math.MaxInt)
	text := "Of what the ranks did in it nothing is recorded."
	if slices.ContainsFunc(d.t.Ranks, func(r Rank) bool { return r.Waiting < r.End-r.Start }) {
		text = "A rank waits while it neither reduces nor copies, and has no segment of its own under way."
	}
	if d.t.Slowest >= 0 {
		text += " The slowest waits least, until the last has ended: the others wait for it."
	}
	d.wrapped(text)
}

// usText is a time in us with one decimal.
func usText(ns int64) string { return strconv.FormatFloat(float64(ns)/1e3, 'f', 1, 64) }

// trimmedUS is a time in us with the decimals that it needs.
func trimmedUS(ns int64) string { return strconv.FormatFloat(float64(ns)/1e3, 'f', -1, 64) }

func sizeText(bytes uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	value, unit := float64(bytes), 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return strings.TrimSuffix(strconv.FormatFloat(value, 'f', 1, 64), ".0") + " " + units[unit]
}
