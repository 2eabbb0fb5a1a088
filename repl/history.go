package repl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// history is the lines that were typed, oldest first, each once. Only the
// shell's goroutine changes it; the shell's lock guards it.
type history struct {
	path   string // "": none
	limit  int
	lines  []string
	warned bool
}

// load reads the file, if there is one, and shortens it if it has become too long. A line
// that another shell appends meanwhile may be lost.
func (h *history) load() error {
	info, err := os.Stat(h.path)
	if h.path == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !info.Mode().IsRegular() {
		return h.warn(err)
	}
	text, err := os.ReadFile(h.path)
	all := 0
	for line := range strings.Lines(string(text)) {
		h.push(line)
		all++
	}
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = os.Chmod(h.path, 0o600)
	}
	if err == nil && all > 2*h.limit {
		err = os.WriteFile(h.path, []byte(strings.Join(h.lines, "\n")+"\n"), 0o600)
	}
	return h.warn(err)
}

// add remembers a line, here and in the file, which is left alone after the
// first failure.
func (h *history) add(line string) error {
	if len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return nil
	}
	h.push(line)
	if h.path == "" || h.warned {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
		return h.warn(err)
	}
	// Shells of several ranks may share the file: each appends a line with one write.
	f, err := os.OpenFile(h.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return h.warn(err)
	}
	_, err = f.WriteString(line + "\n")
	return h.warn(errors.Join(err, f.Close()))
}

// push keeps a line in its newest place only. Control characters, which would
// act on the terminal, become spaces.
func (h *history) push(line string) {
	line = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, line))
	if line == "" {
		return
	}
	if i := slices.Index(h.lines, line); i >= 0 {
		h.lines = slices.Delete(h.lines, i, i+1)
	}
	h.lines = append(h.lines, line)
	if over := len(h.lines) - h.limit; over > 0 {
		h.lines = slices.Delete(h.lines, 0, over)
	}
}

func (h *history) warn(err error) error {
	if err == nil || h.warned {
		return nil
	}
	h.warned = true
	return fmt.Errorf("history: %w: what is typed is remembered until the shell ends only", err)
}
