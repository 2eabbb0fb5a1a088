package gpu

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"ringcli/trace"
	"ringcli/verbs/memory"
)

// action is struct sigaction as the kernel has it, of at most 32 bytes, whatever its fields.
type action [64]byte

const (
	signals    = 64 // the kernel's, from 1 on
	signalMask = 8  // bytes of a set of them
)

// handlers are those of all signals.
type handlers [signals + 1]action

// starting is held while a library starts something: of two at a time, one would take the other's
// handlers for the process's.
var starting sync.Mutex

// keepHandlers reads the process's handlers, and returns what puts them back. Nothing else starts
// until then.
func keepHandlers(by string) (restore func()) {
	starting.Lock()
	h := saved()
	return func() {
		defer starting.Unlock()
		h.restore(by)
	}
}

// saved reads the process's handlers.
func saved() *handlers {
	h := new(handlers)
	for sig := 1; sig <= signals; sig++ {
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(memory.Addr(h[sig][:])), signalMask, 0, 0)
	}
	return h
}

// restore puts back those that have become others since: Ctrl-C is still the program's, and a
// fault of Go's still a panic, whatever a library installs when it starts.
func (h *handlers) restore(by string) {
	now := saved()
	var changed []string
	for sig := 1; sig <= signals; sig++ {
		if bytes.Equal(h[sig][:], now[sig][:]) {
			continue
		}
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(memory.Addr(h[sig][:])), 0, signalMask, 0, 0)
		if errno == 0 {
			changed = append(changed, unix.SignalName(unix.Signal(sig)))
		}
	}
	if len(changed) > 0 {
		trace.Debug(trace.Verbs, "signal handlers put back", slog.String("of", by), slog.String("signals", strings.Join(changed, " ")))
	}
}
