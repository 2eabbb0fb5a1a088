package links

import (
	"fmt"
	"strings"

	"ringcli/cli/bench"
	"ringcli/cli/render"
	"ringcli/collective"
	"ringcli/configs"
)

// ModelTime is how long an operation on a vector of one length should take by one
// algorithm and protocol.
type ModelTime struct {
	Command   string               `json:"command"`
	OK        bool                 `json:"ok"` // always
	Operation collective.Operation `json:"operation"`
	Ranks     int                  `json:"ranks"`
	Bytes     uint64               `json:"bytes" col:"size|8|size"` // of the whole vector
	Algorithm collective.Algorithm `json:"algorithm"`
	Protocol  collective.Protocol  `json:"protocol"`
	Segment   int                  `json:"segment"` // bytes; 0 under direct
	Depth     int                  `json:"depth"`   // segments in flight; 0 under direct
	Time      float64              `json:"time_us"`
	AlgBW     float64              `json:"algbw_GBps"`
	BusBW     float64              `json:"busbw_GBps"`
	Fastest   bool                 `json:"fastest"` // of all at this length; a hundredth is no lead
	Auto      bool                 `json:"auto"`    // what auto takes
}

func (m ModelTime) variant() bench.Variant {
	return bench.Variant{Algorithm: m.Algorithm, Protocol: m.Protocol}
}

// ModelSize is one length by all algorithms and protocols: with their times, or their busbw.
// JSON and CSV see the times.
type ModelSize struct {
	Each  []ModelTime
	BusBW bool
}

// first is the first that is meant; nil if none is.
func (r ModelSize) first(meant func(*ModelTime) bool) *ModelTime {
	for i := range r.Each {
		if meant(&r.Each[i]) {
			return &r.Each[i]
		}
	}
	return nil
}

// Row implements render.Tabular.
func (r ModelSize) Row() ([]render.Column, []render.Cell) {
	head, row := render.Select(r.Each[0], "Bytes=size|8|size")
	for _, m := range r.Each {
		mark, mood := "  ", render.Plain
		switch {
		case m.Fastest && m.Auto:
			mark, mood = "*<", render.Good
		case m.Fastest:
			mark, mood = "* ", render.Good
		case m.Auto:
			mark = "< "
		}
		name, text := "time", render.Figure(m.Time)
		if r.BusBW {
			name, text = "busbw", render.Figure(m.BusBW)
		}
		head = append(head, render.Column{Name: name + "  ", Width: 9})
		row = append(row, render.Cell{Text: text + mark, Mood: mood})
	}
	return head, row
}

// Parts implements render.Parts: JSON and CSV see each once.
func (r ModelSize) Parts() []render.Record {
	if r.BusBW {
		return nil
	}
	return render.Records(r.Each)
}

// headLines name what the columns are of: a line of algorithms, one of protocols.
func headLines(list []bench.Variant) []string {
	const width = 10
	short := strings.NewReplacer("recursive-doubling", "doubling", "rendezvous-write", "rdv-write", "rendezvous-read", "rdv-read", "receiver-initiated", "recv-init", "hierarchical", "hier")
	line := func(name func(bench.Variant) string) string {
		var b strings.Builder
		b.WriteString("      ") // the column of the sizes, less the note's own "# "
		for _, v := range list {
			fmt.Fprintf(&b, "%*s", width, short.Replace(name(v)))
		}
		return strings.TrimRight(b.String(), " ")
	}
	return []string{
		line(func(v bench.Variant) string { return v.Algorithm.String() }),
		line(func(v bench.Variant) string { return v.Protocol.String() }),
	}
}

// ModelCosts are what a cluster's parts cost in the model; what is 0 costs nothing.
type ModelCosts struct {
	Alpha    float64 `json:"alpha_us"`                // of a message, beside its length
	Beta     float64 `json:"beta_GBps"`               // of an edge, each way
	Gamma    float64 `json:"gamma_GBps"`              // of a reduction by one core
	Copy     float64 `json:"copy_GBps"`               // of a copy by one core
	Overhead float64 `json:"overhead_us"`             // CPU time of a message at each end
	Software float64 `json:"software_GBps,omitempty"` // what a core sends or receives, where no device moves the data
	Line     float64 `json:"line_us,omitempty"`       // of a cache line from core to core, where the ranks share memory
}

func (c ModelCosts) String() string {
	parts := []string{
		"alpha " + render.Figure(c.Alpha) + " us", "beta " + render.Figure(c.Beta) + " GB/s", "gamma " + render.Figure(c.Gamma) + " GB/s",
		"copies " + render.Figure(c.Copy) + " GB/s", "overhead " + render.Figure(c.Overhead) + " us",
	}
	if c.Software > 0 {
		parts = append(parts, "software "+render.Figure(c.Software)+" GB/s")
	}
	if c.Line > 0 {
		parts = append(parts, "line "+render.Figure(c.Line)+" us")
	}
	return strings.Join(parts, ", ")
}

// ModelStretch is a run of lengths that belongs to one algorithm and protocol.
type ModelStretch struct {
	bench.Variant
	From uint64 `json:"from_bytes"` // to where the next begins
}

// ModelSummary says which algorithm and protocol should be the fastest from which length on.
type ModelSummary struct {
	Command   string               `json:"command"`
	OK        bool                 `json:"ok"`
	Operation collective.Operation `json:"operation"`
	Ranks     int                  `json:"ranks"`
	Costs     ModelCosts           `json:"costs"`
	Fastest   []ModelStretch       `json:"fastest"`
	// Crossovers are the lengths in bytes from which another is the fastest.
	Crossovers []uint64       `json:"crossovers_bytes"`
	Auto       []ModelStretch `json:"auto"` // what auto takes, of the lengths of the table
	// AutoWorst is how many times the fastest one's time auto's takes, where that is most.
	AutoWorst   float64 `json:"auto_times_fastest"`
	AutoWorstAt uint64  `json:"auto_worst_bytes"`
}

// Lines implements render.Told.
func (s ModelSummary) Lines() []render.Line {
	lines := []render.Line{{Text: "fastest: " + stretchText(s.Fastest)}, {Text: "auto takes " + stretchText(s.Auto)}}
	if s.AutoWorst >= autoWorse {
		lines = append(lines, render.Line{Mood: render.Fair, Text: fmt.Sprintf("auto takes %.2f times as long as the fastest at %s: tune on the ring itself finds a table for it",
			s.AutoWorst, configs.FormatSize(s.AutoWorstAt))})
	}
	return lines
}

// autoWorse is from where on it is worth a word that auto is slower than need be.
const autoWorse = 1.2

func stretchText(list []ModelStretch) string {
	var parts []string
	for i, s := range list {
		switch {
		case len(list) == 1:
			return s.String() + " at every size"
		case i == 0:
			parts = append(parts, fmt.Sprintf("%s below %s", s, configs.FormatSize(list[1].From)))
		default:
			parts = append(parts, fmt.Sprintf("%s from %s", s, configs.FormatSize(s.From)))
		}
	}
	return strings.Join(parts, ", ")
}
