package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
)

// Verdict is the last word of a self-check, or of several.
type Verdict struct {
	Command  string   `json:"command"`
	OK       bool     `json:"ok"`
	Ranks    int      `json:"ranks"`
	Over     []string `json:"over"` // the device of each, or the providers of its edges
	Checks   int      `json:"checks"`
	Failed   int      `json:"failed"`
	Wrong    uint64   `json:"wrong"`
	Types    []string `json:"types"` // of element, which each check is of
	Sent     Sent     `json:"sent"`  // by all ranks
	Seconds  float64  `json:"seconds"`
	Problems []string `json:"problems,omitempty"`
}

// VerdictTable is the table of CSV that a self-check has unless another is asked for.
const VerdictTable = "Verdict"

// Sent is what the protocols had to send.
type Sent struct {
	EagerWrites uint64 `json:"eager_writes"` // WRITE_WITH_IMM into a slot
	Writes      uint64 `json:"writes"`       // WRITE_WITH_IMM into place
	Reads       uint64 `json:"reads"`
	RTS         uint64 `json:"rts"`
	CTS         uint64 `json:"cts"`
	FIN         uint64 `json:"fin"`
}

// Add adds what another rank, or another self-check, has sent.
func (s *Sent) Add(o Sent) {
	s.EagerWrites, s.Writes, s.Reads = s.EagerWrites+o.EagerWrites, s.Writes+o.Writes, s.Reads+o.Reads
	s.RTS, s.CTS, s.FIN = s.RTS+o.RTS, s.CTS+o.CTS, s.FIN+o.FIN
}

func (v *Verdict) add(o Verdict) {
	v.OK, v.Types = v.OK && o.OK, o.Types
	v.Over, v.Problems = append(v.Over, o.Over...), append(v.Problems, o.Problems...)
	v.Checks, v.Failed, v.Wrong, v.Seconds = v.Checks+o.Checks, v.Failed+o.Failed, v.Wrong+o.Wrong, v.Seconds+o.Seconds
	v.Sent.Add(o.Sent)
}

// Lines implements render.Told.
func (v Verdict) Lines() []render.Line {
	over := fmt.Sprintf("%d ranks of %s", v.Ranks, strings.Join(v.Over, " and "))
	last := render.Line{Mood: render.Good, Text: fmt.Sprintf("OK: %s, %d checks, 0 wrong elements (%s), %.1f s", over, v.Checks, strings.Join(v.Types, ", "), v.Seconds)}
	if !v.OK {
		last = render.Line{Mood: render.Bad, Text: fmt.Sprintf("FAILED: %s, %d of %d checks, %d wrong elements, %.1f s", over, v.Failed, v.Checks, v.Wrong, v.Seconds)}
	}
	if len(v.Over) > 1 {
		return []render.Line{last}
	}
	return []render.Line{
		{Text: fmt.Sprintf("eager: %d WRITE_WITH_IMM into slots", v.Sent.EagerWrites)},
		{Text: fmt.Sprintf("rendezvous: %d RTS, %d CTS, %d WRITE_WITH_IMM, %d READ, %d FIN", v.Sent.RTS, v.Sent.CTS, v.Sent.Writes, v.Sent.Reads, v.Sent.FIN)},
		last,
	}
}

// checkedDevices are what the self-check runs over where no device is named: packets, as
// between hosts, and what these ranks take by themselves.
var checkedDevices = []string{"soft:lo", "auto"}

// selfCheck runs it over one after the other, in rings of their own, and sums up. Wrong
// data over one says nothing about the other; a ring that came to no verdict does.
func selfCheck(ctx context.Context, s *session.Session, n int, args []string) (worst error) {
	sum := Verdict{Command: "self-check", OK: true, Ranks: n}
	s.Out.PreferTable(VerdictTable)
	for i, device := range checkedDevices {
		if i > 0 {
			s.Out.SetHeaded()
			args = append(slices.Clone(args), "--"+session.HeadedFlag+"=1")
		}
		read, write, err := os.Pipe()
		if err != nil {
			return fmt.Errorf("make a pipe from the ranks: %w", err)
		}
		s.Ledger.Begin(device)
		err = run(ctx, s, n, append(slices.Clone(args), "--device="+device), write)
		text, readErr := io.ReadAll(read)
		err = errors.Join(err, readErr, read.Close())
		if len(text) == 0 {
			if err == nil {
				err = fmt.Errorf("self-check over %s: rank 0 ended without a verdict", device)
			}
			return exit.Graver(worst, err)
		}
		var v Verdict
		if err := json.Unmarshal(text, &v); err != nil {
			return fmt.Errorf("what rank 0 found over %s: %w", device, err)
		}
		sum.add(v)
		worst = exit.Graver(worst, err)
		if ctx.Err() != nil {
			return worst
		}
	}
	s.Ledger.Begin("")
	return errors.Join(s.Out.Print(sum), worst)
}
