package memory

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// MayFault is set, and stays so, once this process maps a file that is not its own, which somebody may make
// shorter: who touches what is gone gets a signal, which ends a Go program if nobody
// expects it (Guard).
var MayFault atomic.Bool

// FaultError is of memory that is not there: unmapped, or beyond the end of a file that was made
// shorter.
type FaultError struct{ Addr uint64 }

func (e *FaultError) Error() string { return fmt.Sprintf("no memory at %#x", e.Addr) }

// Guard has memory that is not there panic on this goroutine, until the function that it
// returns is called. Who recovers asks Fault.
func Guard() (end func()) {
	before := debug.SetPanicOnFault(true)
	return func() { debug.SetPanicOnFault(before) }
}

// Fault is the error of what a goroutine under Guard has recovered, nil of nil. Another
// panic goes on.
func Fault(recovered any) error {
	switch r := recovered.(type) {
	case nil:
		return nil
	case interface{ Addr() uintptr }: // runtime.Error's, of debug.SetPanicOnFault
		return &FaultError{uint64(r.Addr())}
	}
	panic(recovered)
}
