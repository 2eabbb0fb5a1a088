// Package usage has the errors that a change of the command line or of the configuration
// would mend (exit code 3), rather than of the network or the running ring (exit code 2):
// a bad list, an index outside it, a port in use, peers that were told different things.
package usage

import (
	"errors"
	"fmt"
	"slices"

	"ringcli/configs/codes"
)

// Err is wrapped by all of them.
var Err = errors.New("usage")

// Is tells whether an error is one of them.
func Is(err error) bool { return errors.Is(err, Err) }

// Errorf makes an error that wraps Err, without its text.
func Errorf(format string, args ...any) error { return &wrapped{fmt.Errorf(format, args...)} }

// Codedf makes an error that wraps Err and has a code of its own.
func Codedf(code codes.Code, format string, args ...any) error {
	return codes.With(code, Errorf(format, args...))
}

// If makes err wrap Err, too, if it is one of some kinds.
func If(err error, kinds ...error) error {
	if slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) }) {
		return &wrapped{err}
	}
	return err
}

type wrapped struct{ error }

func (e *wrapped) Unwrap() []error { return []error{e.error, Err} }
