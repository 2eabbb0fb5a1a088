package collective

import (
	"errors"

	"ringcli/collective/buffer"
	"ringcli/collective/exec"
	"ringcli/collective/hostteam"
	"ringcli/collective/sharedmem"
	"ringcli/configs/usage"
	"ringcli/ring"
)

// What calls take and give, from the packages below.
type (
	Buffer    = buffer.Buffer
	Sharing   = buffer.Sharing
	Symmetric = hostteam.Symmetric
	Stats     = exec.Stats
)

// What Share may do; see [Sharing].
const (
	InPlace = buffer.InPlace
	MayMove = buffer.MayMove
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

// DisagreementError says that ranks call different operations. It is an ErrUsage.
type DisagreementError = ring.DisagreementError

// CorruptionError says that a segment is not what its sender read from its memory.
type CorruptionError = ring.CorruptionError
