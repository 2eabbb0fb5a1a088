package cli

import (
	"fmt"
	"strings"
	"testing"

	"ringcli/cli/exit"
)

// A bring-up in which rank 1 takes other values than the proper ones: whoever
// then uses the ring is told the cause.
func TestWrongValuesAreExplained(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rtr  string // of rank 1, and rts
		says string // to rank 0
	}{
		"PSN ahead":  {"rtr --side left --psn 5; rtr --side right; rts", "PSN"},
		"wrong QPN":  {"rtr --side left --dest-qpn 0x4242; rtr --side right; rts", "qpn"},
		"still INIT": {"rtr --side right; rts --side right", "INIT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := strings.Join(freshList(t, 2), ",")
			var ranks []*piped
			for rank := range 2 {
				p := pipe(t, "shell", "--index", fmt.Sprint(rank), "--list", list, "--timeout", "20s", "--output", "json", "--trace", "ring=debug")
				p.line("open; init --psn 4096; exchange")
				ranks = append(ranks, p)
			}
			zero, one := ranks[0], ranks[1]
			one.line(c.rtr + "; show timeout")
			one.await(one.out, `"command":"show"`, 1)
			zero.line("rtr; rts --qp-timeout 10 --retry-cnt 2; ping right --iters 1")
			code := zero.over()
			all := objects(t, zero.out.String())
			failure := all[len(all)-1]
			said := strings.ToLower(fmt.Sprint(failure["error"], failure["findings"]))
			if code != exit.Critical || !strings.Contains(said, strings.ToLower(c.says)) {
				t.Errorf("exit code %d: %v: expected %d, and %s", code, failure, exit.Critical, c.says)
			}
			one.await(one.err, "the ring failed", 1) // it only took other values, and is told what came of it
			if code := one.over(); code != exit.Critical || !strings.Contains(one.out.String(), `"error":"rank 0 reports: ping`) {
				t.Errorf("rank 1: exit code %d: expected %d, and what rank 0 reports\n%s%s", code, exit.Critical, one.out, one.err)
			}
		})
	}
}
