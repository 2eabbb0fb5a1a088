package gpu

import (
	"errors"
	"fmt"

	"ringcli/verbs"
)

// ErrUnavailable is that a runtime cannot be used here: its library, its kernel driver or a
// device is missing. The error that has it says which, and what to do.
var ErrUnavailable = errors.New("not available")

// Error is a call that a runtime refused.
type Error struct {
	Call string // the runtime's own name for it
	Code int    // as the runtime returned it
	Name string // of the code, such as CUDA_ERROR_OUT_OF_MEMORY
	Text string // the runtime's words
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%d): %s", e.Call, e.Name, e.Code, e.Text) }

// Codes that both runtimes have under the same number (cuda.h, hip_runtime_api.h).
const (
	codeInvalid  = 1
	codeNoMemory = 2
	codeNoDevice = 100
)

// Unwrap is what package verbs calls it.
func (e *Error) Unwrap() error {
	switch e.Code {
	case codeNoMemory:
		return verbs.ErrNoMemory
	case codeNoDevice:
		return ErrUnavailable
	}
	return verbs.ErrInvalid
}
