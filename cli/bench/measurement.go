package bench

import (
	"fmt"

	"ringcli/cli/bench/corruption"
	"ringcli/cli/bench/windows"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/cli/timing"
	"ringcli/collective"
	"ringcli/collective/lateness"
	"ringcli/configs"
	"ringcli/ring"
)

// Measurement is the result of one collective operation at one size. The JSON
// names are a contract with scripts.
type Measurement struct {
	Command  string              `json:"command" col:"operation|14"` // the operation
	OK       bool                `json:"ok"`
	Bytes    uint64              `json:"bytes" col:"bytes|8|size"` // of the whole vector
	Count    uint64              `json:"count"`                    // elements of the whole vector
	Type     string              `json:"type"`
	Op       string              `json:"op"` // empty for all-gather, which reduces nothing
	Protocol collective.Protocol `json:"protocol"`
	// Algorithm is what ran, as Protocol is: never auto.
	Algorithm collective.Algorithm `json:"algorithm" col:"algo/protocol|18|before=bytes"`
	// Backend is another one than our ring, which chose the two itself: they are auto.
	Backend string `json:"backend,omitempty"`
	Ranks   int    `json:"ranks"`
	Root    *int   `json:"root,omitempty"` // of an operation that has one
	InPlace bool   `json:"in_place"`
	// InFlight is how many operations were started before any was waited for, where that is
	// more than one.
	InFlight int `json:"in_flight,omitempty"`
	// Verified: each segment was checked against its sender's checksum.
	Verified bool `json:"verify_segments,omitempty"`
	Iters    int  `json:"iters" col:"iters|6"`
	// Time is the slowest rank's. Where it was not said how many iterations, its mean is
	// the median of the batches' means.
	Time timing.Times `json:"time_us" col:"P50=p50 us|6; P99=p99 us|6"`
	// Spread is how far from that the quartiles of the batches' means are at most; nil if
	// there were few.
	Spread *float64 `json:"spread_pct"`
	AlgBW  float64  `json:"algbw_GBps"`
	BusBW  float64  `json:"busbw_GBps" col:"busbw|6"`
	// Possible is that of the rank whose edges can carry least.
	Possible
	// OfPossible is busbw in percent of it; absent where it is not known.
	OfPossible *float64 `json:"of_possible_pct,omitempty" col:"of%|3|%.0f"`
	// BestBW is the busbw of the fastest iteration, which other work on a host spoils least;
	// absent where what is possible is not known.
	BestBW float64 `json:"best_GBps,omitempty"`
	// LinkRate is the least active rate of the RDMA ports between the ranks; absent
	// where none is known.
	LinkRate float64 `json:"rate_GBps,omitempty"`
	// Wrong is the number of wrong elements on all ranks; nil if not checked.
	Wrong *uint64 `json:"wrong" col:"wrong|5|wrong"`
	// First is the first wrong element of the lowest rank that has one.
	First *corruption.WrongElement `json:"first_wrong,omitempty"`
	// PerRank is there on the leader only.
	PerRank []RankMeasurement `json:"per_rank,omitempty"`
	// Effort is there in a comparison: that of the rank that has most.
	Effort *Effort `json:"per_operation,omitempty"`
	// CPUs are those that the ranks poll on; absent where it is not settled for all.
	CPUs []int `json:"cpus,omitempty"`
	// Corruption is what is known of wrong elements: absent if there are none.
	Corruption *corruption.Corruption `json:"corruption,omitempty"`
	// Windows are there with --duration.
	Windows *windows.Summary `json:"windows,omitempty"`
	// CutShort: the run failed, and this is what this rank had measured until then.
	CutShort bool `json:"cut_short,omitempty"`
	Delivery
	// Late are who or what kept the ring waiting: in windows, or in all of it.
	Late []windows.Stragglers `json:"late,omitempty"`
	Buffers
	OnMemory
}

// Effort is what one operation costs a rank beside the data that travel.
type Effort struct {
	Copied     uint64 `json:"copied_bytes"` // out of slots, by the CPU
	Handshakes uint64 `json:"handshakes"`   // RTS, each of which waits for a CTS or a FIN
}

func (e Effort) String() string {
	return configs.FormatSize(e.Copied) + "/" + fmt.Sprint(e.Handshakes)
}

