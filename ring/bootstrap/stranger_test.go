package bootstrap

import (
	"errors"
	"strings"
	"testing"
)

// A verdict on a large ring names many ranks: probes, and callers that are refused with it,
// can still read it.
func TestALongVerdictFitsAGreeting(t *testing.T) {
	t.Parallel()
	nodes := freshNodes(t, 2)
	one := openRank(t, configFor(t, nodes, 1))
	one.Fail(&Verdict{Kind: KindTimeout, Rank: -1, By: 1, Text: "timed out: " + strings.Repeat("rank 7 (node7): no answer; ", 4000)})
	zero := openRank(t, configFor(t, nodes, 0))
	if p := zero.ProbeRank(t.Context(), 1); !p.Up || !strings.HasPrefix(p.State, "up, failed: timed out") {
		t.Errorf("a probe hears %+v", p)
	}
	var v *Verdict
	if err := exchange(within(t), zero); !errors.As(err, &v) || v.By != 1 || !strings.HasPrefix(v.Text, "timed out: rank 7") {
		t.Errorf("a caller hears %v", err)
	}
}
