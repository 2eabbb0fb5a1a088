package cli

import (
	"fmt"
	"strings"

	"ringcli/cli/render"
	"ringcli/configs"
)

// ComparisonSummary ends a bench of several protocols.
type ComparisonSummary struct {
	Command string  `json:"command"`
	OK      bool    `json:"ok"`
	Sizes   int     `json:"sizes"`
	Wrong   *uint64 `json:"wrong"`
	// Protocols are those that were compared.
	Protocols []ProtocolAverage `json:"protocols"`
	// Ahead says which protocol is the fastest from which size to which. One that
	// is ahead by less than 3 % does not take the lead.
	Ahead []Stretch `json:"ahead"`
	// Crossovers are the sizes in bytes from which another protocol is ahead.
	Crossovers []uint64 `json:"crossovers_bytes"`
	// Auto says which protocol auto takes.
	Auto  []Stretch `json:"auto"`
	Floor float64   `json:"floor_GBps,omitempty"`
}

// ProtocolAverage is a protocol's average over all sizes.
type ProtocolAverage struct {
	Protocol string  `json:"protocol"`
	BusBW    float64 `json:"avg_busbw_GBps"`
}

// Stretch is a run of sizes, both ends included, that belongs to one protocol.
type Stretch struct {
	Protocol string `json:"protocol"`
	From     uint64 `json:"from_bytes"`
	To       uint64 `json:"to_bytes"`
}

// stretches joins sizes that follow each other and have the same protocol.
func stretches(rows []CompareRow, protocol func(CompareRow) string) []Stretch {
	list := []Stretch{}
	for _, r := range rows {
		name, bytes := protocol(r), r.Each[0].Bytes
		if last := len(list) - 1; last >= 0 && list[last].Protocol == name {
			list[last].To = bytes
			continue
		}
		list = append(list, Stretch{name, bytes, bytes})
	}
	return list
}

// ahead finds who leads where.
func ahead(rows []CompareRow) []Stretch {
	leader := -1
	return stretches(rows, func(r CompareRow) string {
		if leader < 0 || r.Each[r.Best].Time.Mean < r.Each[leader].Time.Mean*(1-compareTie) {
			leader = r.Best
		}
		return r.Each[leader].Protocol
	})
}

func summarise(command string, rows []CompareRow, floor float64) ComparisonSummary {
	sum := ComparisonSummary{
		Command: command, OK: true, Sizes: len(rows), Floor: floor, Ahead: ahead(rows), Crossovers: []uint64{},
		Auto: stretches(rows, func(r CompareRow) string { return r.Auto }),
	}
	for i, s := range sum.Ahead {
		if i > 0 {
			sum.Crossovers = append(sum.Crossovers, s.From)
		}
	}
	for i, m := range rows[0].Each {
		average := ProtocolAverage{Protocol: m.Protocol}
		for _, r := range rows {
			average.BusBW += r.Each[i].BusBW / float64(len(rows))
			if wrong := r.Each[i].Wrong; wrong != nil {
				if sum.Wrong == nil {
					sum.Wrong = new(uint64)
				}
				*sum.Wrong += *wrong
				sum.OK = sum.OK && *wrong == 0
			}
		}
		average.BusBW = sixPlaces(average.BusBW)
		sum.Protocols = append(sum.Protocols, average)
	}
	return sum
}

// verdict is what the floor says, which the best protocol's average must reach.
func (c *ComparisonSummary) verdict() error {
	best := c.Protocols[0]
	for _, p := range c.Protocols {
		if p.BusBW > best.BusBW {
			best = p
		}
	}
	if best.BusBW >= c.Floor {
		return nil
	}
	c.OK = false
	return sharedError(ExitWarning, "slow: %s: the average busbw of the best protocol, %s, is %s GB/s, expected at least %s",
		c.Command, best.Protocol, figure(best.BusBW), figure(c.Floor))
}

// stretchWords says who has which sizes: "eager is ahead up to 256K, rendezvous-write
// from 512K".
func stretchWords(list []Stretch, verb string) string {
	if len(list) == 1 {
		return fmt.Sprintf("%s %s at every size", list[0].Protocol, verb)
	}
	parts := make([]string, len(list))
	for i, s := range list {
		from, to := configs.FormatSize(s.From), configs.FormatSize(s.To)
		switch {
		case i == 0:
			parts[i] = fmt.Sprintf("%s %s up to %s", s.Protocol, verb, to)
		case i == len(list)-1:
			parts[i] = fmt.Sprintf("%s from %s", s.Protocol, from)
		case s.From == s.To:
			parts[i] = fmt.Sprintf("%s at %s", s.Protocol, from)
		default:
			parts[i] = fmt.Sprintf("%s from %s to %s", s.Protocol, from, to)
		}
	}
	return strings.Join(parts, ", ")
}

// concludeComparison prints the footer, and for people the plot.
func (s *Session) concludeComparison(sum ComparisonSummary, rows []CompareRow) error {
	if s.Out.Format() != render.Table {
		return s.Out.Print(sum)
	}
	if sum.Wrong != nil {
		mood, text := render.Good, "OK"
		if *sum.Wrong > 0 {
			mood, text = render.Bad, "FAILED"
		}
		if err := s.Out.Note(mood, "Out of bounds values : %d %s", *sum.Wrong, text); err != nil {
			return err
		}
	}
	var notes []string
	label := "Avg bus bandwidth    : "
	for _, p := range sum.Protocols {
		notes = append(notes, label+p.Protocol+" "+figure(p.BusBW))
		label = strings.Repeat(" ", len(label))
	}
	notes = append(notes, folded(stretchWords(sum.Ahead, "is ahead"), 78)...)
	notes = append(notes, folded("auto: "+stretchWords(sum.Auto, "is taken"), 78)...)
	for _, text := range append(notes, plotOf(rows)...) {
		if err := s.Out.Note(render.Plain, "%s", text); err != nil {
			return err
		}
	}
	return nil
}

// folded breaks a text between words into lines of at most so many characters.
func folded(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > width:
			lines = append(lines, line)
			line = "  " + word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// Columns implements render.Record.
func (c ComparisonSummary) Columns() []render.Column {
	return []render.Column{{Name: "bench", Left: true}, {Name: "sizes"}, {Name: "wrong"}, {Name: "ahead", Left: true}}
}

// Cells implements render.Record.
func (c ComparisonSummary) Cells() []render.Cell {
	return append(render.Texts(c.Command, fmt.Sprint(c.Sizes)), wrongCell(c.Wrong), render.Cell{Text: stretchWords(c.Ahead, "is ahead")})
}
