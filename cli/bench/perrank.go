package bench

import (
	"ringcli/cli/render"
	"ringcli/cli/session"
)

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
		rows = append(rows, RankRow{Command: m.Command, OK: r.Wrong == nil || *r.Wrong == 0, RankMeasurement: r})
	}
	return s.Out.Print(rows...)
}
