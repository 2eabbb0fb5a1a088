package failure

import (
	"errors"

	"ringcli/cli/exit"
	"ringcli/configs"
	"ringcli/configs/codes"
	"ringcli/repl"
	"ringcli/ring/diagnose"
)

// Code is the code of an error that a command ended in, which stands in the table of package
// codes.
func Code(err error) codes.Code {
	if _, ok := errors.AsType[*repl.PanicError](err); ok {
		return codes.Panic
	}
	code := diagnose.FailureCode(err)
	_, signalled := errors.AsType[*repl.SignalError](err)
	switch {
	case exit.Code(err) == exit.Terminated:
		return codes.Terminated
	case exit.Code(err) == exit.Interrupted || signalled:
		return codes.Interrupted
	case code != codes.Failed && code != codes.Usage:
		return code
	case errors.Is(err, configs.ErrInvalid):
		return codes.Configuration
	case exit.Code(err) == exit.Usage:
		return codes.Usage
	case exit.Code(err) == exit.Warning:
		return codes.Slow
	}
	return code
}
