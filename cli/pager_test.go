package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringcli/cli/exit"
)

// aPager stands in for less: it notes what it is given, and waits for Enter.
func aPager(t *testing.T) (path, given string) {
	t.Helper()
	dir := t.TempDir()
	path, given = filepath.Join(dir, "pager"), filepath.Join(dir, "given")
	if err := os.WriteFile(path, []byte("#!/bin/sh\ncat >"+given+"\necho paging $1\nread key </dev/tty\nexit 7\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path, given
}

// Where somebody reads, what is longer than the terminal goes to a pager; however that
// ends, it is no failure.
func TestAPagerInAShell(t *testing.T) {
	t.Parallel()
	path, given := aPager(t)
	p := newTmux(t).openWith(t, []string{"RINGCLI_PAGER=" + path + " slowly"}, "", "local", "-n", "2", "--shell")
	p.prompt("ring 0/2 ready ")
	p.run("counters", `collective|port_|shm|soft`) // it fits
	if text, err := os.ReadFile(given); err == nil {
		t.Errorf("what fits the terminal went to the pager:\n%s", text)
	}
	p.run("all-reduce --duration 20m &", `\[1\] started`)
	for _, end := range []string{"Enter", "C-c"} {
		typed := p.begin("help")
		p.shows("paging slowly", "help", typed)
		p.keys(end)
		p.finish("help", typed)
	}
	if text, _ := os.ReadFile(given); !strings.Contains(string(text), "all-reduce") || strings.Contains(p.screen(), "Ctrl-R searches") {
		t.Errorf("the pager was given\n%s\nand the screen shows\n%s", text, p.screen())
	}
	file := filepath.Join(t.TempDir(), "file.ring")
	if err := os.WriteFile(file, []byte("help\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.run("source "+file, `Ctrl-R searches`) // a script
	p.run("set pager /no/such/pager", `from the next line on`)
	p.run("help", `Ctrl-R searches`)
	p.run("set pager off", `from the next line on`)
	p.run("help", `Ctrl-R searches`)
	p.run("stop", `stops at its next boundary`)
	p.run("wait")
	p.keys("C-d")
	if code := p.left(); code != "0" {
		t.Errorf("exit code %s\n%s", code, p.screen())
	}
}

func TestAPagerOfACommand(t *testing.T) {
	t.Parallel()
	path, given := aPager(t)
	m := newTmux(t)
	for _, args := range [][]string{{"config", "--sample", "--pager", path}, {"help", "connect", "--pager=" + path}, {"schema", "--pager", path}} {
		for _, end := range []string{"Enter", "C-c"} {
			p := m.open(t, args...)
			p.await("the pager", func(screen string) bool { return strings.HasPrefix(screen, "paging") })
			p.keys(end)
			if code := p.left(); code != "0" {
				t.Errorf("%q, %s: exit code %s\n%s", args, end, code, p.screen())
			}
			if text, err := os.ReadFile(given); err != nil || len(text) < 1000 {
				t.Errorf("%q: the pager was given %q, %v", args, text, err)
			}
		}
	}
	// A script, and what is no terminal, have none.
	p := m.open(t, "local", "-n", "2", "--pager", path, "-c", "help; quit")
	if code := p.left(); code != "0" || !strings.Contains(p.screen(), "Ctrl-R searches") {
		t.Errorf("exit code %s\n%s", code, p.screen())
	}
	if code, stdout, _ := here(t, "config", "--pager", path); code != exit.OK || !strings.Contains(stdout, path) {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}
