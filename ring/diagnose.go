package ring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ringcli/ring/bootstrap"
	"ringcli/verbs"
)

// Ends returns both ends of an edge as they were at one moment: the own one was
// the same before and after the neighbour's was asked for. If the edge does not
// come to rest within a few tries, Busy of the own end says so.
func (r *Ring) Ends(ctx context.Context, side Side) (own, peer End, err error) {
	if own, err = r.OwnEnd(side); err != nil {
		return own, peer, err
	}
	const tries = 4
	for range tries {
		if peer, err = r.PeerEnd(ctx, side); err != nil {
			return own, peer, err
		}
		before := own
		if own, err = r.OwnEnd(side); err != nil || sameMoment(&before, &own) {
			return own, peer, err
		}
	}
	own.Busy = cmp.Or(own.Busy, "traffic")
	return own, peer, nil
}

func sameMoment(a, b *End) bool {
	return a.QPState == b.QPState && a.SQPSN == b.SQPSN && a.RQPSN == b.RQPSN && a.SendsPosted == b.SendsPosted && a.Busy == b.Busy
}

// Diagnose explains what went wrong on an edge. cause is the error of a step, a
// ping, a post or an operation, or nil if there was none and yet nothing comes: it
// is as good at the end that waited in vain, and an error that names the other
// edge is none of this one. It asks the neighbour over TCP for its end. The likeliest
// finding comes first: what the own device reported comes before what follows from
// it. A healthy edge has notes at most.
func (r *Ring) Diagnose(ctx context.Context, side Side, cause error) []Finding {
	found, netdev := r.diagnosis(ctx, side, cause)
	if cause == nil && !r.Failed() {
		return found
	}
	d, _ := r.DeviceTo(side)
	if d == nil {
		return found
	}
	happened := r.mishaps.findings(d.Name, netdev, r.rank, time.Now())
	if lead(r.rank, r.State(), cause) != nil {
		return append(found, happened...)
	}
	return append(happened, found...)
}

// diagnosis is Diagnose without what the device reported. It returns the network
// interface of the own end, too, if that can be had.
func (r *Ring) diagnosis(ctx context.Context, side Side, cause error) (found []Finding, netdev string) {
	var completion *CompletionError
	if errors.As(cause, &completion) && completion.Side != side {
		cause = nil // it is the other edge's
	}
	own, peer, err := r.Ends(ctx, side)
	var modify *verbs.ModifyError
	if errors.As(cause, &modify) && own.Node != "" && modify.QPN != own.QPN {
		cause = nil
	}
	switch {
	case own.Node == "": // the own end cannot be had, so what was asked of it could not work
		return lead(r.rank, r.State(), cmp.Or(cause, err)), ""
	case err != nil:
		mute := r.mute(ctx, &own)
		found := append(lead(own.Rank, r.State(), cause), alone(&own, err, r.Err())...)
		seen := r.lastSeen(side, &own)
		if seen == nil || gone(r.Err()) {
			return append(mute, found...), own.NetDev
		}
		if _, failed := primary(&own, seen, cause); !failed {
			return append(mute, found...), own.NetDev
		}
		return slices.Concat(mute, diagnose(&own, seen, cause), found), own.NetDev
	default:
		return append(lead(own.Rank, r.State(), cause), diagnose(&own, &peer, cause)...), own.NetDev
	}
}

// mute tells of a neighbour that does not answer a call over TCP either: of a ring
// that has failed everybody may have left, but a host that is up refuses the call.
func (r *Ring) mute(ctx context.Context, own *End) []Finding {
	control, err := r.controlRing()
	if err != nil || !r.Failed() {
		return nil
	}
	p := control.ProbeRank(ctx, own.Peer)
	if !p.Mute {
		return nil
	}
	return []Finding{{
		Severity: Fault, Attribute: "tcp", Rank: own.Peer, Own: own.QPState,
		Text: fmt.Sprintf("rank %d (%s) is silent over TCP, too: %s", own.Peer, own.PeerNode, p.State),
		Fix:  "see whether that node runs and its network is up, then connect again",
	}}
}

// gone tells whether a ring failed because a rank is gone.
func gone(failure error) bool {
	var v *Verdict
	if !errors.As(failure, &v) {
		return false
	}
	return v.Kind == bootstrap.KindLost || v.Kind == bootstrap.KindLeft || v.Kind == bootstrap.KindSilent
}

// Explain puts the likeliest cause into one line, or returns "" if no finding is
// more than a note.
func Explain(findings []Finding) string {
	if len(findings) == 0 || findings[0].Severity == Note {
		return ""
	}
	return findings[0].String()
}

// lead explains errors that say themselves what is wrong.
func lead(rank int, state State, cause error) []Finding {
	f := Finding{Severity: Fault, Rank: rank}
	var step *StepError
	var modify *verbs.ModifyError
	switch {
	case cause == nil:
		return nil
	case errors.As(cause, &step):
		f.Attribute, f.Own, f.Text = "state", state.String(), fmt.Sprintf("rank %d: %s", rank, cause)
		if step.Missing != "" {
			f.Fix = "run " + step.Missing + " first"
		}
	case errors.As(cause, &modify):
		f.Attribute, f.Own = offender(modify)
		f.Text = fmt.Sprintf("rank %d: %s", rank, cause)
		f.Fix = "give " + f.Attribute + " a value that the device takes; the queue pair is still " + modify.From.String()
	case errors.Is(cause, ErrUsage):
		f.Attribute, f.Text = "usage", cause.Error()
	default:
		return nil
	}
	return []Finding{f}
}

