package repl

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ringcli/trace"
)

func TestTypedLines(t *testing.T) {
	p := newTypist(t, Options{}, true)
	p.alias(t, "say", "echo said")
	out, errs := p.run(t, "echo a", "error", "  say b ", "# nothing", "part c", "echo d")
	if want := "a\nsaid b\nc\nd\n"; out != want {
		t.Errorf("printed %q, want %q", out, want)
	}
	if len(errs) != 1 || errs[0].Error() != "this failed" {
		t.Errorf("reported %v", errs)
	}
	if p.LastError() != nil {
		t.Errorf("the last line did not fail, but LastError is %v", p.LastError())
	}
	if p.prompt(t); p.timing.Load() {
		t.Error("timing is on")
	}
}

// prompt checks that the first prompt was the host's.
func (p *typist) prompt(t *testing.T) {
	t.Helper()
	select {
	case got := <-p.editor.editing:
		if got != "demo> " {
			t.Errorf("prompt %q", got)
		}
	case <-time.After(deadline):
		t.Fatal("no prompt")
	}
}

func TestColouredPrompt(t *testing.T) {
	p := newTypist(t, Options{}, true)
	p.color = true
	p.run(t)
	if got := <-p.editor.editing; got != "\x1b[32mdemo>\x1b[0m " {
		t.Errorf("prompt %q", got)
	}
	if Plain.paint("x") != "x" {
		t.Error("a plain prompt is coloured")
	}
}

func TestEnterRepeats(t *testing.T) {
	p := newTypist(t, Options{}, true)
	p.run(t, "", "echo a", "", "", "timing off", "")
	if got, want := p.host.ran(), []string{"echo a", "echo a", "echo a", "timing off"}; !slices.Equal(got, want) {
		t.Errorf("ran %q, want %q", got, want)
	}
	p = newTypist(t, Options{}, false)
	p.run(t, "echo a", "")
	if got := p.host.ran(); len(got) != 1 {
		t.Errorf("an empty line of a script repeated the last: %q", got)
	}
}

func TestScriptStopsAtFailure(t *testing.T) {
	p := newTypist(t, Options{}, false)
	out, errs := p.run(t, "echo a", "error", "echo b")
	if out != "a\n" || len(errs) != 1 || p.LastError() == nil {
		t.Errorf("printed %q, reported %v, last %v", out, errs, p.LastError())
	}
}

func TestScriptLineGoesOn(t *testing.T) {
	p := newTypist(t, Options{}, false)
	p.run(t, "echo 'a", "b'", `echo c \`, "d", "echo 'open")
	if got, want := p.host.ran(), []string{"echo 'a\nb'", "echo c \\\nd", "echo 'open"}; !slices.Equal(got, want) {
		t.Errorf("ran %q, want %q", got, want)
	}
}

func TestReadFails(t *testing.T) {
	p := newTypist(t, Options{}, true)
	broken := errors.New("broken")
	p.editor.typed <- entry{"", broken}
	if err := p.Run(t.Context()); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestQuit(t *testing.T) {
	t.Run("by a line", func(t *testing.T) {
		p := newTypist(t, Options{}, true)
		if out, _ := p.run(t, "quit", "echo a"); out != "" {
			t.Errorf("went on: %q", out)
		}
	})
	t.Run("from elsewhere", func(t *testing.T) {
		p := newTypist(t, Options{}, true)
		ended := p.start(t)
		p.prompt(t)
		p.Quit()
		p.finish(t, ended)
	})
	t.Run("by the context", func(t *testing.T) {
		p := newTypist(t, Options{}, true)
		ctx, end := context.WithCancelCause(t.Context())
		why := errors.New("why")
		p.editor.typed <- entry{"sleep 60", nil}
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		eventually(t, "the line runs", func() bool { return p.out.String() != "" })
		end(why)
		select {
		case err := <-ended:
			if !errors.Is(err, why) {
				t.Errorf("got %v", err)
			}
		case <-time.After(deadline):
			t.Fatal("the shell did not end")
		}
	})
}

func TestCtrlCWhileEditing(t *testing.T) {
	p := newTypist(t, Options{}, true)
	for _, e := range []entry{{"", errCleared}, {"text", errCleared}, {"", errCleared}, {"echo a", nil}, {"", errCleared}, {"", errCleared}} {
		p.editor.typed <- e
	}
	if out, errs := p.run(t); out != "a\nCtrl-D or quit leaves\n" || errs != nil {
		t.Errorf("printed %q, reported %v", out, errs)
	}
	p = newTypist(t, Options{}, false)
	p.editor.typed <- entry{"", errCleared}
	if out, _ := p.run(t, "echo a"); out != "" || !errors.Is(p.LastError(), ErrInterrupted) {
		t.Errorf("a script went on: %q, %v", out, p.LastError())
	}
}

func TestSecretsAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	log, file := filepath.Join(dir, "log"), filepath.Join(dir, "deep", "history")
	p := newTypist(t, Options{HistoryFile: file}, true)
	p.alias(t, "key", "token")
	_, errs := p.run(t, "transcript "+log, "token x123", "key x123", " echo unseen", "echo a")
	if errs != nil {
		t.Fatal(errs)
	}
	for _, path := range []string{log, file} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "x123") || !strings.Contains(string(text), "echo a") {
			t.Errorf("%s: %q", path, text)
		}
	}
	if got := p.History(); !slices.Equal(got, []string{"transcript " + log, "echo a"}) {
		t.Errorf("history %q", got)
	}
	if got := p.editor.history; !slices.Equal(got, p.History()) {
		t.Errorf("the editor has the history %q", got)
	}
}

func TestTiming(t *testing.T) {
	p := newTypist(t, Options{}, true)
	out, _ := p.run(t, "timing on", "echo a")
	if before, after, ok := strings.Cut(out, "a\n("); !ok || !strings.HasPrefix(before, "(0.0") || !strings.HasSuffix(after, " s)\n") {
		t.Errorf("printed %q", out)
	}
}

func TestNew(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("a shell without a host")
	}
	if _, err := New(Options{Host: &demoHost{}, Stdin: &buffer{}}); err == nil {
		t.Error("a stdin that cannot be waited for")
	}
	s, err := New(Options{Host: &demoHost{}, Stdin: devNull(t), Stdout: io.Discard, Stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if s.Alias("a b", "c") == nil {
		t.Error("an alias of two words")
	}
	if trace.IsTerminal(s.Out()) || s.Interactive() {
		t.Error("a buffer is taken for a terminal")
	}
}
