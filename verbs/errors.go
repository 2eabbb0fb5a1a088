package verbs

import "errors"

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
)
