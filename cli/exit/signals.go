package exit

import (
	"context"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// Signals is how the process takes SIGINT, SIGTERM and SIGPIPE.
type Signals struct {
	caught chan os.Signal
	cancel context.CancelCauseFunc
}

// CatchSignals returns a context that SIGINT or SIGTERM cancels, for ErrInterrupted or
// ErrTerminated. The second one ends the process at once.
func CatchSignals(parent context.Context) (context.Context, *Signals) {
	ctx, cancel := context.WithCancelCause(parent)
	s := &Signals{caught: make(chan os.Signal, 8), cancel: cancel}
	// Where results can no longer be written, the write fails and the ring is
	// left in order; by default SIGPIPE would end the process there and then.
	signal.Notify(s.caught, unix.SIGINT, unix.SIGTERM, unix.SIGPIPE)
	go func() {
		for sig := range s.caught {
			cause := ErrInterrupted
			if sig == unix.SIGTERM {
				cause = ErrTerminated
			}
			switch {
			case sig == unix.SIGPIPE:
			case ctx.Err() != nil:
				os.Exit(Code(cause))
			default:
				cancel(cause)
			}
		}
	}()
	return ctx, s
}

// LeaveInterrupts gives SIGINT to a shell, where it ends a command and not the
// process. A nil signals has none to give.
func (s *Signals) LeaveInterrupts() {
	if s != nil {
		signal.Reset(unix.SIGINT)
	}
}

// Release gives the signals back.
func (s *Signals) Release() {
	signal.Stop(s.caught)
	close(s.caught)
	s.cancel(nil)
}
