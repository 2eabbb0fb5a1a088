package edges

import (
	"context"
	"errors"
	"fmt"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap"
	"ringcli/ring/diagnose"
	"ringcli/ring/steps"
	"ringcli/verbs"
)

// Gone tells whether a ring failed because a rank is gone.
func Gone(failure error) bool {
	v, ok := errors.AsType[*bootstrap.Verdict](failure)
	return ok && (v.Kind == bootstrap.KindLost || v.Kind == bootstrap.KindLeft || v.Kind == bootstrap.KindSilent)
}

// Lead explains errors that say themselves what is wrong.
func Lead(rank int, state steps.State, cause error) []diagnose.Finding {
	f := diagnose.Finding{Severity: diagnose.Fault, Rank: rank}
	var step *steps.OrderError
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

// Alone is what can be said without the peer, which err kept from being asked.
func Alone(own *diagnose.End, err, failure error) []diagnose.Finding {
	peer := fmt.Sprintf("rank %d (%s)", own.Peer, own.PeerNode)
	f := diagnose.Finding{Severity: diagnose.Fault, Rank: own.Peer, Own: own.QPState.String()}
	var verdict *bootstrap.Verdict
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
