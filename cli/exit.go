package cli

import (
	"context"
	"errors"
	"fmt"

	"ringcli/collective"
	"ringcli/configs"
	"ringcli/configs/usage"
	"ringcli/ring"
	"ringcli/trace"
)

// Exit codes. Those up to 3 are what monitoring plugins use (Nagios plugin
// development guidelines, section "return codes"); 130 is a shell's 128 + SIGINT.
const (
	ExitOK          = 0
	ExitWarning     = 1   // it works, but below --floor
	ExitCritical    = 2   // wrong data, a rank lost, a deadline passed
	ExitUsage       = 3   // bad usage or configuration: nothing was tried
	ExitInterrupted = 130 // Ctrl-C
)

// errInterrupted is the cause of a context that Ctrl-C cancelled.
var errInterrupted = errors.New("interrupted")

// exitError is an error that knows its exit code.
type exitError struct {
	code int
	err  error
	// shared says that every rank of the ring has this error and reports it,
	// so that one report is enough where the ranks share a terminal.
	shared bool
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usageError is a mistake in what was given: exit code 3.
func usageError(format string, args ...any) error {
	return &exitError{code: ExitUsage, err: fmt.Errorf(format, args...)}
}

// sharedError is a verdict that all ranks came to together.
func sharedError(code int, format string, args ...any) error {
	return &exitError{code: code, err: fmt.Errorf(format, args...), shared: true}
}

// ExitCode is the exit code of a command that ended with err. An error that
// nobody gave a code is a failure at run time: 2.
func ExitCode(err error) int {
	var coded *exitError
	var order *ring.StepError
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, errInterrupted):
		return ExitInterrupted
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &order): // the ring is as it was
		return ExitUsage
	case errors.Is(err, configs.ErrInvalid), errors.Is(err, trace.ErrSpec), errors.Is(err, trace.ErrNoPrints), usage.Is(err), errors.Is(err, collective.ErrUsage):
		return ExitUsage
	}
	return ExitCritical
}

// interrupted turns whatever an operation returned after Ctrl-C into the
// interruption itself: that it was cut short is the user's own doing.
func interrupted(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errInterrupted) {
		return errInterrupted
	}
	return err
}

// isShared tells whether every rank of the ring has this error and reports it.
func isShared(err error) bool {
	var coded *exitError
	return errors.As(err, &coded) && coded.shared
}

// severity orders exit codes from the mildest: a critical rank outweighs one
// that merely did not start.
func severity(code int) int {
	switch code {
	case ExitOK:
		return 0
	case ExitWarning:
		return 1
	case ExitInterrupted:
		return 2
	case ExitUsage:
		return 3
	}
	return 4
}

// worse is the graver of two exit codes.
func worse(a, b int) int {
	if severity(b) > severity(a) {
		return b
	}
	return a
}

// errReported stands for errors that the ranks have reported.
var errReported = errors.New("reported by the ranks")

// errQuit ends a script early, as a success.
var errQuit = errors.New("quit")
