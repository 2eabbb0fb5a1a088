package repl

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ringcli/trace"
)

// onScreen is a terminal's screen with its two streams.
func onScreen(escapes bool) (s *screen, out, err *stream, terminal *bytes.Buffer) {
	terminal = &bytes.Buffer{}
	s = &screen{prompts: true, escapes: escapes, wake: func() {}}
	return s, &stream{s: s, w: terminal, onScreen: true}, &stream{s: s, w: terminal, onScreen: true}, terminal
}

// print writes texts; one that begins with "!" goes to the second stream.
func print(t *testing.T, out, err *stream, texts ...string) {
	t.Helper()
	for _, text := range texts {
		to, text := out, text
		if strings.HasPrefix(text, "!") {
			to, text = err, text[1:]
		}
		if n, e := to.Write([]byte(text)); n != len(text) || e != nil {
			t.Fatalf("%q: %d, %v", text, n, e)
		}
	}
}

func TestOutputWhileALineRuns(t *testing.T) {
	for _, c := range []struct {
		name  string
		texts []string
		want  string
	}{
		{"lines", []string{"a\n", "!b\n"}, "a\nb\n"},
		{"parts", []string{"a", "b\n"}, "ab\n"},
		{"a status line", []string{"\r1/2", "\r2/2", "\r   \r", "done\n"}, "\r1/2\r2/2\r   \rdone\n"},
		{"a trace within a status line", []string{"\r1/2", "!trace\n", "\r2/2"}, "\r1/2\r\x1b[Ktrace\n\r1/2\r2/2"},
		{"parts within a status line", []string{"\r1/2", "!a", "!b\n"}, "\r1/2\r\x1b[Kab\n"},
		{"a line after which a status line follows", []string{"a\n\r1/2", "!b\n"}, "a\n\r1/2\r\x1b[Kb\n\r1/2"},
		{"a DOS line is no status line", []string{"a\r\n", "b\n"}, "a\r\nb\n"},
		{"nothing", []string{""}, ""},
	} {
		_, out, err, terminal := onScreen(true)
		print(t, out, err, c.texts...)
		if terminal.String() != c.want {
			t.Errorf("%s: got %q, want %q", c.name, terminal, c.want)
		}
	}
	_, out, err, terminal := onScreen(false)
	print(t, out, err, "\r1/2", "!a\n")
	if want := "\r1/2\r   \ra\n\r1/2"; terminal.String() != want {
		t.Errorf("without escape codes: got %q, want %q", terminal, want)
	}
}

func TestPromptHasALineOfItsOwn(t *testing.T) {
	for before, want := range map[string]string{"a\n": "", "a": "\n", "\r1/2": "\r\x1b[K", "\r   \r": "", "": ""} {
		s, out, _, terminal := onScreen(true)
		print(t, out, nil, before)
		terminal.Reset()
		s.edit(terminal)
		if terminal.String() != want {
			t.Errorf("after %q: got %q, want %q", before, terminal, want)
		}
	}
}

func TestOutputWhileALineIsEdited(t *testing.T) {
	s, out, err, terminal := onScreen(true)
	woken := 0
	s.wake = func() { woken++ }
	s.edit(terminal)
	print(t, out, err, "par", "\r1/2", "!whole\npart", "\r2/2", "\r", "!ial\n", "two\nlines\n")
	if got, want := string(s.take()), "whole\npartial\ntwo\nlines\n"; got != want || woken == 0 || terminal.Len() != 0 {
		t.Errorf("queued %q, want %q; woken %d times; shown %q", got, want, woken, terminal)
	}
	print(t, out, err, "late\n", "begun")
	s.edited(terminal)
	print(t, out, err, " and ended\n")
	if want := "late\nbegun and ended\n"; terminal.String() != want {
		t.Errorf("shown %q, want %q", terminal, want)
	}

	s.edit(terminal)
	print(t, out, nil, strings.Repeat("x", heldLimit+1))
	if got := len(s.take()); got != heldLimit+2 {
		t.Errorf("%d bytes of an endless line were shown", got)
	}
}

func TestStreamThatIsNoTerminal(t *testing.T) {
	s, _, _, terminal := onScreen(true)
	var file bytes.Buffer
	out := &stream{s: s, w: &file}
	s.edit(terminal)
	print(t, out, nil, "\r1/2 a")
	if file.String() != "\r1/2 a" || s.take() != nil {
		t.Errorf("written %q", file.String())
	}
}

// Lines of many writers, the trace's among them, stay whole.
func TestWholeLines(t *testing.T) {
	s, out, err, terminal := onScreen(true)
	if e := trace.SetOutput(err, trace.JSON); e != nil {
		t.Fatal(e)
	}
	defer func() { _ = trace.SetOutput(os.Stderr, trace.Auto) }()
	s.edit(terminal)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 100 {
				text := fmt.Sprintf("%d line %d\n", w, i)
				if _, e := out.Write([]byte(text)); e != nil {
					t.Error(e)
				}
			}
		})
	}
	writers.Wait()
	for line := range strings.Lines(string(s.take())) {
		var w, i int
		if _, e := fmt.Sscanf(line, "%d line %d\n", &w, &i); e != nil {
			t.Errorf("%q: %v", line, e)
		}
	}
}

func TestTranscript(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	p := newTypist(t, Options{}, true)
	output := map[string]string{
		"color":  "\x1b[32mgreen\x1b[0m, \x1b]0;title\x07\x1b]8;;link\x1b\\text\n",
		"part":   "no newline",
		"status": "\r1/2\r2/2\r   \rdone\r\n\r1/2",
		"secret": "hidden\n",
	}
	p.Shell.host = runner(func(_ context.Context, line string) error {
		if name, isFile := strings.CutPrefix(line, "transcript "); isFile {
			return p.SetTranscript(name)
		}
		_, err := p.Out().Write([]byte(output[line]))
		return err
	})
	if _, errs := p.run(t, "part", "transcript "+path, "color", "part", "status", "color", "transcript "+path, "part"); errs != nil {
		t.Errorf("reported %v", errs)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "# transcript ") {
			line = line[:strings.LastIndexByte(line, ' ')] + "\n" // without the time
		}
		got = append(got, line)
	}
	want := `# transcript begins
> color
green, text
> part
no newline
> status
done
1/2
> color
green, text
> transcript ` + path + `
# transcript ends
# transcript begins
> part
no newline
# transcript ends
`
	if text := strings.Join(got, ""); text != want {
		t.Errorf("transcript:\n%s\nwant:\n%s", text, want)
	}
	for _, path := range []string{t.TempDir(), "/nowhere/log"} {
		if err := p.SetTranscript(path); err == nil {
			t.Errorf("%s was taken for a transcript", path)
		}
	}
}
