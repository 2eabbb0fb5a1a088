package transport

import (
	"context"
	"errors"
	"fmt"

	"ringcli/verbs"
)

// The ways in which an operation fails, for errors.Is. The first six are those of
// commResult_t but for commUnhandledCudaError, as there is no GPU memory; commSuccess is nil. Each of
// the others is one of these, too.
var (
	// ErrSystem: a call of the system or of the device's driver failed (commSystemError).
	ErrSystem = errors.New("system error")
	// ErrInternal: the device or this package did what it should not (commInternalError).
	ErrInternal = errors.New("internal error")
	// ErrInvalidArgument: a value that cannot be (commInvalidArgument).
	ErrInvalidArgument = errors.New("invalid argument")
	// ErrInvalidUsage: a call at a time when it cannot be (commInvalidUsage).
	ErrInvalidUsage = errors.New("invalid usage")
	// ErrRemote: the peer, or the way to it (commRemoteError).
	ErrRemote = errors.New("remote error")
	// ErrInProgress: the future is not resolved yet (commInProgress).
	ErrInProgress = errors.New("in progress")

	// ErrUnsupported: there is no RDMA here, and no fallback was named.
	ErrUnsupported = code("RDMA is not supported here", ErrSystem)
	// ErrRegistration: memory could not be registered.
	ErrRegistration = code("memory not registered", ErrSystem)
	// ErrBounds: bytes outside of a registered memory, of either end.
	ErrBounds = code("out of bounds", ErrInvalidArgument)
	// ErrURL: what is no URL of a transport, or one that this transport cannot reach.
	ErrURL = code("not a URL to connect to", ErrInvalidArgument)
	// ErrWrongPeer: memory of a process that is not the peer.
	ErrWrongPeer = code("memory of another than the peer", ErrInvalidArgument)
	// ErrNotConnected: before Connect.
	ErrNotConnected = code("not connected", ErrInvalidUsage)
	// ErrClosed: the transport, memory or loop was closed here.
	ErrClosed = code("closed", ErrInvalidUsage)
	// ErrCanceled: the operation's context was canceled, or Future.Cancel called.
	ErrCanceled = code("canceled", context.Canceled)
	// ErrDeadline: the deadline of the operation's context passed.
	ErrDeadline = code("deadline passed", context.DeadlineExceeded)
	// ErrPeerAbsent: the peer has not connected in time.
	ErrPeerAbsent = code("the peer never connected", ErrRemote)
	// ErrPeerLost: the peer no longer answers.
	ErrPeerLost = code("the peer is lost", ErrRemote)
	// ErrPeerClosed: the peer has closed its transport.
	ErrPeerClosed = code("the peer has closed", ErrRemote)
	// ErrRefused: one end refused a request of the other, which ends the connection: memory
	// that is not registered any more, or not so much of it.
	ErrRefused = code("request refused", ErrRemote)
)

// code makes a result code that is one of a coarser kind, too.
func code(text string, kind error) error { return verbs.OfKind(kind, errors.New(text)) }

// failed is an error of a code, with what was tried. Its text does not begin with the code's.
func failed(code error, format string, args ...any) error {
	return verbs.OfKind(code, fmt.Errorf(format, args...))
}

// ended is the error of a context that ended an operation.
func ended(ctx context.Context, what string) error {
	code := ErrCanceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code = ErrDeadline
	}
	return failed(code, "%s: %w", what, context.Cause(ctx))
}
