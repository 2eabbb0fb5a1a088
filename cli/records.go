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

// P2PResult is one line of `bench p2p`.
type P2PResult struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	Op      string `json:"op"` // WRITE, READ or SEND
	Bytes   uint64 `json:"bytes"`
	Iters   int    `json:"iters"`
	// BW and MsgRate are of a bandwidth test, the times of a latency test: half
	// a round trip, or for READ a whole one.
	BW      float64  `json:"bw_GBps"`
	MsgRate float64  `json:"msg_rate_Mpps"`
	Time    P2PTimes `json:"time_us"`
}

// P2PTimes are the percentiles of a latency test, in microseconds.
type P2PTimes struct {
	Min  float64 `json:"min"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// Columns implements render.Record.
func (p P2PResult) Columns() []render.Column {
	return []render.Column{
		{Name: "op", Width: 5, Left: true}, {Name: "bytes", Width: 8}, {Name: "iters", Width: 6},
		{Name: "bw GB/s", Width: 7}, {Name: "Mpps", Width: 6},
		{Name: "t_min us", Width: 9}, {Name: "t_p50 us", Width: 9}, {Name: "t_p99 us", Width: 9}, {Name: "p99.9 us", Width: 9},
	}
}

// Cells implements render.Record.
func (p P2PResult) Cells() []render.Cell {
	return render.Texts(p.Op, strconv.FormatUint(p.Bytes, 10), strconv.Itoa(p.Iters), figure(p.BW), figure(p.MsgRate),
		figure(p.Time.Min), figure(p.Time.P50), figure(p.Time.P99), figure(p.Time.P999))
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
