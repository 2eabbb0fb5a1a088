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
	OK        bool                 `json:"ok"` // it has a time: no edge on its way carries nothing
	Operation collective.Operation `json:"operation"`
	Ranks     int                  `json:"ranks"`
	Bytes     uint64               `json:"bytes" col:"size|8|size"` // of the whole vector
	Algorithm collective.Algorithm `json:"algorithm"`
	Protocol  collective.Protocol  `json:"protocol"`
	Segment   int                  `json:"segment"` // bytes; 0 under direct
	Depth     int                  `json:"depth"`   // segments in flight; 0 under direct
	Time      *float64             `json:"time_us"` // null: it never ends
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
		name, text := "time", "-"
		if r.BusBW {
			name = "busbw"
		}
		if m.Time != nil {
			text = render.Figure(*m.Time)
			if r.BusBW {
				text = render.Figure(m.BusBW)
			}
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
	Alpha    float64 `json:"alpha_us"`                // of a message, beside its length; of measured links the median
	Beta     float64 `json:"beta_GBps"`               // of an edge, each way; likewise
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

// ModelEdge is what the edge of a ring that costs it most costs an operation round the
// ring.
type ModelEdge struct {
	Command   string               `json:"command"`
	OK        bool                 `json:"ok"` // it costs less than a tenth
	Operation collective.Operation `json:"operation"`
	Ranks     int                  `json:"ranks"`
	Bytes     uint64               `json:"bytes"` // of the whole vector
	Protocol  collective.Protocol  `json:"protocol"`
	From      int                  `json:"from"` // the rank that sends over it
	To        int                  `json:"to"`
	FromHost  string               `json:"from_host,omitempty"`
	ToHost    string               `json:"to_host,omitempty"`
	Latency   float64              `json:"latency_us"`
	BW        float64              `json:"write_GBps"`
	// UsualLatency and UsualBW are the medians of the ring's edges.
	UsualLatency float64  `json:"usual_latency_us"`
	UsualBW      float64  `json:"usual_write_GBps"`
	Time         *float64 `json:"time_us"` // of the operation; null: it never ends
	Without      float64  `json:"without_us"`
	// Order is a better order of the ranks round the ring; absent if none is known, as of
	// pairs that were not measured.
	Order      []int    `json:"order,omitempty"`
	OrderHosts []string `json:"order_hosts,omitempty"` // the list in that order; absent if a host is not known
	Ordered    float64  `json:"order_us,omitempty"`
	// Unmeasured is how many directed pairs of ranks nothing is known of.
	Unmeasured int `json:"unmeasured_pairs"`
}

func (e ModelEdge) end(rank int, host string) string {
	if host == "" {
		return fmt.Sprintf("rank %d", rank)
	}
	return fmt.Sprintf("rank %d (%s)", rank, host)
}

// Lines implements render.Told.
func (e ModelEdge) Lines() []render.Line {
	size := configs.FormatSize(e.Bytes)
	pair := fmt.Sprintf("%s to %s, %s us and %s GB/s where %s us and %s GB/s are usual,", e.end(e.From, e.FromHost), e.end(e.To, e.ToHost),
		render.Figure(e.Latency), render.Figure(e.BW), render.Figure(e.UsualLatency), render.Figure(e.UsualBW))
	switch {
	case e.Time == nil:
		return e.ordered(render.Line{Mood: render.Bad, Text: fmt.Sprintf("%s stops the ring: without it, %s by %s takes %s us", pair, size, e.Protocol, render.Figure(e.Without))})
	case e.OK:
		return []render.Line{{Mood: render.Good, Text: fmt.Sprintf("no edge costs the ring a tenth at %s: %s costs %.1f %%", size, pair[:len(pair)-1], (*e.Time/e.Without-1)*100)}}
	}
	return e.ordered(render.Line{Mood: render.Fair, Text: fmt.Sprintf("%s makes %s by %s %.2f times as long for the whole ring: %s us, and %s us without it",
		pair, size, e.Protocol, *e.Time/e.Without, render.Figure(*e.Time), render.Figure(e.Without))})
}

func (e ModelEdge) ordered(first render.Line) []render.Line {
	text := "no other order of the ranks is better"
	switch {
	case e.Order != nil:
		list := e.OrderHosts
		if list == nil {
			list = render.Words(e.Order)
		}
		text = fmt.Sprintf("a better order of the list: %s: %s us", strings.Join(list, ","), render.Figure(e.Ordered))
	case e.Unmeasured > 0:
		text += " among the pairs that were measured: `links --mesh` measures all"
	}
	return []render.Line{first, {Text: text}}
}
