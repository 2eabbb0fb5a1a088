package ring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap"
	"ringcli/ring/diagnose"
	"ringcli/verbs"
)

// Failure is what the ranks agree on of why the ring has failed.
type Failure struct {
	of      *membership
	table   *edgeTable
	control *Control
}

// Verdict returns why the ring failed as all its ranks are told, nil if it has not.
func (f *Failure) Verdict() *Verdict {
	control := f.control.opened()
	if control == nil {
		return nil
	}
	return control.Failure()
}

// fail is Ring.Fail.
func (f *Failure) fail(err error) {
	var told string // the device whose event it is
	var d *DeviceError
	var c *CompletionError
	switch {
	case errors.As(err, &d):
		told = d.Device
	case errors.As(err, &c):
		told = c.Device
	}
	err = f.table.events.Explaining(err, told)
	f.table.fail(err)
	control := f.control.opened()
	if control != nil {
		control.Fail(f.verdict(err))
	}
}

// verdict is what an error of this rank says to the others.
func (f *Failure) verdict(err error) *Verdict {
	said := codes.Split(err)
	v := &Verdict{Kind: bootstrap.KindFailed, Rank: -1, Confidence: bootstrap.Certain, By: f.of.rank, Text: said.Result, Fix: said.Fix, Evidence: said.Evidence}
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
		v.Kind, v.Confidence, v.Edge = bootstrap.KindEdge, bootstrap.Certain, bootstrap.Direction{From: f.of.rank, To: q.Peer, Both: true}
	case errors.As(err, &d):
		v.Rank, v.Confidence = f.of.rank, bootstrap.Certain
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
		v.Kind, v.Text = bootstrap.KindCanceled, fmt.Sprintf("%s was %s", f.of.NodeName(f.of.rank), ended(err))
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
func (f *Failure) Settled(err error) error {
	control := f.control.opened()
	if control == nil {
		return err
	}
	v := control.Settled(f.control.life)
	switch {
	case v == nil:
		return err
	case f.isOwn(v):
		return &settled{cmp.Or(err, f.table.failure()), v}
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
func (f *Failure) isOwn(v *Verdict) bool {
	first := f.table.failure()
	return first != nil && v.By == f.of.rank && v.Text == f.verdict(first).Text
}

// settle makes the verdict that all ranks came to why the ring has failed.
func (f *Failure) settle(v *Verdict) {
	if f.isOwn(v) {
		return // whose error has more to it
	}
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	if f.table.state != StateClosed {
		f.table.err = v
	}
}

// Completion explains a completion whose status is not success. If the ring
// has failed already and the work request was only flushed, that is the reason.
func (f *Failure) Completion(wc *verbs.Completion) error {
	if wc.Status == verbs.FlushError {
		if err := f.table.failure(); err != nil {
			return err
		}
	}
	id, _, _ := ParseWRID(wc.ID)
	var peer int
	e := f.table.edge(id)
	switch {
	case !id.IsMesh():
		peer = f.of.neighbour(id.Side())
	case e != nil:
		peer = e.Peer
	default:
		return errors.Join(fmt.Errorf("completion of an unknown work request %#x", wc.ID), wc.Status.Err())
	}
	if wc.Status == verbs.FlushError {
		if failed := f.table.failedQueuePair(false); failed != nil {
			return failed
		}
	}
	failed := &CompletionError{Edge: id, Peer: peer, Node: f.of.nodes[peer].String(), QPN: wc.QPN, Status: wc.Status}
	failed.Event = f.table.events.Text(time.Now(), func(device string) bool { return e == nil || e.device.Name == device })
	if e != nil {
		failed.Device, failed.HostLocal = e.device.Name, e.device.Attr.HostLocal
	}
	return failed
}
