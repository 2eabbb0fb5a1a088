package ring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap"
	"ringcli/ring/diagnose"
	"ringcli/trace"
	"ringcli/verbs"
)

// Failed reports whether the ring failed, here or at any rank. It is one atomic
// load, for poll loops.
func (r *Ring) Failed() bool { return r.failed.Load() }

// Err returns why the ring failed: the first reason, or nil.
func (r *Ring) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Verdict returns why the ring failed as all its ranks are told, nil if it has not.
func (r *Ring) Verdict() *Verdict {
	r.mu.Lock()
	control := r.control
	r.mu.Unlock()
	if control == nil {
		return nil
	}
	return control.Failure()
}

// Fail fails the ring for all ranks: the queue pairs go to ERR, which flushes
// what is posted, and the reason goes round the control ring. The first reason
// counts; Fail may be called by anybody at any time. Settled tells what came of it.
func (r *Ring) Fail(err error) {
	var told string // the device whose event it is
	var d *DeviceError
	var c *CompletionError
	switch {
	case errors.As(err, &d):
		told = d.Device
	case errors.As(err, &c):
		told = c.Device
	}
	err = r.devices.events.Explaining(err, told)
	r.setFailed(err)
	r.mu.Lock()
	control := r.control
	r.mu.Unlock()
	if control != nil {
		control.Fail(r.verdict(err))
	}
}

// verdict is what an error of this rank says to the others.
func (r *Ring) verdict(err error) *Verdict {
	said := codes.Split(err)
	v := &Verdict{Kind: bootstrap.KindFailed, Rank: -1, Confidence: bootstrap.Certain, By: r.rank, Text: said.Result, Fix: said.Fix, Evidence: said.Evidence}
	var told *Verdict
	var c *CompletionError
	var d *DeviceError
	var disagreement *DisagreementError
	var s *StallError
	var corruption *CorruptionError
	var q *QueuePairError
	switch {
	case errors.As(err, &told):
		return told
	case errors.As(err, &s):
		s.Tell(v)
	case errors.As(err, &q):
		v.Kind, v.Confidence, v.Edge = bootstrap.KindEdge, bootstrap.Certain, bootstrap.Direction{From: r.rank, To: q.Peer, Both: true}
	case errors.As(err, &d):
		v.Rank, v.Confidence = r.rank, bootstrap.Certain
	case errors.As(err, &disagreement):
		v.Kind, v.Confidence, v.Calls = bootstrap.KindMismatch, bootstrap.Certain, disagreement.Calls
	case errors.As(err, &corruption):
		v.Kind, v.Confidence, v.Edge, v.Doing = bootstrap.KindCorrupt, bootstrap.Certain, corruption.Edge, corruption.Doing
	case usage.Is(err):
		v.Kind = bootstrap.KindMismatch
	case errors.Is(err, context.DeadlineExceeded):
		v.Kind, v.Confidence = bootstrap.KindTimeout, bootstrap.Suspect
	case errors.As(err, &c) && c.Status != verbs.FlushError: // which follows from another
		v.Rank, v.Confidence = c.Peer, bootstrap.Suspect
	case errors.Is(err, context.Canceled):
		v.Kind, v.Text = bootstrap.KindCanceled, fmt.Sprintf("%s was %s", r.NodeName(r.rank), ended(err))
		return v
	}
	if code := diagnose.FailureCode(err); code != v.FailureCode() && code != codes.Failed && code != codes.Usage {
		v.Code = code
	}
	return v
}

// ended says how a cancellation came about: another rank's user need not know of what.
func ended(err error) string {
	switch code, _ := codes.Of(err); code {
	case codes.Terminated:
		return "terminated (SIGTERM)"
	case codes.Interrupted:
		return "interrupted"
	}
	return "stopped"
}

// Settled returns why the ring has failed, once all ranks agree: the verdict that another
// rank came to, or err where it is this rank's own. What a rank that fails says
// of its neighbours may be news of a third; a moment later that has come.
func (r *Ring) Settled(err error) error {
	r.mu.Lock()
	control := r.control
	r.mu.Unlock()
	if control == nil {
		return err
	}
	v := control.Settled(r.life)
	switch {
	case v == nil:
		return err
	case r.isOwn(v):
		return &settled{cmp.Or(err, r.Err()), v}
	}
	return v
}

// settled is an error of this rank with the verdict that it has become.
type settled struct {
	error
	verdict *Verdict
}

func (s *settled) Unwrap() []error { return []error{s.error, s.verdict} }

// isOwn tells whether a verdict says what this rank has failed with.
func (r *Ring) isOwn(v *Verdict) bool {
	first := r.Err()
	return first != nil && v.By == r.rank && v.Text == r.verdict(first).Text
}

// settle makes the verdict that all ranks came to why the ring has failed.
func (r *Ring) settle(v *Verdict) {
	if r.isOwn(v) {
		return // whose error has more to it
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != StateClosed {
		r.err = v
	}
}

// setFailed is the local half of Fail.
func (r *Ring) setFailed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil || r.state == StateClosed {
		return
	}
	r.err, r.state = err, StateFailed
	r.failed.Store(true)
	for _, e := range r.queuePairs() {
		if e.QP == nil {
			continue
		}
		if err := e.QP.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState); err != nil {
			trace.Debug(trace.Ring, "queue pair to ERR", slog.String("edge", e.String()), slog.Int("channel", e.ID.Channel()), slog.String("error", err.Error()))
		}
	}
	trace.Debug(trace.Ring, "the ring failed", slog.String("why", err.Error()))
}