// offender names the attribute that Modify did not take.
func offender(e *verbs.ModifyError) (attribute, value string) {
	switch {
	case e.Missing != 0:
		return e.Missing.String(), "missing"
	case e.Unexpected != 0:
		return e.Unexpected.String(), "not allowed from " + e.From.String() + " to " + e.To.String()
	}
	name, rest, _ := strings.Cut(e.Reason, " ")
	if !strings.Contains(name, "_") {
		return "qp_state", e.From.String() + " to " + e.To.String()
	}
	value, _, _ = strings.Cut(rest, ":")
	return name, value
}

// alone is what can be said without the peer, which err kept from being asked.
func alone(own *End, err, failure error) []Finding {
	peer := fmt.Sprintf("rank %d (%s)", own.Peer, own.PeerNode)
	f := Finding{Severity: Fault, Rank: own.Peer, Own: own.QPState}
	var verdict *Verdict
	var answer *bootstrap.AnswerError
	switch {
	case failure != nil:
		f.Attribute, f.Text, f.Fix = "ring", "the ring has failed: "+failure.Error(), "close it and connect again"
		if errors.As(failure, &verdict) && verdict.Rank >= 0 {
			f.Rank = verdict.Rank
		}
	case errors.As(err, &answer):
		f.Severity, f.Attribute = Warning, "state"
		f.Text = fmt.Sprintf("%s answers over TCP, but not how its end is: %s", peer, answer.Text)
		f.Fix = fmt.Sprintf("take the missing step on rank %d", own.Peer)
	case errors.As(err, &verdict), errors.Is(err, context.DeadlineExceeded):
		f.Attribute = "tcp"
		f.Text = fmt.Sprintf("%s cannot be asked over TCP how its end is: %v", peer, err)
		f.Fix = "see whether it still runs; if it does, look at the network between the two nodes"
	default:
		f.Severity, f.Attribute, f.Rank = Note, "state", own.Rank
		f.Text = fmt.Sprintf("%s cannot be asked for its end yet: %v", peer, err)
	}
	found := []Finding{f}
	if own.Failure != nil && own.Failure.Status != uint32(verbs.FlushError) {
		found = append(found, Finding{Severity: Fault, Attribute: "first_error", Rank: own.Rank, Own: own.FirstError,
			Text: fmt.Sprintf("the first failure of the queue pair of %s to rank %d was %s", own.who(), own.Peer, own.FirstError)})
	}
	return found
}

// diagnose puts the findings of a comparison into the order that a failure
// suggests, and adds what only the failure tells.
func diagnose(own, peer *End, cause error) []Finding {
	found := Compare(*own, *peer)
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
		if f := s.evidence(); f != nil {
			first = append(first, *f)
		} else {
			f := s.finding("first_error", s.from.Rank, s.text(), s.to.QPState,
				fmt.Sprintf("a request of %s to %s failed: %s", s.from.who(), s.to.who(), s.text()), again)
			first = append(first, *f)
		}
	}
	return append(first, rest...)
}

// primary finds the failure that the others follow from: not a flush, and rather
// what an end says of itself than what it says of the other.
func primary(own, peer *End, cause error) (symptom, bool) {
	outward, inward := flow{own, peer, true}, flow{peer, own, false}
	var candidates []symptom
	if f := own.Failure; f != nil {
		candidates = append(candidates, symptom{outward, verbs.Status(f.Status), f})
	}
	if f := peer.Failure; f != nil {
		candidates = append(candidates, symptom{inward, verbs.Status(f.Status), f})
	}
	var e *verbs.StatusError
	if errors.As(cause, &e) && (own.Failure == nil || own.Failure.Status != uint32(e.Status)) {
		candidates = append(candidates, symptom{outward, e.Status, nil})
	}
	weight := func(s symptom) int {
		switch s.status {
		case verbs.LocalLengthError, verbs.LocalProtectionError, verbs.LocalQPOpError:
			return 0
		case verbs.RetryExceeded:
			return 2
		case verbs.FlushError:
			return 3
		default:
			return 1
		}
	}
	slices.SortStableFunc(candidates, func(a, b symptom) int { return cmp.Compare(weight(a), weight(b)) })
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
	s := symptom{flow: flow{own, peer, true}, status: verbs.RetryExceeded}
	if own.SendsPosted > 0 && psnDiff(own.SQPSN, peer.RQPSN) > 0 {
		return append([]Finding{*s.silence()}, found...)
	}
	if peer.SendsPosted > 0 && psnDiff(peer.SQPSN, own.RQPSN) > 0 {
		return append([]Finding{*s.swapped().silence()}, found...)
	}
	doing := func(e *End) string { return cmp.Or(e.Busy, "nothing") }
	if errors.Is(cause, context.DeadlineExceeded) || errors.Is(cause, verbs.ErrTimeout) {
		return append([]Finding{{Severity: Warning, Attribute: "busy", Rank: peer.Rank, Own: doing(own), Peer: doing(peer),
			Text: fmt.Sprintf("both ends agree, and nothing is under way between %s and %s, where %s runs: one of them has not begun, or waits for somebody else",
				own.who(), peer.who(), doing(peer)),
			Fix: "run the same operations in the same order on all ranks"}}, found...)
	}
	return append([]Finding{{Severity: Warning, Attribute: "cause", Rank: own.Rank, Own: own.QPState, Peer: peer.QPState,
		Text: "both ends agree; the error was: " + cause.Error()}}, found...)
}
