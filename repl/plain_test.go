package repl

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// piped runs the demo shell as a process with lines from a pipe.
func piped(t *testing.T, lines string, env ...string) (code int, stdout, stderr string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	var out, errs strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(lines), &out, &errs
	cmd.Env = append(append(os.Environ(), "TERM=xterm", asShell+"=", "GORACE=atexit_sleep_ms=0"), env...)
	cmd.WaitDelay = deadline
	_ = cmd.Run() // the state says it
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func TestPipe(t *testing.T) {
	for _, c := range []struct {
		lines  string
		env    []string
		code   int
		stdout string
		stderr string
	}{
		{"", nil, 0, "", ""},
		{"echo a\r\n\n# no\nsay b", nil, 0, "a\nb\n", ""},
		{"echo 'a\nb'\n", nil, 0, "'a\nb'\n", ""},
		{"error\necho a\n", nil, 2, "", "this failed\n"},
		{"echo a\nquit\necho b\n", nil, 0, "a\n", ""},
	} {
		code, stdout, stderr := piped(t, c.lines, c.env...)
		if code != c.code || stdout != c.stdout || stderr != c.stderr {
			t.Errorf("%q %q: exit code %d, %q, %q", c.lines, c.env, code, stdout, stderr)
		}
	}
}

// On a terminal that understands no escape codes there are none.
func TestDumbTerminal(t *testing.T) {
	p := newPTY(t)
	before := p.termios()
	cmd := p.program("TERM=dumb")
	p.see("demo> ")
	p.press("echo half\x03")
	p.see("^C")
	p.see("demo> ")
	p.press("\x03")
	p.see("demo> ")
	p.press("\x03")
	p.see("Ctrl-D or quit leaves")
	p.see("demo> ")
	p.press("later\n")
	for _, text := range []string{"later 0", "demo> ", "later 1", "demo> ", "later 2", "demo> "} {
		p.see(text)
	}
	p.press("sleep 600\n")
	p.see("sleeping")
	p.press("\x03")
	p.see("interrupted")
	p.see("demo> ")
	p.press("echo a\x04 b\n") // Ctrl-D after text
	p.see("\na b")
	p.see("demo> ")
	p.press("\x04")
	p.exits(cmd, 0)
	if strings.Contains(p.shown(), "\x1b") {
		t.Errorf("escape codes in %q", p.shown())
	}
	if p.termios() != before {
		t.Error("the terminal's settings have changed")
	}
}

// A script that waits for its next line ends by a signal.
func TestSignalAtAPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = r.Close(), w.Close() }()
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM} {
		p := newTypist(t, Options{}, false)
		e, err := newPlainEditor(r, nil, p.screen.take)
		if err != nil {
			t.Fatal(err)
		}
		p.Shell.editor = e
		ended := p.start(t)
		if _, err := w.WriteString("echo a\n"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a line ran", func() bool { return p.out.String() == "a\n" })
		// Only once it waits for a line, not while one runs.
		eventually(t, "it waits", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.front == nil })
		time.Sleep(10 * time.Millisecond)
		if err := unix.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			if (err != nil) != (sig == unix.SIGTERM) || (p.LastError() != nil) != (sig == unix.SIGINT) {
				t.Errorf("%v: ended with %v, last %v", sig, err, p.LastError())
			}
		case <-time.After(deadline):
			t.Fatalf("%v did not end it", sig)
		}
	}
}

// Ctrl-C counts from when the prompt is shown, which is before anything is read.
func TestInterruptBeforeReading(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = r.Close(), w.Close() }()
	waiter, err := newWaiter(int(r.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = waiter.close() }()
	l := &plainEditor{waiter: waiter, take: func() []byte { return nil }}
	if _, err := w.WriteString("a\n"); err != nil {
		t.Fatal(err)
	}
	l.interrupt() // as between the prompt and the first read
	if line, err := l.readLine(t.Context()); !errors.Is(err, errCleared) {
		t.Errorf("%q, %v: expected %v", line, err, errCleared)
	}
	l.interrupt()
	if line, err := l.ReadLine(t.Context(), ""); line != "a" || err != nil {
		t.Errorf("%q, %v: expected the line that was typed", line, err)
	}
}
