package collective

import (
	"errors"

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

// viewError is that memory of a peer cannot be mapped.
type viewError struct {
	peer int
	err  error
}

func (e *viewError) Error() string { return "no view of the memory of a peer: " + e.err.Error() }
func (e *viewError) Unwrap() error { return e.err }

// DisagreementError says that ranks call different operations. It is an ErrUsage.
type DisagreementError = ring.DisagreementError

// meshError is that the edges of an operation cannot be made. The ring's error names
// the operation.
type meshError struct{ error }

func (e meshError) Unwrap() error { return e.error }
