package verbs

import (
	"errors"
	"fmt"
)

// Errors that callers may test for with errors.Is.
var (
	// ErrInvalid: a value that the device refuses (EINVAL).
	ErrInvalid = errors.New("invalid argument")
	// ErrNoMemory: a queue is full or memory is short (ENOMEM).
	ErrNoMemory = errors.New("queue full or out of memory")
	// ErrState: the object is in the wrong state for this.
	ErrState = errors.New("wrong state")
	// ErrClosed: the object was closed.
	ErrClosed = errors.New("closed")
	// ErrBusy: the object still has children (EBUSY).
	ErrBusy = errors.New("still in use")
	// ErrTimeout: a wait's deadline passed.
	ErrTimeout = errors.New("timed out")
	// ErrNoDevice: no provider has a device of that name.
	ErrNoDevice = errors.New("no such device")
	// ErrOverrun: a completion queue overflowed; completions were lost.
	ErrOverrun = errors.New("completion queue overrun")
	// ErrMemlock: more than this process may lock into memory.
	ErrMemlock = errors.New("memory that may be locked is short")
	// ErrNoGID: a row of the GID table, or all of it, is empty or of no use here.
	ErrNoGID = errors.New("no GID")
	// ErrPortDown: the port is not ACTIVE.
	ErrPortDown = errors.New("port down")
)

// OfKind makes err one of a kind, too, without its text.
func OfKind(kind, err error) error { return &ofKind{err, kind} }

type ofKind struct{ err, kind error }

func (e *ofKind) Error() string   { return e.err.Error() }
func (e *ofKind) Unwrap() []error { return []error{e.err, e.kind} }

// Status is the outcome of a work request (enum ibv_wc_status).
type Status uint32

// The values are libibverbs' own; statusNames has those, too, that RC does not know.
const (
	Success              Status = 0
	LocalLengthError     Status = 1
	LocalQPOpError       Status = 2
	LocalProtectionError Status = 4
	FlushError           Status = 5
	BadResponseError     Status = 7
	RemoteInvalidRequest Status = 9
	RemoteAccessError    Status = 10
	RemoteOpError        Status = 11
	RetryExceeded        Status = 12
	RNRRetryExceeded     Status = 13
	ResponseTimeout      Status = 20
	GeneralError         Status = 21
)

var statusNames = []string{
	"success", "local length error", "local QP operation error", "local EE context operation error",
	"local protection error", "Work Request Flushed Error", "memory management operation error", "bad response error",
	"local access error", "remote invalid request error", "remote access error", "remote operation error",
	"transport retry counter exceeded", "RNR retry counter exceeded", "local RDD violation error",
	"remote invalid RD request", "aborted error", "invalid EE context number", "invalid EE context state",
	"fatal error", "response timeout error", "general error",
}

// String returns the name of a status as ibv_wc_status_str words it.
func (s Status) String() string { return name(uint32(s), "status", statusNames...) }

// Err returns nil for Success and a *StatusError for anything else.
func (s Status) Err() error {
	if s == Success {
		return nil
	}
	return &StatusError{Status: s}
}

// StatusError is a failed completion as an error.
type StatusError struct{ Status Status }

// Error names the status and its number.
func (e *StatusError) Error() string { return fmt.Sprintf("%s (%d)", e.Status, uint32(e.Status)) }
