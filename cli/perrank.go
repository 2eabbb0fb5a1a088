package cli

import (
	"strconv"

	"ringcli/cli/render"
)

// RankRow is one rank's part of an operation, as --per-rank shows it.
type RankRow struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	RankMeasurement
}

// Columns implements render.Record.
func (r RankRow) Columns() []render.Column {
	return []render.Column{
		{Name: "rank", Width: 14}, {Name: "min us", Width: 9}, {Name: "p50 us", Width: 9},
		{Name: "p99 us", Width: 9}, {Name: "max us", Width: 9}, {Name: "mean us", Width: 9}, {Name: "wrong", Width: 7},
	}
}

// Cells implements render.Record.
func (r RankRow) Cells() []render.Cell {
	return append(render.Texts(strconv.Itoa(r.Rank), figure(r.Time.Min), figure(r.Time.P50), figure(r.Time.P99),
		figure(r.Time.Max), figure(r.Time.Mean)), wrongCell(r.Wrong))
}

// printRanks prints each rank's part below the whole. The JSON of the whole has
// them anyhow.
func (s *Session) printRanks(m Measurement) error {
	if s.Out.Format() == render.JSON {
		return nil
	}
	var rows []render.Record
	for _, r := range m.PerRank {
		rows = append(rows, RankRow{Command: m.Command, OK: r.Wrong == nil || *r.Wrong == 0, RankMeasurement: r})
	}
	return s.Out.Print(rows...)
}
