package repl

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// exitInterrupted is the exit code of a process that Ctrl-C ended (128 + SIGINT,
// as shells have it).
const exitInterrupted = 130

// foreground is the line that runs, which Ctrl-C is for. The shell's lock guards
// it.
type foreground struct {
	line       string
	cancel     func()
	interrupts int
	leave      *time.Timer // nil until the process is to be left
}

// foreground runs what the user waits for.
func (s *Shell) foreground(ctx context.Context, line string, run func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	front := &foreground{line: line, cancel: func() { cancel(ErrInterrupted) }}
	s.mu.Lock()
	s.front = front
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.front = nil
		if front.leave != nil {
			front.leave.Stop()
		}
		s.mu.Unlock()
	}()
	return guard(line, func() error { return run(ctx) })
}

// guard turns a panic into an error.
func guard(line string, run func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Line: line, Value: value, Stack: debug.Stack()}
		}
	}()
	return run()
}

// interrupt is Ctrl-C, or SIGINT from elsewhere.
func (s *Shell) interrupt() {
	s.mu.Lock()
	front := s.front
	if front == nil {
		s.mu.Unlock()
		s.editor.interrupt()
		return
	}
	front.interrupts++
	n := front.interrupts
	s.mu.Unlock()
	if n == 3 {
		s.leaveLater(exitInterrupted)
	}
	s.options.Interrupt(n, front.cancel)
}

// leaveLater leaves the process if the line that runs has not ended by then.
func (s *Shell) leaveLater(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	front := s.front
	if front == nil || front.leave != nil {
		return
	}
	front.leave = time.AfterFunc(s.patience, func() {
		_, _ = fmt.Fprintf(s.err, "%q has not ended %s after it was told to: leaving it, and the program\n", front.line, s.patience)
		if s.term != nil {
			_ = s.term.restore() // the last that is done
		}
		s.exit(code)
	})
}
