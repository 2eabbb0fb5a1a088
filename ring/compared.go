package ring

import (
	"context"
	"slices"
	"strings"

	"ringcli/configs/codes"
	"ringcli/ring/diagnose"
)

// UnfitError is that the two ends of an edge do not fit, so that no operation may begin.
type UnfitError struct{ Faults []diagnose.Finding }

func (e *UnfitError) Error() string {
	var texts []string
	for _, f := range e.Faults {
		if !slices.Contains(texts, f.String()) { // two ranks have two edges, alike
			texts = append(texts, f.String())
		}
	}
	return "the two ends do not fit, so no operation begins: " + strings.Join(texts, "; ")
}

// FailureCode is that of the path MTU, the one attribute that a ping does not find out.
func (e *UnfitError) FailureCode() codes.Code {
	if slices.ContainsFunc(e.Faults, func(f diagnose.Finding) bool { return f.Attribute == "path_mtu" }) {
		return codes.MTU
	}
	return codes.Failed
}

// Compare compares both ends of the edges of some sides, where that is left to the operator
// (Options.ByHand): a ping is so short that it passes where operations would fail. Its error
// is an UnfitError. A neighbour that does not say what its end is tells nothing of it.
func (x *Ends) Compare(ctx context.Context, sides ...Side) error {
	if !x.byHand {
		return nil // RTR has agreed on all
	}
	var faults []diagnose.Finding
	for _, side := range sides {
		x.table.mu.Lock()
		e := x.table.edges[side]
		done := e == nil || e.compared
		x.table.mu.Unlock()
		if done {
			continue
		}
		own, peer, err := x.Both(ctx, side.Edge())
		if err != nil {
			continue
		}
		found := slices.DeleteFunc(diagnose.Compare(&own, &peer), func(f diagnose.Finding) bool { return f.Severity != diagnose.Fault })
		faults = append(faults, found...)
		x.table.change(func() { e.compared = len(found) == 0 })
	}
	if len(faults) > 0 {
		return &UnfitError{faults}
	}
	return nil
}
