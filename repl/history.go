package repl

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// history is the lines that were typed, oldest first, each once. Only the
// shell's goroutine changes it; the shell's lock guards it.
type history struct {
	path   string // "": none
	limit  int
	lines  []string
	warned bool
}

// load reads the file, if there is one, and shortens it if it has become too
// long.
func (h *history) load() error {
	if h.path == "" {
		return nil
	}
	f, err := h.open(os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return h.warn(err)
	}
	defer func() { _ = f.Close() }() // each write was checked
	all := 0
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		h.push(scanner.Text())
		all++
	}
	if err := scanner.Err(); err != nil {
		return h.warn(err)
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || all <= 2*h.limit {
		return h.warn(err)
	}
	// In place and under the lock, so that another shell which appends has
	// the same file.
	text := strings.Join(h.lines, "\n") + "\n"
	if err := f.Truncate(0); err != nil {
		return h.warn(err)
	}
	_, err = f.WriteAt([]byte(text), 0)
	return h.warn(err)
}

// open opens the file and locks it until it is closed: shells of several ranks
// may share one.
func (h *history) open(flags int) (*os.File, error) {
	f, err := os.OpenFile(h.path, flags|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		if info.Mode().Perm()&0o077 != 0 {
			err = f.Chmod(0o600)
		}
		if err == nil {
			err = lock(f)
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// lockPatience is how long another process may have the file: it does for one
// write, unless it was stopped in it.
const lockPatience = time.Second

// lock locks a file until it is closed. A file system without locks is used
// without.
func lock(f *os.File) error {
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case !errors.Is(err, unix.EWOULDBLOCK):
			return nil
		case time.Since(begun) > lockPatience:
			return fmt.Errorf("%s has been locked by another process for %s; is a shell that uses it stopped?", f.Name(), lockPatience)
		}
	}
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
	f, err := h.open(os.O_APPEND | os.O_CREATE | os.O_WRONLY)
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
