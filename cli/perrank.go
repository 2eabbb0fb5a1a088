package cli

import (
	"ringcli/cli/render"
)

// RankRow is one rank's part of an operation, as --per-rank shows it.
type RankRow struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	RankMeasurement
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
