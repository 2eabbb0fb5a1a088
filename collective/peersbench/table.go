//go:build linux

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"ringcli/collective"
	"ringcli/configs"
)

// figure is three digits of a number that is none too large or small for that.
func figure(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v < 0.00995:
		return fmt.Sprintf("%.4f", v)
	case v < 0.0995:
		return fmt.Sprintf("%.3f", v)
	case v < 9.995:
		return fmt.Sprintf("%.2f", v)
	case v < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// table is cells that are aligned to the right.
type table struct {
	b bytes.Buffer
	w *tabwriter.Writer
}

func newTable() *table {
	t := &table{}
	t.w = tabwriter.NewWriter(&t.b, 0, 0, 2, ' ', tabwriter.AlignRight)
	return t
}

func (t *table) row(cells ...string) {
	_, _ = fmt.Fprintln(t.w, strings.Join(cells, "\t")+"\t") // a bytes.Buffer takes all
}

func (t *table) String() string {
	_ = t.w.Flush()
	return t.b.String()
}

// sizeTable has a row for each size: that, what is moved where that is another, and what a function
// says of it.
func (r *Results) sizeTable(op collective.Operation, ranks int, head []string, row func(c *cellResults) []string) string {
	t := newTable()
	t.row(append([]string{"size"}, head...)...)
	for _, c := range r.cellsOf(op, ranks) {
		size := configs.FormatSize(c.bytes)
		if moved := uint64(c.count()) * elemSize; moved != c.bytes {
			size += fmt.Sprintf(" (%d)", moved)
		}
		t.row(append([]string{size}, row(c)...)...)
	}
	return t.String()
}

// medians are the times of contenders in a cell.
func (c *cellResults) medians(of []contender) (row []string) {
	for _, who := range of {
		row = append(row, figure(c.of[who.name].median()))
	}
	return row
}

// print prints the tables.
func (r *Results) print(w io.Writer) error {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	e := r.Environment
	place := "out of place"
	if e.InPlace {
		place = "in place"
	}
	p("%s, %d CPUs, Linux %s, %s, %s\n", e.CPU, e.CPUs, e.Kernel, e.Go, e.Date.Format("2006-01-02 15:04 MST"))
	p("float32 sum, %s, transparent huge pages: %s; sizes are those of the whole vector\n", place, e.HugePages)
	if e.Hosts > 0 {
		p("%d hosts, which are network namespaces, each with a link of %s both ways; links' bytes are those of frames, and the least is what the busiest link has to carry\n", e.Hosts, e.Rate)
	}
	p("times are microseconds of an iteration on the slowest rank, medians of %d interleaved rounds\n", e.Rounds)
	p("line: from one CPU to the other, one way, before each cell; others, stolen: CPUs that were busy with the work of others\n")
	p("ratios are the best peer's time by ours (above 1 we are faster), each round's: their median\n\n")
	for _, a := range r.Contenders {
		p("%-18s %d ranks: %s; %s; CPUs %s\n", a.Name, a.Ranks, a.What, a.Text, a.Places())
	}
	for _, text := range r.Notes {
		p("note: %s\n", text)
	}
	p("\n%s", r.roundTable())
	for _, n := range r.options.rankNumbers {
		for _, op := range r.options.operations {
			p("\n%s on %d ranks\n%s", op, n, r.cellTable(op, n))
			if t := r.tcpTable(op, n); t != "" {
				p("\n%s on %d ranks, without shared memory\n%s", op, n, t)
			}
			if t := r.linkTable(op, n); t != "" {
				p("\n%s on %d ranks, bytes over the busiest link, one way\n%s", op, n, t)
			}
		}
	}
	p("\ngeometric means of the ratios, and the least\n%s", r.meanTable())
	p("%s", r.floorLine())
	if t := r.baselineTable(); t != "" {
		p("\nthe baseline's time by ours (above 1 we have become faster): median (least-greatest), and geometric means\n%s", t)
	}
	if short := r.shortfalls(); len(short) > 0 {
		p("\nslower than the best peer in:\n%s", strings.Join(short, ""))
	}
	for _, text := range r.Failures {
		p("failed: %s\n", text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// roundTable is the placement beside each round.
func (r *Results) roundTable() string {
	t := newTable()
	t.row("ranks", "round", "line ns", "least", "greatest", "floor us", "of", "others", "most", "stolen", "seconds")
	for _, p := range r.Rounds {
		t.row(fmt.Sprint(p.Ranks), fmt.Sprint(p.Round+1), whole(p.Line.Median), whole(p.Line.Min), whole(p.Line.Max),
			figure(p.Floor), configs.FormatSize(p.FloorOf), hundredths(p.Others.Median), hundredths(p.Others.Max), hundredths(p.Steal), fmt.Sprintf("%.1f", p.Duration))
	}
	return t.String()
}

// present are the contenders of roles that have been measured in some of the cells.
func (r *Results) present(op collective.Operation, ranks int, roles ...role) []contender {
	var list []contender
	for _, of := range roles {
		for _, who := range contenders {
			if who.role != of {
				continue
			}
			if slices.ContainsFunc(r.cellsOf(op, ranks), func(c *cellResults) bool { return c.of[who.name].median() > 0 }) {
				list = append(list, who)
			}
		}
	}
	return list
}

// cellTable is peers, limits, ours and the ratios.
func (r *Results) cellTable(op collective.Operation, ranks int) string {
	shown := r.present(op, ranks, rolePeer, roleLimit, roleOurs)
	ours := r.present(op, ranks, roleOurs)
	head := append(names(shown), "best peer")
	for _, who := range ours {
		head = append(head, "by "+who.name)
	}
	return r.sizeTable(op, ranks, head, func(c *cellResults) []string {
		best := c.best(rolePeer)
		row := append(c.medians(shown), cmp.Or(best, "-"))
		for _, who := range ours {
			ratio, _ := c.ratio(who.name, best)
			row = append(row, figure(ratio.Spread.Median))
		}
		return row
	})
}

// tcpTable is Open MPI over TCP beside soft; empty if neither was measured.
func (r *Results) tcpTable(op collective.Operation, ranks int) string {
	shown := r.present(op, ranks, roleTCP, roleSoft)
	if len(shown) == 0 {
		return ""
	}
	return r.sizeTable(op, ranks, append(names(shown), "by soft", "least", "greatest"), func(c *cellResults) []string {
		ratio, _ := c.ratio("soft", c.best(roleTCP))
		return append(c.medians(shown), figure(ratio.Spread.Median), figure(ratio.Spread.Min), figure(ratio.Spread.Max))
	})
}

// meanTable is one row for an operation and a number of ranks.
func (r *Results) meanTable() string {
	ratios := r.ratios()
	t := newTable()
	head := []string{"operation", "ranks"}
	var columns []contender
	for _, who := range contenders {
		if who.role == roleOurs || who.role == roleSoft {
			for _, ratio := range ratios {
				if ratio.Contender == who.name {
					columns = append(columns, who)
					head = append(head, who.name, "least", "at")
					break
				}
			}
		}
	}
	t.row(head...)
	for _, n := range r.options.rankNumbers {
		for _, op := range r.options.operations {
			row := []string{op.String(), fmt.Sprint(n)}
			for _, who := range columns {
				mean, cells := geometric(ratios, op, n, who.name)
				if cells == 0 {
					row = append(row, "-", "-", "-")
					continue
				}
				least := Ratio{}
				for _, ratio := range ratios {
					if ratio.Operation == op.String() && ratio.Ranks == n && ratio.Contender == who.name && (least.Contender == "" || ratio.Spread.Median < least.Spread.Median) {
						least = ratio
					}
				}
				row = append(row, figure(mean), figure(least.Spread.Median), configs.FormatSize(least.Bytes))
			}
			t.row(row...)
		}
	}
	return t.String()
}

// slower is by how much ours may be slower than the baseline, in the noise: 3 %.
const slower = 1 / 1.03

// baselineTable is a row for each cell, and the mean of an operation's; then the cells in which
// ours has become slower. It is empty without --baseline.
func (r *Results) baselineTable() string {
	ratios := r.byBaseline()
	if len(ratios) == 0 {
		return ""
	}
	var columns []contender
	t := newTable()
	head := []string{"operation", "ranks", "size"}
	for _, old := range baselines("") {
		if slices.ContainsFunc(ratios, func(ratio Ratio) bool { return ratio.Contender == old.of }) {
			columns, head = append(columns, old), append(head, old.of)
		}
	}
	t.row(head...)
	for _, n := range r.options.rankNumbers {
		for _, op := range r.options.operations {
			for _, c := range r.cellsOf(op, n) {
				row := []string{op.String(), fmt.Sprint(n), configs.FormatSize(c.bytes)}
				for _, old := range columns {
					text := "-"
					if ratio, ok := c.ratio(old.of, old.name); ok {
						text = ratio.Spread.text(thousandths)
					}
					row = append(row, text)
				}
				t.row(row...)
			}
			mean := []string{op.String(), fmt.Sprint(n), "mean"}
			for _, old := range columns {
				text := "-"
				if m, cells := geometric(ratios, op, n, old.of); cells > 0 {
					text = thousandths(m)
				}
				mean = append(mean, text)
			}
			t.row(mean...)
		}
	}
	var b strings.Builder
	for _, ratio := range ratios {
		if ratio.Spread.Median < slower {
			b.WriteString(ratio.line())
		}
	}
	if b.Len() == 0 {
		return t.String() + "none is slower than the baseline by more than 3 %\n"
	}
	return t.String() + "slower than the baseline by more than 3 %:\n" + b.String()
}

// floorLine compares the longest all-reduce with the floor.
func (r *Results) floorLine() string {
	var b strings.Builder
	for _, n := range r.options.rankNumbers {
		var longest *cellResults
		for _, c := range r.cellsOf(collective.OpAllReduce, n) {
			if c.of["floor"].median() > 0 {
				longest = c // sizes ascend
			}
		}
		if longest == nil {
			continue
		}
		for _, who := range r.present(collective.OpAllReduce, n, roleOurs) {
			if ratio, ok := longest.ratio("floor", who.name); ok { // the one's time by the other's
				fmt.Fprintf(&b, "%s, %s: %s times the floor\n", longest.cell, who.name, ratio.Spread.text(figure))
			}
		}
	}
	return b.String()
}

func (r Ratio) line() string {
	return fmt.Sprintf("  %-14s %d ranks %5s: %s %s of %s\n", r.Operation, r.Ranks, configs.FormatSize(r.Bytes), r.Contender, r.Spread.text(figure), r.Reference)
}

// shortfalls are the cells in which ours is slower, a line each.
func (r *Results) shortfalls() []string {
	var list []string
	for _, ratio := range r.ratios() {
		if ratio.Spread.Median < 1 {
			list = append(list, ratio.line())
		}
	}
	return list
}
