package edges

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap"
	"ringcli/ring/diagnose"
)

// StallError is that an operation got no further because of others.
type StallError struct {
	diagnose.Blame
	Because error // what showed it first; nil is a wait
}

func (e *StallError) Error() string { return e.Parts().String() }

// Parts has what showed it first as evidence.
func (e *StallError) Parts() codes.Parts {
	p := codes.Parts{Result: e.Text, Fix: e.Fix}
	if e.Tested != nil {
		p.Evidence = slices.Clone(e.Tested.Evidence)
	}
	failed, isCompletion := errors.AsType[*CompletionError](e.Because)
	switch {
	case isCompletion:
		p.Evidence = append(p.Evidence, failed.What())
	case e.Because != nil:
		p.Evidence = append(p.Evidence, e.Because.Error())
	}
	return p
}

func (e *StallError) Unwrap() error { return e.Because }

// Is makes a call that others do not make an ErrUsage, and a rank that did not come a deadline
// that passed.
func (e *StallError) Is(target error) bool {
	switch e.Kind {
	case diagnose.StallMismatch:
		return target == usage.Err
	case diagnose.StallIdle, diagnose.StallBehind, diagnose.StallWorks, diagnose.StallUnknown:
		return target == context.DeadlineExceeded
	}
	return false
}

// FailureCode is the kind, as of the verdict.
func (e *StallError) FailureCode() codes.Code {
	if !e.Kind.Decided() {
		return codes.Timeout
	}
	return codes.Code(e.Kind)
}

// Tell makes it a verdict.
func (e *StallError) Tell(v *bootstrap.Verdict) {
	v.Kind, v.Rank, v.Confidence = bootstrap.Kind(e.Kind), e.Rank, bootstrap.Suspect
	if !e.Kind.Decided() {
		v.Kind = bootstrap.KindTimeout
	}
	if e.Certain {
		v.Confidence = bootstrap.Certain
	}
	if e.From >= 0 {
		v.Edge = bootstrap.Direction{From: e.From, To: e.To, Both: e.Both}
	}
	if e.Tested != nil {
		v.Culprit, v.Tests, v.Since = e.Tested.Culprit, e.Tested.Tests, e.Tested.Since
	}
	if e.Await != nil {
		v.Since = e.Await.For
	}
}

// CorruptionError says that data changed between the memory of the rank that sent them and
// that of the rank that received them. The sender made the first checksum of what it read
// from its memory, the receiver the second of what it was going to use: so it is certain.
type CorruptionError struct {
	Edge     bootstrap.Direction
	Doing    bootstrap.Doing
	From     uint64 // the first byte within the vector
	Bytes    uint64
	Expected uint32 // CRC32C by the sender
	Found    uint32 // by the receiver
}

// FailureCode is that of data that changed between two ranks.
func (e *CorruptionError) FailureCode() codes.Code { return codes.Corrupt }

func (e *CorruptionError) Error() string {
	what := fmt.Sprintf("bytes %d to %d", e.From, e.From+e.Bytes-1)
	if e.Bytes == 0 {
		what = fmt.Sprintf("without bytes, at byte %d", e.From)
	}
	return fmt.Sprintf("operation %d, %s: data changed between rank %d and rank %d (certain): %s, segment %d, %s of the vector: "+
		"expected checksum %08x, which the sender made, found %08x: nothing was computed with them; test the memory, the adapters and the path of these two hosts",
		e.Doing.Operation, e.Doing.Words, e.Edge.From, e.Edge.To, e.Doing.Phase, e.Doing.Segment, what, e.Expected, e.Found)
}

// Doing is a place as verdicts tell it.
func Doing(p diagnose.Place) (d bootstrap.Doing) {
	if !p.Running {
		return d
	}
	d = bootstrap.Doing{Operation: p.Operation, Words: p.Call}
	if len(p.Awaits) > 0 {
		a := &p.Awaits[0]
		d.Phase, d.Segment, d.Awaited = a.Phase, max(0, a.Segment), fmt.Sprintf("%s of rank %d", a.What, a.From)
	}
	return d
}

// Process asks the kernel how a rank's process is that runs on this host, and tells whether it
// is stopped or gone. by is who asks.
func Process(p *diagnose.Place, control *bootstrap.Control, by int) bool {
	stopped, gone, lives, pid := control.Process(p.Rank)
	p.Presence = ""
	switch p.PID = pid; {
	case gone:
		p.Presence, p.Evidence = diagnose.Gone, fmt.Sprintf("process %d of its host has ended", pid)
	case stopped:
		p.Presence, p.Evidence = diagnose.Stopped, fmt.Sprintf("process %d of its host is in state T, as SIGSTOP, SIGTSTP or a debugger leave it", pid)
	case lives && control.Beside(p.Rank):
		p.Presence, p.Evidence = diagnose.Slow, fmt.Sprintf("process %d of its host lives, and no network lies between", pid)
		return false
	case lives:
		p.Evidence = fmt.Sprintf("process %d of its host lives", pid)
		return false
	default:
		return false
	}
	p.Witnesses = []int{by}
	return true
}
