package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ringcli/cli/bench/corruption"
	"ringcli/cli/render"
	"ringcli/cli/timing"
	"ringcli/configs"
)

// ComparisonSummary ends a bench of several algorithms or protocols.
type ComparisonSummary struct {
	Command string  `json:"command"`
	OK      bool    `json:"ok"`
	Sizes   int     `json:"sizes"`
	Wrong   *uint64 `json:"wrong"`
	// Averages are of what was compared.
	Averages []VariantAverage `json:"protocols"`
	// Ahead says which is the fastest from which size to which. One that is ahead by
	// less than 3 % does not take the lead.
	Ahead []Stretch `json:"ahead"`
	// Crossovers are the sizes in bytes from which another is ahead.
	Crossovers []uint64 `json:"crossovers_bytes"`
	// Auto says what auto takes.
	Auto  []Stretch `json:"auto"`
	Floor float64   `json:"floor_GBps,omitempty"`
	// Possible is that of all sizes on average, and by what of the greatest.
	Possible
	rows []CompareRow
}

// VariantAverage is the average over all sizes of an algorithm and a protocol, as they
// were asked for: auto is what the library chose at each size.
type VariantAverage struct {
	Variant
	BusBW float64 `json:"avg_busbw_GBps"`
	name  string
}

// Stretch is a run of sizes, both ends included, that belongs to one algorithm and
// protocol.
type Stretch struct {
	Variant
	From uint64 `json:"from_bytes"`
	To   uint64 `json:"to_bytes"`
	name string // by which a person tells it from the others; empty: the variant's
}

// joined takes in the stretch that follows: the last one goes on, if it is called the same.
func joined(list []Stretch, s Stretch) []Stretch {
	if last := len(list) - 1; last >= 0 && list[last].Variant == s.Variant && list[last].name == s.name {
		list[last].To = s.To
		return list
	}
	return append(list, s)
}

// stretches joins sizes that follow each other and have the same variant.
func stretches(rows []CompareRow, of func(CompareRow) Variant) []Stretch {
	list := []Stretch{}
	for _, r := range rows {
		w, bytes := of(r), r.Each[0].Bytes
		list = joined(list, Stretch{w, bytes, bytes, r.Variants.label(w)})
	}
	return list
}

// ahead finds who leads where.
func ahead(rows []CompareRow) []Stretch {
	leader := -1
	return stretches(rows, func(r CompareRow) Variant {
		if leader < 0 || r.Each[r.Best].Time.Mean < r.Each[leader].Time.Mean*(1-compareTie) {
			leader = r.Best
		}
		return r.Variants[leader]
	})
}

// Summarise says who is ahead where, of the rows of a comparison.
func Summarise(command string, rows []CompareRow, floor float64) ComparisonSummary {
	sum := ComparisonSummary{
		Command: command, OK: true, rows: rows, Sizes: len(rows), Floor: floor, Possible: possibleOn(rows), Ahead: ahead(rows), Crossovers: []uint64{},
		Auto: stretches(rows, func(r CompareRow) Variant { return r.Auto }),
	}
	for _, s := range sum.Ahead[1:] {
		sum.Crossovers = append(sum.Crossovers, s.From)
	}
	for i, w := range rows[0].Variants {
		average := VariantAverage{Variant: w, name: rows[0].Variants.label(w)}
		for _, r := range rows {
			average.BusBW += r.Each[i].BusBW / float64(len(rows))
			corruption.AddWrong(&sum.Wrong, r.Each[i].Wrong)
		}
		average.BusBW = timing.SixPlaces(average.BusBW)
		sum.Averages = append(sum.Averages, average)
	}
	sum.OK = corruption.IsRight(sum.Wrong)
	return sum
}

// possibleOn is what is possible of the sizes of a comparison on average.
func possibleOn(rows []CompareRow) (p Possible) {
	for i, r := range rows {
		m := r.Each[0]
		p = Possible{p.Rate + (m.Rate-p.Rate)/float64(i+1), m.By, m.Why}
	}
	p.Rate = timing.SixPlaces(p.Rate)
	return p
}

// verdict is what the floor says, which the best average must reach.
func (c *ComparisonSummary) verdict() error {
	best := slices.MaxFunc(c.Averages, func(a, b VariantAverage) int { return cmp.Compare(a.BusBW, b.BusBW) })
	return reached(&c.OK, c.Command, " of the best, "+best.name+",", best.BusBW, c.Floor)
}

// stretchWords says who has which sizes: "eager is ahead up to 256K, rendezvous-write
// from 512K".
func stretchWords(stretches []Stretch, verb string) string {
	var list []Stretch
	for _, s := range stretches {
		// Those that differ in what is not told are one.
		list = joined(list, Stretch{From: s.From, To: s.To, name: cmp.Or(s.name, s.String())})
	}
	if len(list) == 1 {
		return fmt.Sprintf("%s %s at every size", list[0].name, verb)
	}
	parts := make([]string, len(list))
	for i, s := range list {
		from, to := configs.FormatSize(s.From), configs.FormatSize(s.To)
		switch {
		case i == 0:
			parts[i] = fmt.Sprintf("%s %s up to %s", s.name, verb, to)
		case i == len(list)-1:
			parts[i] = fmt.Sprintf("%s from %s", s.name, from)
		case s.From == s.To:
			parts[i] = fmt.Sprintf("%s at %s", s.name, from)
		default:
			parts[i] = fmt.Sprintf("%s from %s to %s", s.name, from, to)
		}
	}
	return strings.Join(parts, ", ")
}

// effort is a table of what the variants cost beside the data that travel, where that is
// anything.
func (c ComparisonSummary) effort() []string {
	list := c.rows[0].Variants
	lines := append([]string{"bytes copied out of slots / handshakes, in one operation, of a rank"}, CompareHead(list)...)
	any := false
	for _, r := range c.rows {
		line := fmt.Sprintf("%6s", configs.FormatSize(r.Each[0].Bytes))
		for _, m := range r.Each {
			text := "-"
			if m.Effort != nil && *m.Effort != (Effort{}) {
				any, text = true, m.Effort.String()
			}
			line += fmt.Sprintf(" %-*s", list.width()-1, text)
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	if !any {
		return nil
	}
	return lines
}

// Lines are the footer.
func (c ComparisonSummary) Lines() []render.Line {
	var notes []string
	label := averageLabel
	for _, a := range c.Averages {
		notes = append(notes, label+a.name+" "+render.Figure(a.BusBW)+c.percent(a.BusBW))
		label = strings.Repeat(" ", len(label))
	}
	ahead := render.Folded(stretchWords(c.Ahead, "is ahead"), 78)
	auto := render.Folded("auto: "+stretchWords(c.Auto, "is taken"), 78)
	lines := wrongLines(c.Wrong)
	for _, text := range notes {
		lines = append(lines, render.Line{Text: text})
	}
	lines = append(lines, c.whyPossible()...)
	for _, text := range slices.Concat(c.effort(), ahead, auto) {
		lines = append(lines, render.Line{Text: text})
	}
	return lines
}
