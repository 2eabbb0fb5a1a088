package failure

import (
	"errors"
	"fmt"
	"testing"

	"ringcli/ring"
	"ringcli/ring/bootstrap"
	"ringcli/ring/diagnose"
)

// A finding that says what the error says anyway is no news.
func TestWithNews(t *testing.T) {
	lost := &ring.Verdict{Kind: bootstrap.KindLost, Rank: 2, By: 0, Text: "rank 2 was lost"}
	again := *lost
	other := &ring.Verdict{Kind: bootstrap.KindLost, Rank: 3, By: 0, Text: "rank 3 was lost"}
	failed := errors.New("a request failed")
	for name, c := range map[string]struct {
		err     error
		finding diagnose.Finding
		kept    bool
	}{
		"a fault":                      {failed, diagnose.Finding{Severity: diagnose.Fault, Attribute: "rq_psn"}, true},
		"nothing was found":            {failed, diagnose.Finding{Severity: diagnose.Warning, Attribute: "cause", Tells: failed}, false},
		"the same verdict":             {fmt.Errorf("all-reduce: %w", lost), diagnose.Finding{Severity: diagnose.Fault, Attribute: "tcp", Tells: &again}, false},
		"another verdict":              {fmt.Errorf("all-reduce: %w", lost), diagnose.Finding{Severity: diagnose.Fault, Attribute: "tcp", Tells: other}, true},
		"the ring's end":               {failed, diagnose.Finding{Severity: diagnose.Fault, Attribute: "ring", Tells: fmt.Errorf("%w; port 1 is down", failed)}, false},
		"the ring's end, several":      {errors.Join(failed), diagnose.Finding{Severity: diagnose.Fault, Attribute: "ring", Tells: failed}, false},
		"the ring's end, and one more": {errors.Join(failed, lost), diagnose.Finding{Severity: diagnose.Fault, Attribute: "ring", Tells: failed}, true},
		"a mistake":                    {failed, diagnose.Finding{Severity: diagnose.Fault, Attribute: "usage", Tells: failed}, true},
	} {
		var told *explained
		if kept := errors.As(WithNews(c.err, []SideFinding{{Finding: c.finding}}), &told); kept != c.kept {
			t.Errorf("%s: kept is %v", name, kept)
		}
	}
}
