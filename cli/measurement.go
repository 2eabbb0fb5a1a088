package cli

import (
	"fmt"
	"strconv"

	"ringcli/cli/render"
	"ringcli/collective/reduce"
	"ringcli/configs"
)

// Measurement is the result of one collective operation at one size. The JSON
// names are a contract with scripts.
type Measurement struct {
	Command  string `json:"command"` // all-reduce, reduce-scatter or all-gather
	OK       bool   `json:"ok"`
	Bytes    uint64 `json:"bytes"` // of the whole vector
	Count    uint64 `json:"count"` // elements of the whole vector
	Type     string `json:"type"`
	Op       string `json:"op"` // empty for all-gather, which reduces nothing
	Protocol string `json:"protocol"`
	// Algorithm is what ran, as Protocol is: never auto.
	Algorithm string  `json:"algorithm"`
	Ranks     int     `json:"ranks"`
	InPlace   bool    `json:"in_place"`
	Iters     int     `json:"iters"`
	Time      Times   `json:"time_us"` // the slowest rank's
	AlgBW     float64 `json:"algbw_GBps"`
	BusBW     float64 `json:"busbw_GBps"`
	// Wrong is the number of wrong elements on all ranks; nil if not checked.
	Wrong *uint64 `json:"wrong"`
	// First is the first wrong element of the lowest rank that has one.
	First *WrongElement `json:"first_wrong,omitempty"`
	// PerRank is there on the leader only.
	PerRank []RankMeasurement `json:"per_rank,omitempty"`
}

// WrongElement is an element that is not what it must be.
type WrongElement struct {
	Rank   int    `json:"rank"`
	Offset int    `json:"offset"` // index of the element in the whole vector
	Got    string `json:"got"`
	Want   string `json:"want"`
}

func (w WrongElement) String() string {
	return fmt.Sprintf("rank %d, element %d: got %s, want %s", w.Rank, w.Offset, w.Got, w.Want)
}

// RankMeasurement is one rank's part of a Measurement.
type RankMeasurement struct {
	Rank  int           `json:"rank"`
	Time  Times         `json:"time_us"`
	Wrong *uint64       `json:"wrong"`
	First *WrongElement `json:"first_wrong,omitempty"`
}

// Columns is 79 characters wide for vectors below 10 GB.
func (m Measurement) Columns() []render.Column {
	return []render.Column{
		{Name: "operation", Width: 14, Left: true}, {Name: "algo/protocol", Width: 18, Left: true},
		{Name: "bytes", Width: 10}, {Name: "p50 us", Width: 8}, {Name: "p99 us", Width: 8},
		{Name: "GB/s bus", Width: 8}, {Name: "wrong", Width: 7},
	}
}

// Cells implements render.Record.
func (m Measurement) Cells() []render.Cell {
	return append(render.Texts(m.Command, shortWay(m.Algorithm, m.Protocol), strconv.FormatUint(m.Bytes, 10),
		figure(m.Time.P50), figure(m.Time.P99), figure(m.BusBW)), wrongCell(m.Wrong))
}

func wrongCell(wrong *uint64) render.Cell {
	switch {
	case wrong == nil:
		return render.Cell{Text: "N/A", Mood: render.Faint}
	case *wrong > 0:
		return render.Cell{Text: strconv.FormatUint(*wrong, 10), Mood: render.Bad}
	}
	return render.Cell{Text: "0", Mood: render.Good}
}

// figure writes a time or a bandwidth in six characters where it can, with as
// many digits as say something.
func figure(v float64) string {
	switch {
	case v >= 999.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 99.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v >= 9.9995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// BenchRow is a row of nccl-tests' table: one size, out of place and in place.
// JSON and CSV see two Measurements.
type BenchRow struct{ Out, In Measurement }

// Columns are nccl-tests' without the root, in 80 characters.
func (b BenchRow) Columns() []render.Column {
	return []render.Column{
		{Name: "size", Width: 8}, {Name: "count", Width: 8}, {Name: "type", Width: 7}, {Name: "op", Width: 4},
		{Name: "time", Width: 6}, {Name: "algbw", Width: 5}, {Name: "busbw", Width: 5}, {Name: "wrong", Width: 5},
		{Name: "time", Width: 6}, {Name: "algbw", Width: 5}, {Name: "busbw", Width: 5}, {Name: "wrong", Width: 5},
	}
}

// Cells implements render.Record.
func (b BenchRow) Cells() []render.Cell {
	op := b.Out.Op
	if op == "" {
		op = "none" // as nccl-tests has it
	}
	typ := b.Out.Type
	if typ == reduce.BFloat16.String() {
		typ = "bf16" // its alias: the one name that is too long for 80 columns
	}
	cells := render.Texts(eightDigits(b.Out.Bytes), eightDigits(b.Out.Count), typ, op)
	for _, m := range []Measurement{b.Out, b.In} {
		cells = append(cells, render.Texts(figure(m.Time.Mean), figure(m.AlgBW), figure(m.BusBW))...)
		cells = append(cells, wrongCell(m.Wrong))
	}
	return cells
}

// eightDigits writes a number that would not fit its column with the greatest
// unit (1024-based) that divides it: 1G, exactly.
func eightDigits(n uint64) string {
	if n < 1e8 {
		return strconv.FormatUint(n, 10)
	}
	return configs.FormatSize(n)
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
}
