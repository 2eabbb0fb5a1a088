package hand

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/render"
	"ringcli/cli/session"
)

func countersRow() command.Row {
	return command.Row{
		Name: "counters", Group: command.GroupLook, Where: command.Line, Needs: command.Opened, Own: true, Harmless: true,
		Summary: "Show what the devices and the collectives counted",
		Long: `Shows the devices' counters under their hardware names and, once the ring has
computed, what the collectives counted: what they are, and what they grew by
since they were shown last, or since the ring came up. Counters that are zero
are left out without --all.

` + ownOrAllHelp,
		Flags: func(fs *pflag.FlagSet) { fs.Bool("all", false, "show counters that are zero, too") },
		Run: func(ctx context.Context, s *session.Session, call command.Call) error {
			return ownOrAll(ctx, s, call, ownCounters, allCounters)
		},
	}
}

// growth is a rank's counters and what they grew by.
type growth struct {
	Value map[string]uint64 `json:"value"`
	Delta map[string]uint64 `json:"delta"`
}

func grown(now, before map[string]uint64) growth {
	g := growth{now, make(map[string]uint64, len(now))}
	for name, v := range now {
		g.Delta[name] = v - min(v, before[name])
	}
	return g
}

func ownCounters(_ context.Context, s *session.Session, call command.Call) error {
	m := s.Member
	if m == nil {
		m = &session.Member{Ring: s.Ring}
	}
	now, err := m.Counters()
	if err != nil {
		return err
	}
	rank := s.Ring.Rank()
	return printCounters(s, []growth{grown(now, workOf(s).show(s.Ring, now))}, &rank, command.IsOn(call.Flags, "all"))
}

func allCounters(ctx context.Context, s *session.Session, call command.Call) error {
	m := s.Member
	now, err := m.Counters()
	if err != nil {
		return err
	}
	mine := grown(now, m.Shown)
	m.Shown = now
	all, err := session.Share(ctx, m, mine)
	if err != nil {
		return err
	}
	return printCounters(s, all, nil, command.IsOn(call.Flags, "all"))
}

func printCounters(s *session.Session, ranks []growth, only *int, zeroes bool) error {
	keys := map[string]bool{} // ranks may have devices of different providers
	for _, g := range ranks {
		for key := range g.Value {
			keys[key] = true
		}
	}
	var rows []render.Record
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		source, name, _ := strings.Cut(key, "/")
		c := CounterValue{Command: "counters", OK: true, Rank: only, Source: source, Name: name}
		c.Unit = unitOf(source, name)
		if source != session.CollectiveSource && source != session.RingSource {
			c.Source, c.Provider = "device", source
		}
		for _, g := range ranks {
			c.Value += g.Value[key]
			c.Delta += g.Delta[key]
			c.PerRank = append(c.PerRank, g.Delta[key])
		}
		if c.Value > 0 || zeroes {
			rows = append(rows, c)
		}
	}
	return s.Out.Print(rows...)
}

// unitOf is what a counter counts, "" where only its maker knows: the port's by their names in
// InfiniBand's specification (PortXmitData is in words of 4 bytes), our own by what they are.
func unitOf(source, name string) string {
	switch {
	case strings.HasPrefix(name, "port_") && strings.HasSuffix(name, "_data"):
		return "4 bytes"
	case strings.HasSuffix(name, "_packets"), strings.HasSuffix(name, "_pkts"),
		source == "soft" && (strings.HasPrefix(name, "sent_") || strings.HasPrefix(name, "retransmitted_")),
		source == "soft" && slices.Contains([]string{"icrc_error", "unknown_qp", "wrong_peer", "send_dropped", "impaired_lost", "out_of_sequence", "duplicate_request"}, name):
		return "packets"
	case strings.HasSuffix(name, "_bytes"), source == session.CollectiveSource && slices.Contains([]string{"sent", "received", "copied_all_gather", "copied_own"}, name):
		return "bytes"
	}
	return ""
}

// CounterValue is a counter on all ranks, or on one.
type CounterValue struct {
	Command  string   `json:"command"`
	OK       bool     `json:"ok"`
	Rank     *int     `json:"rank,omitempty"`     // the only one that it is of
	Source   string   `json:"source"`             // device, ring or collective
	Provider string   `json:"provider,omitempty"` // of the devices
	Name     string   `json:"name"`
	Unit     string   `json:"unit,omitempty"` // of value and delta, where it is known
	Value    uint64   `json:"value"`          // summed over the ranks, since the device was opened
	Delta    uint64   `json:"delta"`          // summed over the ranks, since it was last shown
	PerRank  []uint64 `json:"delta_per_rank"`
}

// Row implements render.Tabular: what a counter grew by is one number, or one of each rank.
func (c CounterValue) Row() ([]render.Column, []render.Cell) {
	head, row := render.Select(c, "Source=source|10; Name=counter|24; Value=total|11; Unit=unit|7|left; PerRank=by rank")
	if c.Rank != nil {
		head[4].Name = "growth"
	}
	row[0].Text = cmp.Or(c.Provider, c.Source)
	row[4].Text = "+" + strings.ReplaceAll(row[4].Text, " ", " +")
	return head, row
}
