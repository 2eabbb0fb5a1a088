package repl

import (
	"bytes"
	"context"
	"io"
	"os"
	"sync"
	"testing"
	"time"
)

// deadline is for what must happen; a test that passes does not wait for it.
const deadline = time.Minute

// fakeEditor is a terminal whose lines a test types.
type fakeEditor struct {
	typed   chan entry
	editing chan string // the prompt, when a line begins
	screen  *screen

	mu      sync.Mutex
	history []string
	above   []byte // what was shown above the prompt
}

// entry is what a ReadLine returns.
type entry struct {
	line string
	err  error
}

func (e *fakeEditor) ReadLine(ctx context.Context, prompt string) (string, error) {
	select {
	case e.editing <- prompt:
	default:
	}
	select {
	case t, ok := <-e.typed:
		if !ok {
			return "", io.EOF
		}
		return t.line, t.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (e *fakeEditor) SetHistory(lines []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.history = lines
}

func (e *fakeEditor) show() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.above = append(e.above, e.screen.take()...)
}

func (e *fakeEditor) shownAbove() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return string(e.above)
}

func (e *fakeEditor) interrupt()   { e.typed <- entry{"", errCleared} }
func (e *fakeEditor) Close() error { return nil }

// typist is a shell with a demo host and a fake terminal.
type typist struct {
	*Shell
	host   *demoHost
	editor *fakeEditor
	out    *buffer
	errs   chan error // what was reported
}

func devNull(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// newTypist returns a shell on which lines are typed unless typed is false.
func newTypist(t *testing.T, o Options, typed bool) *typist {
	t.Helper()
	p := &typist{host: &demoHost{}, out: &buffer{}, errs: make(chan error, 100)}
	o.Host, o.Stdin, o.Stdout, o.Stderr = p.host, devNull(t), p.out, p.out
	o.OnError = func(err error) { p.errs <- err }
	if o.Interrupt == nil {
		o.Interrupt = func(_ int, cancel func()) { cancel() }
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	p.editor = &fakeEditor{typed: make(chan entry, 100), editing: make(chan string, 100), screen: s.screen}
	p.Shell, p.host.shell = s, s
	s.editor, s.interactive = p.editor, typed
	s.screen.wake = p.editor.show
	if typed {
		s.onTerminal, s.screen.prompts = p.out, true
		s.out.onScreen, s.err.onScreen = true, true
	}
	return p
}

func (p *typist) alias(t *testing.T, name, text string) {
	t.Helper()
	if err := p.Alias(name, text); err != nil {
		t.Fatal(err)
	}
}

// run types lines and then Ctrl-D, and returns what was printed and reported.
func (p *typist) run(t *testing.T, lines ...string) (out string, errs []error) {
	t.Helper()
	for _, line := range lines {
		p.editor.typed <- entry{line, nil}
	}
	close(p.editor.typed)
	return p.finish(t, p.start(t))
}

func (p *typist) start(t *testing.T) (ended chan error) {
	t.Helper()
	ended = make(chan error, 1)
	go func() { ended <- p.Run(t.Context()) }()
	return ended
}

func (p *typist) finish(t *testing.T, ended chan error) (out string, errs []error) {
	t.Helper()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the shell ended with %v", err)
		}
	case <-time.After(deadline):
		t.Fatal("the shell did not end")
	}
	for len(p.errs) > 0 {
		errs = append(errs, <-p.errs)
	}
	return p.out.String(), errs
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Read(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// runner is a host that only runs.
type runner func(ctx context.Context, line string) error

func (r runner) Run(ctx context.Context, line string) error { return r(ctx, line) }
func (r runner) Prompt() (string, Mood)                     { return ">", Plain }
func (r runner) Complete(string, int) ([]Candidate, int)    { return nil, 0 }
func (r runner) Repeatable(string) bool                     { return false }
func (r runner) Secret(string) bool                         { return false }
