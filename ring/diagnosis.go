package ring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap"
	"ringcli/ring/diagnose"
	"ringcli/verbs"
)

// Ends returns both ends of an edge as they were at one moment: the own one was
// the same before and after the neighbour's was asked for. If the edge does not
// come to rest within a few tries, Busy of the own end says so.
func (r *Ring) Ends(ctx context.Context, id EdgeID) (own, peer diagnose.End, err error) {
	if own, err = r.OwnEnd(id); err != nil {
		return own, peer, err
	}
	const tries = 4
	for range tries {
		if peer, err = r.PeerEnd(ctx, id); err != nil {
			return own, peer, err
		}
		before := own
		if own, err = r.OwnEnd(id); err != nil || diagnose.SameMoment(&before, &own) {
			return own, peer, err
		}
	}
	own.Busy = cmp.Or(own.Busy, "traffic")
	return own, peer, nil
}

// Diagnose explains what went wrong on an edge. cause is the error of a step, a
// ping, a post or an operation, or nil if there was none and yet nothing comes: it
// is as good at the end that waited in vain, and an error that names the other
// edge is none of this one. It asks the neighbour over TCP for its end. The likeliest
// finding comes first: what the own device reported comes before what follows from
// it. A healthy edge has notes at most.
func (r *Ring) Diagnose(ctx context.Context, id EdgeID, cause error) []diagnose.Finding {
	found, netdev := diagnosis(ctx, r, id, cause)
	if cause == nil && !r.Failed() {
		return found
	}
	d, _ := r.DeviceTo(id)
	if d == nil {
		return found
	}
	happened := r.devices.events.Findings(d.Name, netdev, r.rank, time.Now())
	if lead(r.rank, r.State(), cause) != nil {
		return append(found, happened...)
	}
	return append(happened, found...)
}

// diagnosis is Ring.Diagnose without what the device reported. It returns the network
// interface of the own end, too, if that can be had.
func diagnosis(ctx context.Context, r *Ring, id EdgeID, cause error) (found []diagnose.Finding, netdev string) {
	if completion, ok := errors.AsType[*CompletionError](cause); ok && completion.Edge != id {
		cause = nil // it is the other edge's
	}
	own, peer, err := r.Ends(ctx, id)
	if modify, ok := errors.AsType[*verbs.ModifyError](cause); ok && own.Node != "" && modify.QPN != own.QPN {
		cause = nil
	}
	switch {
	case own.Node == "": // the own end cannot be had, so what was asked of it could not work
		return lead(r.rank, r.State(), cmp.Or(cause, err)), ""
	case err != nil:
		mute := mute(ctx, r, &own)
		found := append(lead(own.Rank, r.State(), cause), alone(&own, err, r.Err())...)
		last := lastPeerEnd(r, id, &own)
		if last == nil || gone(r.Err()) || !diagnose.Failed(&own, last, cause) {
			return append(mute, found...), own.NetDev
		}
		return slices.Concat(mute, diagnose.Diagnose(&own, last, cause), found), own.NetDev
	default:
		return append(lead(own.Rank, r.State(), cause), diagnose.Diagnose(&own, &peer, cause)...), own.NetDev
	}
}

// mute tells of a neighbour that does not answer a call over TCP either: of a ring
// that has failed everybody may have left, but a host that is up refuses the call.
func mute(ctx context.Context, r *Ring, own *diagnose.End) []diagnose.Finding {
	control, err := r.controlRing()
	if err != nil || !r.Failed() {
		return nil
	}
	p := control.ProbeRank(ctx, own.Peer)
	if !p.Mute {
		return nil
	}
	return []diagnose.Finding{{
		Severity: diagnose.Fault, Attribute: "tcp", Rank: own.Peer, Own: own.QPState.String(),
		Text: fmt.Sprintf("rank %d (%s) is silent over TCP, too: %s", own.Peer, own.PeerNode, p.State),
		Fix:  "see whether that node runs and its network is up, then connect again",
	}}
}

// gone tells whether a ring failed because a rank is gone.
func gone(failure error) bool {
	v, ok := errors.AsType[*Verdict](failure)
	return ok && (v.Kind == bootstrap.KindLost || v.Kind == bootstrap.KindLeft || v.Kind == bootstrap.KindSilent)
}

// lead explains errors that say themselves what is wrong.
func lead(rank int, state State, cause error) []diagnose.Finding {
	f := diagnose.Finding{Severity: diagnose.Fault, Rank: rank}
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
	case errors.Is(cause, usage.Err):
		f.Attribute, f.Text = "usage", cause.Error()
		f.Tells = cause
	default:
		return nil
	}
	return []diagnose.Finding{f}
}

// offender names the attribute that Modify did not take.
func offender(e *verbs.ModifyError) (attribute, value string) {
	switch {
	case e.Missing != 0:
		return e.Missing.String(), "missing"
	case e.Unexpected != 0:
		return e.Unexpected.String(), "not allowed from " + e.From.String() + " to " + e.To.String()
	}
	if e.Field == "" {
		return "qp_state", e.From.String() + " to " + e.To.String()
	}
	return e.Field, e.Value
}

// alone is what can be said without the peer, which err kept from being asked.
func alone(own *diagnose.End, err, failure error) []diagnose.Finding {
	peer := fmt.Sprintf("rank %d (%s)", own.Peer, own.PeerNode)
	f := diagnose.Finding{Severity: diagnose.Fault, Rank: own.Peer, Own: own.QPState.String()}
	var verdict *Verdict
	var answer *bootstrap.AnswerError
	switch {
	case failure != nil:
		f.Attribute, f.Text, f.Fix = "ring", "the ring has failed: "+failure.Error(), "close it and connect again"
		f.Tells = failure
		if errors.As(failure, &verdict) && verdict.Rank >= 0 {
			f.Rank = verdict.Rank
		}
	case errors.As(err, &answer):
		f.Severity, f.Attribute = diagnose.Warning, "state"
		f.Text = fmt.Sprintf("%s answers over TCP, but not how its end is: %s", peer, answer.Text)
		f.Fix = fmt.Sprintf("take the missing step on rank %d", own.Peer)
	case errors.As(err, &verdict), errors.Is(err, context.DeadlineExceeded):
		f.Attribute = "tcp"
		f.Text, f.Tells = fmt.Sprintf("%s cannot be asked over TCP how its end is: %v", peer, err), err
		f.Fix = "see whether it still runs; if it does, look at the network between the two nodes"
	default:
		f.Severity, f.Attribute, f.Rank = diagnose.Note, "state", own.Rank
		f.Text = fmt.Sprintf("%s cannot be asked for its end yet: %v", peer, err)
	}
	found := []diagnose.Finding{f}
	if own.Failure != nil && !own.Failure.HasStatus(verbs.FlushError) {
		found = append(found, diagnose.Finding{Severity: diagnose.Fault, Attribute: "first_error", Rank: own.Rank, Own: own.FirstError,
			Text: fmt.Sprintf("the first failure of the queue pair of %s to rank %d was %s", own.Who(), own.Peer, own.FirstError)})
	}
	return found
}
