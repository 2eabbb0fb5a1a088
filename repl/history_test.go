package repl

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestHistoryFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "history")
	h := history{path: path, limit: 3}
	for _, line := range []string{"a", "b", "a", "a", "  ", "c\td\x1b[31m"} {
		if err := h.add(line); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"b", "a", "c d [31m"}
	if !slices.Equal(h.lines, want) {
		t.Errorf("got %q, want %q", h.lines, want)
	}
	again := history{path: path, limit: 3}
	if err := again.load(); err != nil || !slices.Equal(again.lines, want) {
		t.Errorf("loaded %q (%v), want %q", again.lines, err, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file: %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", info.Mode(), err)
	}
}

func TestHistoryIsShortened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	var text strings.Builder
	for i := range 30 {
		fmt.Fprintln(&text, i)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	h := history{path: path, limit: 3}
	if err := h.load(); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "27\n28\n29\n" {
		t.Errorf("the file has %q", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file: %v, %v", info.Mode(), err)
	}
}

func TestHistoryFailsOnce(t *testing.T) {
	h := history{path: "/dev/null/history", limit: 3}
	if err := h.add("a"); err == nil || !strings.Contains(err.Error(), "until the shell ends only") {
		t.Errorf("got %v", err)
	}
	if err := h.add("b"); err != nil {
		t.Errorf("a second warning: %v", err)
	}
	if !slices.Equal(h.lines, []string{"a", "b"}) {
		t.Errorf("got %q", h.lines)
	}
	none := history{path: filepath.Join(t.TempDir(), "none"), limit: 3}
	if err := none.load(); err != nil {
		t.Errorf("a history that is not there yet: %v", err)
	}
	device := history{path: "/dev/null", limit: 3}
	if err := device.load(); err != nil || device.add("a") != nil {
		t.Errorf("/dev/null as history: %v", err)
	}
	if info, err := os.Stat("/dev/null"); err != nil || info.Mode().Perm()&0o066 == 0 {
		t.Errorf("/dev/null has changed: %v, %v", info.Mode(), err)
	}
}

// A shell that was stopped while it had the file keeps nobody from going on.
func TestHistoryIsLocked(t *testing.T) {
	t.Parallel() // it waits
	path := filepath.Join(t.TempDir(), "history")
	other := history{path: path, limit: 3}
	f, err := other.open(os.O_CREATE | os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	h := history{path: path, limit: 3}
	if err := h.add("a"); err == nil || !strings.Contains(err.Error(), "locked by another process") {
		t.Errorf("%v: expected that the file is locked", err)
	}
	if err := h.add("b"); err != nil || !slices.Equal(h.lines, []string{"a", "b"}) {
		t.Errorf("%q, %v: expected both lines and no second error", h.lines, err)
	}
	if text, err := os.ReadFile(path); err != nil || len(text) > 0 {
		t.Errorf("the file has %q, %v", text, err)
	}
}