// RankMeasurement is one rank's part of a Measurement.
type RankMeasurement struct {
	Rank  int                      `json:"rank" col:"rank|14"`
	Time  timing.Times             `json:"time_us" col:"Min=min us|9; P50=p50 us|9; P99=p99 us|9; Max=max us|9; Mean=mean us|9"`
	Wrong *uint64                  `json:"wrong" col:"wrong|7|wrong"`
	First *corruption.WrongElement `json:"first_wrong,omitempty"`
	// LinkRate is that of the rank's own ports.
	LinkRate float64 `json:"rate_GBps,omitempty"`
	// Possible is that of the rank's own edges.
	Possible
	// Waits are for other ranks, and what this rank did else, in what was measured.
	Waits *lateness.Record `json:"waits,omitempty"`
}

// told is what a rank tells the others of a measurement.
type told struct {
	RankMeasurement
	Effort Effort `json:"per_operation"`
	Host   string `json:"host"` // the boot of its kernel; "" is not known
	// Counted: the devices count for each edge which packets they send again.
	Counted bool `json:"counted"`
}

// linkRate is the least active rate of the ports to both neighbours in GB/s, or 0.
func linkRate(m *session.Member) (least float64) {
	for _, e := range []*ring.Edge{m.Ring.Left(), m.Ring.Right()} {
		if d := e.Device(); d != nil {
			least = lower(least, float64(d.LinkMbps())/8e3)
		}
	}
	return least
}

// lower is the lower of two rates, of which 0 is not known.
func lower(a, b float64) float64 {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

func (m Measurement) variant() Variant { return Variant{m.Algorithm, m.Protocol, m.Backend} }

// Adjust implements render.Adjuster.
func (m Measurement) Adjust(column string, cell *render.Cell) {
	if column == "algo/protocol" {
		if cell.Text = m.variant().short(); m.Buffers.Buffers != "" {
			cell.Text += " " + m.Buffers.Buffers
		}
	}
}

// BenchRow is a row of nccl-tests' table: one size, out of place and in place.
// JSON and CSV see two Measurements.
type BenchRow struct{ Out, In Measurement }

// Row implements render.Tabular: the columns are nccl-tests' without those that are the
// same in each row, which stand above the table, and with the spread, in 80 characters.
func (b BenchRow) Row() ([]render.Column, []render.Cell) {
	head, row := render.Select(b.Out, "Bytes=size|8|size; Count=count|8|size")
	for _, m := range b.Parts() {
		more, cells := render.Select(m, "Time.Mean=time|6; Spread=±%|4|%.0f; AlgBW=algbw|5; BusBW=busbw|5; Wrong=wrong|5|wrong")
		head, row = append(head, more...), append(row, cells...)
	}
	return head, row
}

// Parts implements render.Parts.
func (b BenchRow) Parts() []render.Record { return []render.Record{b.Out, b.In} }

// BenchSummary ends a bench, as nccl-tests' footer does.
type BenchSummary struct {
	Command string  `json:"command"`
	OK      bool    `json:"ok"`
	Rows    int     `json:"rows"`
	Wrong   *uint64 `json:"wrong"`
	BusBW   float64 `json:"avg_busbw_GBps"`
	Floor   float64 `json:"floor_GBps,omitempty"`
	// Possible is that of all sizes on average, and by what of the greatest.
	Possible
	OfPossible *float64 `json:"of_possible_pct,omitempty"` // the average busbw in percent of it
	OnMemory
	// Auto says what auto took; empty if it was not left to it.
	Auto []Stretch `json:"auto,omitempty"`
	Buffers
	failed int // measurements with wrong data, each as often as there are ranks that have it
}

// RankRow is one rank's part of an operation, as --per-rank shows it.
type RankRow struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	RankMeasurement
}

// PrintRanks prints each rank's part below the whole. The JSON of the whole has
// them anyhow.
func PrintRanks(s *session.Session, m Measurement) error {
	if s.Out.Format() == render.JSON {
		return nil
	}
	var rows []render.Record
	for _, r := range m.PerRank {
		rows = append(rows, RankRow{Command: m.Command, OK: corruption.IsRight(r.Wrong), RankMeasurement: r})
	}
	return s.Out.Print(rows...)
}
