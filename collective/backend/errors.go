package backend

import (
	"errors"
	"fmt"
)

// The codes of ncclResult_t that are looked at (nccl.h).
const (
	success    = 0
	inProgress = 7
)

// codeNames are those of ncclResult_t.
var codeNames = [...]string{
	"ncclSuccess", "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError", "ncclInvalidArgument",
	"ncclInvalidUsage", "ncclRemoteError", "ncclInProgress", "ncclTimeout",
}

// Error is what a library's function has returned.
type Error struct {
	Backend string
	Call    string // the library's function
	Code    int
	Text    string // of the code, by the library
	Last    string // what the library says of its last error; "" if it says nothing
}

func (e *Error) Error() string {
	name := "a code that nccl.h has not"
	if e.Code >= 0 && e.Code < len(codeNames) {
		name = codeNames[e.Code]
	}
	text := fmt.Sprintf("%s: %s returned %s (%d): %s", e.Backend, e.Call, name, e.Code, e.Text)
	if e.Last != "" {
		text += ": " + e.Last
	}
	return text
}

// RanksError is why the ranks cannot make a back end together: it names those that cannot, and all
// ranks have the same.
type RanksError struct {
	Err error
	Own *Error // what this rank's library has returned, which Err has as text; nil if it is not that
}

func ranksError(err, own error) *RanksError {
	e := &RanksError{Err: err}
	e.Own, _ = errors.AsType[*Error](own)
	return e
}

func (e *RanksError) Error() string { return e.Err.Error() }

func (e *RanksError) Unwrap() []error {
	if e.Own == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Own}
}

// ErrClosed is that of a call after Close.
var ErrClosed = errors.New("the back end is closed")
