package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"ringcli/cli/bench/batch"
	"ringcli/cli/bench/windows"
	"ringcli/cli/command"
	"ringcli/cli/render"
	"ringcli/cli/timing"
	"ringcli/collective"
	"ringcli/collective/lateness"
)

// BarrierTime is how long barriers take by one algorithm and protocol. They move nothing: there
// are no bytes, no bandwidth and nothing that could be wrong. The names are a Measurement's.
type BarrierTime struct {
	Command   string               `json:"command" col:"operation|14"`
	OK        bool                 `json:"ok"`
	Protocol  collective.Protocol  `json:"protocol"`
	Algorithm collective.Algorithm `json:"algorithm" col:"algo/protocol|21"`
	Backend   string               `json:"backend,omitempty"` // that is not our ring, and chose the two above itself
	Ranks     int                  `json:"ranks"`
	Iters     int                  `json:"iters" col:"iters|8"`
	Time      timing.Times         `json:"time_us" col:"P50=p50 us|7; P99=p99 us|7; Mean=mean us|7"`
	Spread    *float64             `json:"spread_pct" col:"±%|4|%.0f"`
	// Of several that are compared: whether this is the fastest, and what auto takes.
	Fastest bool                 `json:"fastest,omitempty"`
	Auto    bool                 `json:"auto,omitempty"`
	PerRank []BarrierRank        `json:"per_rank,omitempty"` // on the leader
	CPUs    []int                `json:"cpus,omitempty"`     // that the ranks poll on; absent where it is not settled for all
	Late    []windows.Stragglers `json:"late,omitempty"`
	// CutShort is a Measurement's.
	CutShort bool `json:"cut_short,omitempty"`
	Delivery
}

// BarrierRank is one rank's part of a BarrierTime.
type BarrierRank struct {
	Rank  int              `json:"rank"`
	Time  timing.Times     `json:"time_us"`
	Waits *lateness.Record `json:"waits,omitempty"`
}

// record is what is printed of a measurement.
func (m Measurement) record() render.Record {
	if m.Command != collective.OpBarrier.String() {
		return m
	}
	return m.barrier()
}

func (m Measurement) barrier() BarrierTime {
	t := BarrierTime{
		Command: m.Command, OK: m.OK, Protocol: m.Protocol, Algorithm: m.Algorithm, Backend: m.Backend, Ranks: m.Ranks, Iters: m.Iters, Time: m.Time, Spread: m.Spread,
		CPUs: m.CPUs, Late: m.Late, CutShort: m.CutShort, Delivery: m.Delivery,
	}
	for _, r := range m.PerRank {
		t.PerRank = append(t.PerRank, BarrierRank{r.Rank, r.Time, r.Waits})
	}
	return t
}

// Adjust implements render.Adjuster.
func (t BarrierTime) Adjust(column string, cell *render.Cell) {
	if column != "algo/protocol" {
		return
	}
	if cell.Text = (Variant{t.Algorithm, t.Protocol, t.Backend}).short(); t.Fastest {
		cell.Text += " " + markBest
		cell.Mood = render.Good
	}
	if t.Auto {
		cell.Text += " " + markAuto
	}
}

// barrierFlags are those of the command `barrier`.
func barrierFlags(fs *pflag.FlagSet) {
	batch.Flags(fs)
	backendFlag(fs, false)
	fs.Bool(perRank, false, "show every rank's own times, too")
}

const perRank = "per-rank"

// vectorsOnly are flags of a bench that mean nothing to a barrier.
var vectorsOnly = []string{"begin", "end", "factor", "segment", "depth", "type", "op", "root", "buffers", "memory", "sync", verifySegments, "floor", "max-resent", "window", "check", "checks", "html"}

// barriers measures barriers in one way, or in several by turns.
func (b sweep) barriers(ctx context.Context, asked Variants) error {
	s := b.s
	asked, err := b.o.settle(ctx, s.Member, s, asked)
	if err != nil {
		return err
	}
	if len(asked) == 1 {
		if err := s.Out.Notes(render.Faint, b.title, "a row: "+b.o.often()); err != nil {
			return err
		}
		m, err := measure(ctx, s.Member, s, b.o)
		if err != nil {
			return err
		}
		return errors.Join(s.Out.Print(m.barrier()), m.note(s.Member, s.Out))
	}
	list, err := possible(s.Member, s, b.o, asked)
	if err != nil {
		return err
	}
	row, err := compare(ctx, s.Member, s, b.o, list)
	if err != nil {
		return err
	}
	var records []render.Record
	for i, m := range row.Each {
		t := m.barrier()
		t.Fastest, t.Auto = i == row.Best, m.variant() == row.Auto
		records = append(records, t)
	}
	note := s.Out.Notes(render.Faint, b.title, fmt.Sprintf("the median of interleaved rounds of %s; %s is the fastest, %s is what auto takes", b.o.turns(), markBest, markAuto))
	return errors.Join(note, s.Out.Print(records...))
}

// barrierRow is the command.
func barrierRow() command.Row {
	o := collective.OpBarrier
	summary, about := o.Help()
	return command.Row{
		Name: o.String(), Aliases: o.Aliases(), Group: command.GroupCollective, Where: command.Line, Summary: summary,
		Needs: command.Ready, Stops: true, Harmless: true,
		Long: about + `

Times are the slowest rank's, in microseconds. There is no size, no type, no
root and no bandwidth. A rank that kept the others waiting is told, with
--duration when it happens (help benchmarks).`,
		Settings: []string{"algorithm", "protocol"}, Flags: barrierFlags, Check: checkOperation, Run: runOperation,
	}
}
