package cli

import (
	"fmt"
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

// PingResult is a rank's ping of its right neighbour: a message there and back
// over the queue pair, its bytes verified at both ends.
type PingResult struct {
	Command string    `json:"command"`
	OK      bool      `json:"ok"`
	Rank    int       `json:"rank"`
	Peer    int       `json:"peer"`
	Bytes   int       `json:"bytes"`
	Iters   int       `json:"iters"`
	RTT     RoundTrip `json:"rtt_us"`
}

// RoundTrip are the percentiles of whole round trips, in microseconds.
type RoundTrip struct {
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Columns implements render.Record.
func (p PingResult) Columns() []render.Column {
	return []render.Column{
		{Name: "ping", Width: 14, Left: true}, {Name: "bytes", Width: 6}, {Name: "iters", Width: 6},
		{Name: "min us", Width: 9}, {Name: "p50 us", Width: 9}, {Name: "p99 us", Width: 9}, {Name: "max us", Width: 9},
	}
}

// Cells implements render.Record.
func (p PingResult) Cells() []render.Cell {
	return render.Texts(fmt.Sprintf("%d -> %d", p.Rank, p.Peer), strconv.Itoa(p.Bytes), strconv.Itoa(p.Iters),
		figure(p.RTT.Min), figure(p.RTT.P50), figure(p.RTT.P99), figure(p.RTT.Max))
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
