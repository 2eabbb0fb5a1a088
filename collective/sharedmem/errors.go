package sharedmem

import (
	"context"
	"errors"
	"fmt"

	"ringcli/configs/codes"
)

var (
	// ErrTimeout: no progress for Config.Timeout. It is a
	// context.DeadlineExceeded.
	ErrTimeout error = timeoutError{}
	// ErrProtocol: a peer's control memory has what cannot be there.
	ErrProtocol = codes.With(codes.Protocol, errors.New("protocol violation"))
	// ErrUsage: a call that cannot be made.
	ErrUsage = errors.New("invalid use")
)

type timeoutError struct{}

func (timeoutError) Error() string        { return "no progress" }
func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// FailureCode is that of a deadline that passed.
func (timeoutError) FailureCode() codes.Code { return codes.Timeout }

// DisagreementError says that two ranks make different calls at the same place.
type DisagreementError struct {
	Rank, Peer int
	Theirs     Signature // of the peer's call
	// Epoch: the calls are the same, so what differs is the epoch.
	Epoch bool
}

// FailureCode is that of a call that others do not make.
func (e *DisagreementError) FailureCode() codes.Code { return codes.Calls }

func (e *DisagreementError) Error() string {
	what := fmt.Sprintf("a different call than rank %d: digest %#x, count %d, root %d", e.Rank, e.Theirs.Digest, e.Theirs.Count, e.Theirs.Root)
	if e.Epoch {
		what = fmt.Sprintf("the same call as rank %d, but in another epoch", e.Rank)
	}
	return fmt.Sprintf("rank %d makes %s; all ranks must make the same calls in the same order", e.Peer, what)
}
