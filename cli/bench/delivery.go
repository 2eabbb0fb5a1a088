package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/collective/lateness"
)

// Delivery is what was lost on the way, from before the warm-up on.
type Delivery struct {
	// Resent is how much of the packets the worst edge sent again; absent where a device does
	// not count that for each queue pair.
	Resent *float64 `json:"resent_pct,omitempty"`
	// Worst is the edge that sent most packets again; absent if nothing was lost.
	Worst *lateness.Loss `json:"worst_edge,omitempty"`
}

// deliveryOf puts together what the ranks counted.
func deliveryOf(each []told) (d Delivery) {
	var worst lateness.Loss
	counted := true
	for _, t := range each {
		counted = counted && t.Counted
		worst = worst.Plus(t.Waits.Loss)
	}
	if worst.Any() {
		d.Worst = &worst
	}
	if counted {
		d.Resent = new(math.Round(worst.Share()*1e6) / 1e4)
	}
	return d
}

// note says what was lost: for people.
func (d Delivery) note(m *session.Member, out *render.Printer) error {
	if d.Worst == nil {
		return nil
	}
	nodes, l := m.Ring.Nodes(), d.Worst
	return out.Note(render.Fair, "worst edge, rank %d (%s) to rank %d (%s): %s", l.From, nodes[l.From], l.To, nodes[l.To], l)
}

// mostResent is the value of --max-resent in percent; nil if it is not given.
type mostResent = *float64

func maxResentFlag(fs *pflag.FlagSet) {
	text := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) + "%" }
	fs.Var(&command.Parsed[float64]{Kind: "%", Parse: parseShare, Text: text}, "max-resent", "exit with 1 if an edge sends more of its packets again, such as 0.1%")
	command.Completes(fs, "max-resent", "nothing")
}

func parseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	if v, err := strconv.ParseFloat(number, 64); err == nil && percent && v >= 0 && v <= 100 {
		return v, nil
	}
	return 0, fmt.Errorf("expected a share of 0%% to 100%% of the packets, such as 0.1%%")
}

// exceeds holds what was sent again against --max-resent: the same on all ranks.
func (d Delivery) exceeds(most mostResent, what string) error {
	switch {
	case most == nil:
		return nil
	case d.Resent == nil:
		return exit.Sharedf(exit.Usage, "--max-resent %v%%: a device of the ring does not count for each edge which packets it sends again: expected soft or shm devices; `counters` shows what the ports count", *most)
	case *d.Resent > *most:
		l := d.Worst
		return exit.Sharedf(exit.Warning, "lossy: %s: rank %d to rank %d: %s; expected at most %v %%", what, l.From, l.To, l, *most)
	}
	return nil
}
