package diagnose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"ringcli/verbs"
)

// Diagnose explains what went wrong on an edge: it puts the findings of a comparison into
// the order that a failure suggests, and adds what only the failure tells. cause is the
// error of whoever failed or waited in vain, or nil.
func Diagnose(own, peer *End, cause error) []Finding {
	found := Compare(own, peer)
	s, failed := primary(own, peer, cause)
	if !failed {
		return inVain(own, peer, cause, found)
	}
	var first, rest []Finding
	for _, f := range found {
		if s.suspect(f) >= 0 && f.Severity != Note {
			f.Severity = Fault
			first = append(first, f)
		} else {
			rest = append(rest, f)
		}
	}
	slices.SortStableFunc(first, func(a, b Finding) int { return cmp.Compare(s.suspect(a), s.suspect(b)) })
	if len(first) == 0 {
		first = append(first, *cmp.Or(s.evidence(), s.fault("first_error", s.from.Rank, s.text(), s.to.QPState.String(),
			fmt.Sprintf("a request of %s to %s failed: %s", s.from.Who(), s.to.Who(), s.text()), again)))
	}
	return append(first, rest...)
}

// Failed tells whether some request failed by itself, as the ends or the error have it.
func Failed(own, peer *End, cause error) bool {
	_, failed := primary(own, peer, cause)
	return failed
}

// primary finds the failure that the others follow from: not a flush, and rather
// what an end says of itself than what it says of the other.
func primary(own, peer *End, cause error) (symptom, bool) {
	both := directions(own, peer)
	var candidates []symptom
	for _, d := range both {
		if f := d.from.Failure; f != nil {
			candidates = append(candidates, symptom{d, verbs.Status(f.Status), f})
		}
	}
	if e, ok := errors.AsType[*verbs.StatusError](cause); ok && !own.Failure.HasStatus(e.Status) {
		candidates = append(candidates, symptom{both[0], e.Status, nil})
	}
	weight := map[verbs.Status]int{
		verbs.LocalLengthError: -1, verbs.LocalProtectionError: -1, verbs.LocalQPOpError: -1, verbs.RetryExceeded: 1, verbs.FlushError: 2,
	}
	slices.SortStableFunc(candidates, func(a, b symptom) int { return cmp.Compare(weight[a.status], weight[b.status]) })
	if len(candidates) == 0 || candidates[0].status == verbs.FlushError {
		return symptom{}, false
	}
	return candidates[0], true
}

// inVain is for a wait that nothing ended: no request failed at either end, or
// none that has been polled.
func inVain(own, peer *End, cause error, found []Finding) []Finding {
	if cause == nil {
		return found
	}
	for i := range found {
		if found[i].Attribute == "qp_state" && found[i].Severity == Warning {
			found[i].Severity = Fault
		}
	}
	bySeverity(found)
	if len(found) > 0 && found[0].Severity != Note {
		return found
	}
	s := symptom{direction: direction{own, peer, true}, status: verbs.RetryExceeded}
	var f Finding
	switch doing := func(e *End) string { return cmp.Or(e.Busy, "nothing") }; {
	case own.SendsPosted > 0 && psnDiff(own.SQPSN, peer.RQPSN) > 0:
		f = *s.silence()
	case peer.SendsPosted > 0 && psnDiff(peer.SQPSN, own.RQPSN) > 0:
		f = *s.swapped().silence()
	case errors.Is(cause, context.DeadlineExceeded) || errors.Is(cause, verbs.ErrTimeout):
		f = s.finding(Warning, "busy", peer.Rank, doing(own), doing(peer),
			fmt.Sprintf("both ends agree, and nothing is under way between %s and %s, where %s runs: one of them has not begun, or waits for somebody else",
				own.Who(), peer.Who(), doing(peer)),
			"run the same operations in the same order on all ranks")
	default:
		f = s.finding(Warning, "cause", own.Rank, own.QPState, peer.QPState, "both ends agree; the error was: "+cause.Error(), "")
		f.Tells = cause
	}
	return append([]Finding{f}, found...)
}
