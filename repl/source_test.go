package repl

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// script writes a file and returns its path.
func script(t *testing.T, dir, name string, lines ...string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSource(t *testing.T) {
	dir := t.TempDir()
	path := script(t, dir, "a", "# first", "", "say a\r", "echo 'two", "lines'", "token x123", "error", "echo never")
	p := newTypist(t, Options{}, true)
	p.alias(t, "say", "echo")
	out, errs := p.run(t, "source "+path)
	if want := "> # first\n> say a\na\n> echo 'two\nlines'\n'two\nlines'\n> (left out)\n> error\n"; out != want {
		t.Errorf("printed %q, want %q", out, want)
	}
	if len(errs) != 1 || errs[0].Error() != path+":7: this failed" {
		t.Errorf("reported %v", errs)
	}
	if got := p.History(); !slices.Equal(got, []string{"source " + path}) {
		t.Errorf("a file's lines are in the history: %q", got)
	}
}

func TestSourceWithinSource(t *testing.T) {
	dir := t.TempDir()
	for i := range 10 {
		script(t, dir, fmt.Sprint(i), fmt.Sprintf("source %s/%d", dir, i+1))
	}
	script(t, dir, "9", "echo deepest")
	if err := os.Symlink(filepath.Join(dir, "self"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	script(t, dir, "self", "echo once", fmt.Sprintf("source %s/link", dir))
	for _, c := range []struct{ path, out, err string }{
		{"2", "deepest", ""},
		{"1", "", "at most 8"},
		{"self", "once", "cannot run itself"},
		{"missing", "", "no such file"},
	} {
		p := newTypist(t, Options{}, true)
		out, errs := p.run(t, "source "+filepath.Join(dir, c.path))
		if !strings.Contains(out, c.out) || strings.Count(out, "once\n") > 2 {
			t.Errorf("%s: printed %q", c.path, out)
		}
		if c.err == "" && errs != nil || c.err != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), c.err)) {
			t.Errorf("%s: reported %v, want %q", c.path, errs, c.err)
		}
	}
}

func TestSourceStops(t *testing.T) {
	dir := t.TempDir()
	p := newTypist(t, Options{}, true)
	p.editor.typed <- entry{"source " + script(t, dir, "a", "sleep 600", "echo never"), nil}
	ended := p.start(t)
	eventually(t, "it runs", func() bool { return strings.Contains(p.out.String(), "sleeping") })
	p.interrupt()
	close(p.editor.typed)
	out, errs := p.finish(t, ended)
	if strings.Contains(out, "never") || len(errs) != 1 || !strings.Contains(errs[0].Error(), "a:1: interrupted") {
		t.Errorf("printed %q, reported %v", out, errs)
	}

	p = newTypist(t, Options{}, true)
	if out, _ := p.run(t, "source "+script(t, dir, "b", "quit", "echo never"), "echo never"); strings.Contains(out, "\nnever") {
		t.Errorf("went on after quit: %q", out)
	}
}

func TestInit(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name, init string
		typed      bool
		out        string
		errs       int
	}{
		{"missing", filepath.Join(dir, "none"), true, "line\n", 0},
		{"quiet", script(t, dir, "good", "echo init"), true, "init\nline\n", 0},
		{"fails, typed", script(t, dir, "bad", "echo init", "error"), true, "init\nline\n", 1},
		{"fails, script", script(t, dir, "bad", "echo init", "error"), false, "init\n", 1},
		{"names what is missing", script(t, dir, "refers", "source "+dir+"/none"), true, "line\n", 1},
	} {
		p := newTypist(t, Options{Init: c.init}, c.typed)
		out, errs := p.run(t, "echo line")
		if out != c.out || len(errs) != c.errs {
			t.Errorf("%s: printed %q, reported %v", c.name, out, errs)
		}
	}
}
