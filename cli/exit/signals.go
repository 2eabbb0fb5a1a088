package exit

import (
	"context"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// Signals is how the process takes SIGINT, SIGTERM and SIGPIPE.
type Signals struct {
	ended, interrupts, broken chan os.Signal
	done                      chan struct{}
	cancel                    context.CancelCauseFunc
}

// CatchSignals returns a context that SIGINT or SIGTERM cancels. The second one
// ends the process at once.
func CatchSignals(parent context.Context) (context.Context, *Signals) {
	ctx, cancel := context.WithCancelCause(parent)
	s := &Signals{
		ended: make(chan os.Signal, 2), interrupts: make(chan os.Signal, 2), broken: make(chan os.Signal, 1),
		done: make(chan struct{}), cancel: cancel,
	}
	signal.Notify(s.ended, unix.SIGTERM)
	signal.Notify(s.interrupts, unix.SIGINT)
	// Where results can no longer be written, the write fails and the ring is
	// left in order; by default the signal would end the process there and then.
	signal.Notify(s.broken, unix.SIGPIPE)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-s.done:
				return
			case <-s.ended:
			case <-s.interrupts:
			}
			if n > 0 {
				os.Exit(Interrupted)
			}
			cancel(ErrInterrupted)
		}
	}()
	return ctx, s
}

// LeaveInterrupts gives SIGINT to a shell, where it ends a command and not the
// process. A nil signals has none to give.
func (s *Signals) LeaveInterrupts() {
	if s != nil {
		signal.Stop(s.interrupts)
	}
}

// Release gives the signals back.
func (s *Signals) Release() {
	signal.Stop(s.ended)
	signal.Stop(s.interrupts)
	signal.Stop(s.broken)
	close(s.done)
	s.cancel(nil)
}
