package repl

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// whileSleeping starts a line that only the end of its context ends.
func whileSleeping(t *testing.T, o Options) (*typist, chan error) {
	t.Helper()
	p := newTypist(t, o, true)
	p.editor.typed <- entry{"sleep 600", nil}
	p.editor.typed <- entry{"echo after", nil}
	close(p.editor.typed)
	ended := p.start(t)
	eventually(t, "the line runs", func() bool { return strings.Contains(p.out.String(), "sleeping") })
	return p, ended
}

func TestCtrlCEndsTheLine(t *testing.T) {
	p, ended := whileSleeping(t, Options{})
	p.interrupt()
	out, errs := p.finish(t, ended)
	if len(errs) != 1 || !errors.Is(errs[0], ErrInterrupted) || !strings.HasSuffix(out, "after\n") {
		t.Errorf("printed %q, reported %v", out, errs)
	}
}

func TestInterruptHook(t *testing.T) {
	var calls []int
	p, ended := whileSleeping(t, Options{Interrupt: func(n int, cancel func()) {
		calls = append(calls, n)
		if n == 2 {
			cancel()
		}
	}})
	p.interrupt()
	if len(p.errs) > 0 {
		t.Error("the first ended the line")
	}
	p.interrupt()
	out, errs := p.finish(t, ended)
	if len(calls) != 2 || calls[0] != 1 || calls[1] != 2 || len(errs) != 1 || !strings.HasSuffix(out, "after\n") {
		t.Errorf("calls %v, printed %q, reported %v", calls, out, errs)
	}
}

// A line that does not listen is named, and the process left.
func TestLeave(t *testing.T) {
	p := newTypist(t, Options{}, true)
	code := make(chan int, 1)
	p.exit = func(c int) { code <- c }
	p.patience = time.Millisecond
	release := make(chan struct{})
	done := make(chan error)
	go func() {
		done <- p.foreground(t.Context(), "deaf", func(context.Context) error { <-release; return nil })
	}()
	eventually(t, "the line runs", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.front != nil })
	p.interrupt()
	p.interrupt()
	select {
	case <-code:
		t.Error("left at the second Ctrl-C")
	case <-time.After(20 * time.Millisecond):
	}
	p.interrupt()
	select {
	case c := <-code:
		if c != 130 || !strings.Contains(p.out.String(), `"deaf" has not ended`) {
			t.Errorf("left with %d, saying %q", c, p.out.String())
		}
	case <-time.After(deadline):
		t.Error("not left")
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestPanicIsAnError(t *testing.T) {
	p := newTypist(t, Options{}, true)
	out, errs := p.run(t, "panic", "echo on", "panic &", "wait", "echo on")
	var first *PanicError
	if len(errs) < 2 || !errors.As(errs[0], &first) || first.Value != "oh" || !strings.Contains(string(first.Stack), "demo_test.go") {
		t.Errorf("reported %v", errs)
	}
	for _, err := range errs {
		if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "panic: oh") {
			t.Errorf("reported %q", err)
		}
	}
	if strings.Count(out, "on\n") != 2 {
		t.Errorf("printed %q", out)
	}
}
