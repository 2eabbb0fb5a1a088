package cli

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// watched is an output that is read while it is written.
type watched struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// piped is a ringcli whose standard input is a pipe that stays open: a shell
// without a terminal.
type piped struct {
	*process
	t        *testing.T
	in       io.WriteCloser
	out, err *watched
}

func pipe(t *testing.T, args ...string) *piped {
	t.Helper()
	return pipeWith(t, nil, args...)
}

// pipeWith takes variables of the environment, too.
func pipeWith(t *testing.T, env []string, args ...string) *piped {
	t.Helper()
	p := &piped{process: program(t, args...), t: t, out: &watched{}, err: &watched{}}
	p.Env = append(p.Env, env...)
	p.Stdout, p.Stderr = p.out, p.err
	var err error
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
	return p
}

// line gives the shell a line.
func (p *piped) line(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, text+"\n"); err != nil {
		p.t.Fatalf("%q: %v\n%s%s", text, err, p.out, p.err)
	}
}

// await waits until an output has a match, the n-th.
func (p *piped) await(w *watched, pattern string, n int) {
	p.t.Helper()
	want, begun := regexp.MustCompile(pattern), time.Now()
	for len(want.FindAllString(w.String(), n)) < n {
		if time.Since(begun) > screenDeadline {
			p.t.Fatalf("%.200q: no %q, %d times, after %s:\n%s%s", p.Args[1:], pattern, n, screenDeadline, p.out, p.err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// over closes the pipe and waits for the end.
func (p *piped) over() (code int) {
	p.t.Helper()
	_ = p.in.Close() // it may be closed
	code = p.end(p.t, time.Minute)
	validateJSON(p.t, p.out.String())
	return code
}

// typed runs a ringcli with these lines as its standard input.
func typed(t *testing.T, env []string, lines string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := pipeWith(t, env, args...)
	p.line(strings.TrimSuffix(lines, "\n"))
	code = p.over()
	return code, p.out.String(), p.err.String()
}
