package collective

import (
	"errors"
	"fmt"

	"ringcli/collective/sharedmem"
	"ringcli/configs/usage"
	"ringcli/ring"
)

// Errors that callers may test for with errors.Is. A cancelled call wraps the
// context's error, a failed completion a *verbs.StatusError.
var (
	// ErrUsage: the call cannot be made with these arguments, or the ranks gave
	// different ones. It is package ring's.
	ErrUsage = usage.Err
	// ErrUnregistered: a call whose buffers are not registered does not run by Direct.
	// It is an ErrUsage.
	ErrUnregistered = usage.Errorf("the buffers are not registered: expected a call that runs by %s", Direct)
	// ErrTimeout: no progress for the ring's Timeout. It is a
	// context.DeadlineExceeded.
	ErrTimeout = sharedmem.ErrTimeout
	// ErrProtocol: a neighbour sent what it may not send here.
	ErrProtocol = sharedmem.ErrProtocol
	// ErrClosed: the Comm was closed.
	ErrClosed = errors.New("closed")
)

// errView: memory of a peer cannot be mapped.
var errView = errors.New("no view of the memory of a peer")

// DisagreementError says that two ranks call different operations. It is an
// ErrUsage.
type DisagreementError struct {
	Number uint64 // of the operation on this ring, from 1
	Rank   int
	Mine   Call // of Rank, as planned
	// Peer's call is Theirs; or Peer is -1, and Awaited is what another waits for Rank
	// to do.
	Peer    int
	Theirs  Call
	Awaited ring.Awaited
}

func (e *DisagreementError) Error() string {
	theirs := fmt.Sprintf("rank %d calls %s", e.Peer, e.Theirs)
	if e.Peer < 0 {
		theirs = e.Awaited.String()
	}
	return fmt.Sprintf("operation %d: rank %d calls %s; %s: all ranks must make the same calls in the same order", e.Number, e.Rank, e.Mine, theirs)
}

// Is makes a disagreement an ErrUsage.
func (e *DisagreementError) Is(target error) bool { return target == ErrUsage }

// meshError is that the edges of an operation cannot be made. The ring's error names
// the operation.
type meshError struct{ error }

func (e meshError) Unwrap() error { return e.error }
