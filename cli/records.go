package cli

import (
	"strconv"

	"ringcli/cli/render"
)

// Failure is a command that ended in an error.
type Failure struct {
	Command  string `json:"command"`
	OK       bool   `json:"ok"` // false
	Error    string `json:"error"`
	ExitCode int    `json:"exit_code"`
	// Rank is there where one process reports for several ranks.
	Rank *int `json:"rank,omitempty"`
	// Findings are what a diagnosis of both ends found, the likeliest first.
	Findings []SideFinding `json:"findings,omitempty"`
}

// Columns implements render.Record.
func (f Failure) Columns() []render.Column {
	return []render.Column{{Name: "command", Left: true}, {Name: "exit code"}, {Name: "error", Left: true}}
}

// Cells implements render.Record.
func (f Failure) Cells() []render.Cell {
	return []render.Cell{{Text: f.Command}, {Text: strconv.Itoa(f.ExitCode)}, {Text: f.Error, Mood: render.Bad}}
}

// Verdict is the last word of a self-check.
type Verdict struct {
	Command  string   `json:"command"`
	OK       bool     `json:"ok"`
	Ranks    int      `json:"ranks"`
	Checks   int      `json:"checks"`
	Failed   int      `json:"failed"`
	Wrong    uint64   `json:"wrong"`
	Seconds  float64  `json:"seconds"`
	Problems []string `json:"problems,omitempty"`
}

// ConfigEntry is a setting's value in force.
type ConfigEntry struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	Name    string `json:"name"`
	Value   string `json:"value"`
	Origin  string `json:"origin"`
}

// Columns implements render.Record.
func (c ConfigEntry) Columns() []render.Column {
	return []render.Column{
		{Name: "setting", Left: true}, {Name: "origin", Left: true}, {Name: "value", Left: true},
	}
}

// Cells implements render.Record.
func (c ConfigEntry) Cells() []render.Cell {
	origin := render.Cell{Text: c.Origin}
	if c.Origin == "default" {
		origin.Mood = render.Faint
	}
	value := c.Value
	if value == "" {
		value = "-"
	}
	return []render.Cell{{Text: c.Name}, origin, {Text: value}}
}

// VersionInfo says what this binary is.
type VersionInfo struct {
	Command   string   `json:"command"`
	OK        bool     `json:"ok"`
	Version   string   `json:"version"`
	Revision  string   `json:"revision"`
	Go        string   `json:"go"`
	OS        string   `json:"os"`
	Arch      string   `json:"arch"`
	Providers []string `json:"providers"`
}
