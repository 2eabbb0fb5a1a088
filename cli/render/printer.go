package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/fatih/color"

	"ringcli/trace"
)

// Format is how results are written.
type Format string

// The formats, as --output takes them.
const (
	Table Format = "table"
	JSON  Format = "json"
	CSV   Format = "csv"
	// NCCLTests is the text of nccl-tests, which only records that implement NCCLTester have.
	NCCLTests Format = "nccl-tests"
)

// Printer writes results to one writer, each with one Write. It is not safe for concurrent use.
type Printer struct {
	w      io.Writer
	format Format
	color  bool
	width  func() int // in columns; 0: as wide as it takes
	head   []Column   // of the table that the last line was of; nil if it was of none
	over   string     // the heading of the table that the last line was of
	fields []string   // CSV's header in force
	csv    *csvTable  // which table CSV has; nil if it has none
	// Seen, if set, is given each record that is printed, or its parts.
	Seen func(Record)
	// Keep, if set, is given each record too, those that people are told of in lines as well.
	Keep func(Record)
	// Job is the number of the command in the background whose results these are, which
	// JSON has with each; 0: they are of none.
	Job int
}

// New returns a Printer. Its tables are coloured if w is a terminal that can
// show it: not if NO_COLOR is set (https://no-color.org) or TERM is dumb. On a
// terminal they are as wide as that is, if they can; elsewhere no line is broken,
// so that each row is one line for grep and awk.
func New(w io.Writer, format Format) *Printer {
	return &Printer{w: w, format: format, csv: &csvTable{only: AllTables}, color: trace.IsTerminal(w) && trace.ColorWanted(), width: func() int { return Width(w) }}
}

// Fork returns a Printer of the same format to the same writer, for other results.
func (p *Printer) Fork() *Printer {
	return &Printer{w: p.w, format: p.format, csv: p.csv, color: p.color, width: p.width, Keep: p.Keep}
}

// Unshown returns a Printer whose results nobody reads, but for whoever sees or keeps these.
func (p *Printer) Unshown() *Printer {
	unshown := New(io.Discard, p.format)
	unshown.Seen, unshown.Keep, unshown.csv = p.Seen, p.Keep, nil
	return unshown
}

// SetColor overrides whether tables are coloured.
func (p *Printer) SetColor(on bool) { p.color = on }

// SetWidth overrides the width that tables should keep to, in columns; 0 lets
// them be as wide as they are. It is asked before each Print, since a terminal's
// width changes.
func (p *Printer) SetWidth(width func() int) { p.width = width }

// Format returns the format that was asked for.
func (p *Printer) Format() Format { return p.format }

// Print writes records of one type. In a table one that is Told is lines; the others get
// the header once, until a record of another type (a blank line is put before it) or a
// note comes between, and columns are as wide as the widest of the records given together.
func (p *Printer) Print(records ...Record) error {
	if len(records) == 0 {
		return nil
	}
	parts := partsOf(records)
	for _, r := range parts {
		if p.Keep != nil {
			p.Keep(r)
		}
	}
	if told, ok := records[0].(Told); ok && p.format == Table {
		for _, line := range told.Lines() {
			if err := p.Notes(line.Mood, line.Text); err != nil {
				return err
			}
		}
		return nil
	}
	for _, r := range parts {
		if p.Seen != nil {
			p.Seen(r)
		}
		var err error
		switch p.format {
		case JSON:
			err = p.printJSON(r)
		case CSV:
			err = p.printCSV(r)
		}
		if err != nil {
			return err
		}
	}
	switch p.format {
	case Table:
		return p.printTable(records)
	case NCCLTests:
		for _, r := range records {
			if own, ok := r.(NCCLTester); ok {
				if err := p.Text(own.NCCLTests()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// partsOf are records, those that stand for several taken apart.
func partsOf(records []Record) (parts []Record) {
	for _, r := range records {
		if compound, ok := r.(Parts); ok {
			parts = append(parts, compound.Parts()...)
		} else {
			parts = append(parts, r)
		}
	}
	return parts
}

var colors = map[Mood]*color.Color{
	Good:  trace.Color(color.FgGreen),
	Fair:  trace.Color(color.FgYellow),
	Bad:   trace.Color(color.FgRed, color.Bold),
	Faint: trace.Color(color.Faint),
}

func (p *Printer) paint(m Mood, text string) string {
	c := colors[m]
	if !p.color || c == nil || text == "" {
		return text
	}
	return c.Sprint(text)
}

// Note writes a line for people between or after rows: "# ...", or several on a
// terminal that is too narrow for it. JSON and CSV have no place for it and leave
// it out.
func (p *Printer) Note(m Mood, format string, args ...any) error {
	return p.Notes(m, fmt.Sprintf(format, args...))
}

// Heading is a Note above a table. Where the last line was of a table under the same one,
// the table goes on.
func (p *Printer) Heading(text string) error {
	if p.head != nil && p.over == text {
		return nil
	}
	err := p.Notes(Faint, text)
	p.over = text
	return err
}

// Notes is Note for each of some lines.
func (p *Printer) Notes(m Mood, lines ...string) error {
	if len(lines) > 0 {
		p.head, p.over = nil, ""
	}
	return p.Aside(m, lines...)
}

// Aside is Note within a table: the rows after it belong to those before it, and
// get no header of their own.
func (p *Printer) Aside(m Mood, lines ...string) error {
	if p.format != Table {
		return nil
	}
	var b strings.Builder
	for _, line := range lines {
		line, below := "# "+line, []string(nil)
		if width := p.width(); width > 0 && utf8.RuneCountInString(line) > width {
			room := max(foldLeast, width-foldIndent)
			line, below = fold{beside: room, below: room}.split(line)
		}
		b.WriteString(p.paint(m, line) + "\n")
		for _, line := range below {
			b.WriteString(p.paint(m, "#   "+line) + "\n")
		}
	}
	return p.Text(b.String())
}

// Text writes text as it is, whatever the format: help, a script, a file.
func (p *Printer) Text(text string) error {
	_, err := io.WriteString(p.w, text)
	return err
}

func (p *Printer) printJSON(v any) error {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false) // nobody puts it into a page; "->" stays readable
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("render %T as JSON: %w", v, err)
	}
	text := line.Bytes()
	if object, is := bytes.CutSuffix(text, []byte("}\n")); is && p.Job > 0 {
		text = fmt.Appendf(object, ",\"job\":%d}\n", p.Job)
	}
	_, err := p.w.Write(text)
	return err
}

// Complain writes what went wrong as a line "ringcli: ...", on a terminal with its
// beginning in a colour, and in lines of its width.
func (p *Printer) Complain(m Mood, text string) error {
	const who = "ringcli:"
	lines := []string{who + " " + Tame(text)}
	if width := p.width(); width > 0 {
		lines = Folded(lines[0], width)
	}
	return p.Text(p.paint(m, who) + strings.TrimPrefix(strings.Join(lines, "\n"), who) + "\n")
}
