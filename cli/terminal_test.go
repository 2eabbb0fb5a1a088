package cli

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"ringcli/verbs/verbstest"
)

// Four terminals, each with a rank, as an operator has them.
func TestFourTerminals(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	proves, works := []string{"--check"}, []string{"-c", "all-reduce --check"}
	for _, c := range []struct {
		name  string
		order []int
		runs  []string
	}{{"0 first", []int{0, 1, 2, 3}, works}, {"0 last", []int{1, 2, 3, 0}, proves}, {"3 last", []int{2, 0, 1, 3}, works}} {
		if testing.Short() && c.name != "0 last" {
			continue // a sample
		}
		t.Run(c.name, func(t *testing.T) {
			m, list := newTmux(t), strings.Join(freshList(t, 4), ",")
			panes := map[int]*pane{}
			for i, rank := range c.order {
				if i > 0 {
					time.Sleep(500 * time.Millisecond)
				}
				// The ranks and what else runs share the CPUs: queue pairs try for longer.
				panes[rank] = m.open(t, append([]string{"connect", "--index", strconv.Itoa(rank), "--list", list, "--qp-timeout", "17"}, c.runs...)...)
			}
			for rank, p := range panes {
				if code := p.left(); code != "0" {
					t.Errorf("rank %d: exit code %s\n%s", rank, code, p.screen())
				}
			}
		})
	}
}
