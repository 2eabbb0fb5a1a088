package repl

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
)

// plainEditor reads lines as they come: from a pipe, a file, or a terminal that
// cannot be drawn on.
type plainEditor struct {
	input  lineReader
	prompt io.Writer     // nil: none is shown
	take   func() []byte // empties the screen's queue

	mu      sync.Mutex // guards what follows, and writing to prompt
	shown   string     // the prompt while a line is typed
	reading bool
}

// lineReader reads lines, without their ends.
type lineReader interface {
	begin() // a line: before the prompt is shown
	readLine(ctx context.Context) (string, error)
	interrupt() // makes the readLine of the line that was begun return errCleared
	close() error
}

// newPlainEditor shows a prompt if its writer is not nil, which a terminal is
// the stdin of.
func newPlainEditor(stdin io.Reader, prompt io.Writer, take func() []byte) (*plainEditor, error) {
	e := &plainEditor{prompt: prompt, take: take}
	file, ok := stdin.(*os.File)
	if !ok {
		e.input = &readerLines{r: bufio.NewReader(stdin)}
		return e, nil
	}
	w, err := newWaiter(int(file.Fd()))
	if err != nil {
		return nil, err
	}
	e.input = &fileLines{waiter: w, terminal: prompt != nil}
	return e, nil
}

func (e *plainEditor) ReadLine(ctx context.Context, prompt string) (string, error) {
	e.mu.Lock()
	e.input.begin()
	e.reading, e.shown = true, prompt
	e.write(string(e.take()) + prompt)
	e.mu.Unlock()
	line, err := e.input.readLine(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reading = false
	switch {
	case errors.Is(err, errCleared), errors.Is(err, io.EOF):
		e.write("\n")
	case err != nil && ctx.Err() != nil:
		e.write("\n")
	}
	return line, err
}

// write needs the lock.
func (e *plainEditor) write(text string) {
	if e.prompt != nil {
		// A terminal that cannot be written shows itself when it is read.
		_, _ = io.WriteString(e.prompt, text)
	}
}

func (e *plainEditor) SetHistory([]string) {}

// wake prints below what was typed so far, which the terminal still has, and
// shows the prompt again.
func (e *plainEditor) wake() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.reading {
		return // the screen shows it
	}
	if text := e.take(); len(text) > 0 {
		e.write("\n" + string(text) + e.shown)
	}
}

func (e *plainEditor) interrupt()   { e.input.interrupt() }
func (e *plainEditor) Close() error { return e.input.close() }

// readerLines reads lines from anything; a Read that waits cannot be ended.
type readerLines struct{ r *bufio.Reader }

func (l *readerLines) readLine(ctx context.Context) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	line, err := l.r.ReadString('\n')
	if errors.Is(err, io.EOF) && line != "" {
		err = nil
	}
	return strings.TrimRight(line, "\r\n"), err
}

func (l *readerLines) begin()       {}
func (l *readerLines) interrupt()   {}
func (l *readerLines) close() error { return nil }

// fileLines reads lines from a file descriptor, and can be woken meanwhile.
type fileLines struct {
	*waiter
	terminal bool
	buffer   []byte
	eof      bool
	cleared  atomic.Bool // interrupt was called
}

func (l *fileLines) readLine(ctx context.Context) (string, error) {
	stop := context.AfterFunc(ctx, l.wake)
	defer stop()
	var chunk [4096]byte
	for {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if l.cleared.Swap(false) {
			text := string(l.buffer)
			l.buffer = nil // the terminal has dropped the rest of it
			return text, errCleared
		}
		if line, rest, whole := bytes.Cut(l.buffer, []byte{'\n'}); whole {
			l.buffer = bytes.Clone(rest)
			return string(bytes.TrimSuffix(line, []byte{'\r'})), nil
		}
		if l.eof {
			line := string(l.buffer)
			l.buffer = nil
			if line == "" {
				return "", io.EOF
			}
			return line, nil
		}
		readable, err := l.wait(true, -1)
		if err != nil {
			return "", err
		}
		if !readable {
			continue
		}
		n, err := l.read(chunk[:])
		l.buffer = append(l.buffer, chunk[:n]...)
		switch {
		case errors.Is(err, io.EOF) && l.terminal && len(l.buffer) > 0:
			// Ctrl-D after text: the line goes on.
		case errors.Is(err, io.EOF):
			l.eof = true
		case err != nil:
			return "", err
		}
	}
}

// begin forgets an interrupt from before.
func (l *fileLines) begin() { l.cleared.Store(false) }

func (l *fileLines) interrupt() {
	l.cleared.Store(true)
	l.wake()
}
