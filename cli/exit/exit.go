package exit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"ringcli/collective"
	"ringcli/configs"
	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/repl"
	"ringcli/ring"
	"ringcli/trace"
)

// Exit codes. Those up to 3 are what monitoring plugins use (Nagios plugin
// development guidelines, section "return codes"); those of signals are a shell's: 128 and
// the signal's number.
const (
	OK          = 0
	Warning     = 1   // it works, but below --floor or above --max-resent
	Critical    = 2   // wrong data, a rank lost, a deadline passed
	Usage       = 3   // bad usage or configuration: nothing was tried
	Interrupted = 130 // Ctrl-C
	Terminated  = 143 // SIGTERM
	Pipe        = 141 // nobody reads standard output, as after `| head -1`: SIGPIPE
)

// ErrInterrupted is the cause of a context that Ctrl-C cancelled.
var ErrInterrupted = repl.ErrInterrupted

// ErrTerminated is the cause of a context that SIGTERM cancelled: an interruption whose exit
// code is another.
var ErrTerminated error = termination{}

type termination struct{}

func (termination) Error() string           { return "terminated" }
func (termination) FailureCode() codes.Code { return codes.Terminated }
func (termination) Is(target error) bool {
	return target == context.Canceled || target == ErrInterrupted
}

// errUnread is an interruption by whoever read the results.
var errUnread error = unread{}

type unread struct{}

func (unread) Error() string        { return "nobody reads its standard output any more" }
func (unread) Is(target error) bool { return target == context.Canceled }

// isUnread tells whether standard output could not be written for want of a reader.
func isUnread(err error) bool {
	var write *fs.PathError
	return errors.Is(err, errUnread) || errors.As(err, &write) && write.Path == os.Stdout.Name() && errors.Is(write, unix.EPIPE)
}

// Error is an error that knows its exit code.
type Error struct {
	Code int
	Err  error
	// shared says that every rank of the ring has this error and reports it,
	// so that one report is enough where the ranks share a terminal.
	shared bool
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Usagef is a mistake in what was given: exit code 3.
func Usagef(format string, args ...any) error {
	return &Error{Code: Usage, Err: fmt.Errorf(format, args...)}
}

// Codedf is a mistake that has a code of its own.
func Codedf(code codes.Code, format string, args ...any) error {
	return codes.With(code, Usagef(format, args...))
}

// Sharedf is a verdict that all ranks came to together.
func Sharedf(code int, format string, args ...any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...), shared: true}
}

// Code is the exit code of a command that ended with err. An error that
// nobody gave a code is a failure at run time: 2.
func Code(err error) int {
	var coded *Error
	var order *ring.StepError
	var signal *repl.SignalError
	switch {
	case err == nil:
		return OK
	case errors.Is(err, ErrTerminated), errors.As(err, &signal) && signal.Signal == unix.SIGTERM:
		return Terminated
	case errors.Is(err, ErrInterrupted):
		return Interrupted
	case isUnread(err):
		return Pipe
	case errors.As(err, &coded):
		return coded.Code
	case errors.As(err, &order): // the ring is as it was
		return Usage
	case errors.Is(err, configs.ErrInvalid), errors.Is(err, trace.ErrSpec), errors.Is(err, trace.ErrNoPrints), usage.Is(err), errors.Is(err, collective.ErrUsage):
		return Usage
	}
	return Critical
}

// IsInterruption tells whether an exit code is that of Ctrl-C or SIGTERM.
func IsInterruption(code int) bool { return code == Interrupted || code == Terminated }

// OrInterrupted turns whatever an operation returned after Ctrl-C or SIGTERM, or because nobody
// reads the results any more, into the interruption itself: that it was cut short is the
// user's own doing.
func OrInterrupted(ctx context.Context, err error) error {
	switch {
	case err != nil && errors.Is(context.Cause(ctx), ErrInterrupted):
		return context.Cause(ctx)
	case isUnread(err):
		return errUnread
	}
	return err
}

// IsUsers tells whether what ended a command was the user's own doing.
func IsUsers(err error) bool {
	code := Code(err)
	return IsInterruption(code) || code == Pipe
}

// IsShared tells whether every rank of the ring has this error and reports it.
func IsShared(err error) bool {
	var coded *Error
	return errors.As(err, &coded) && coded.shared
}

// mildest are the exit codes from the mildest: a critical rank outweighs one
// that merely did not start. Others are as grave as Critical.
var mildest = []int{OK, Warning, Interrupted, Terminated, Usage}

// Worse is the graver of two exit codes. That nobody reads the results is what all else
// came from.
func Worse(a, b int) int {
	if a == Pipe || b == Pipe {
		return Pipe
	}
	graveA, graveB := slices.Index(mildest, a), slices.Index(mildest, b)
	if graveA >= 0 && (graveB < 0 || graveB > graveA) {
		return b
	}
	return a
}

// Graver is the error with the graver code: the first of two with the same, and neither
// where both are nil.
func Graver(a, b error) error {
	if a == nil || b != nil && Worse(Code(a), Code(b)) != Code(a) {
		return b
	}
	return a
}

// ErrReported stands for errors that the ranks have reported.
var ErrReported = errors.New("reported by the ranks")

// reported is an error that was reported when it came.
type reported struct{ error }

func (r reported) Unwrap() []error { return []error{r.error, ErrReported} }

// Reported marks an error that was reported when it came.
func Reported(err error) error { return reported{err} }

// ErrQuit ends a script early, as a success.
var ErrQuit = errors.New("quit")
