package repl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
)

// plainEditor reads lines as they come: from a pipe, a file, or a terminal that
// cannot be drawn on.
type plainEditor struct {
	*waiter
	prompt  io.Writer     // nil: none is shown, since nobody types
	take    func() []byte // empties the screen's queue
	buffer  []byte        // what was read beyond the last line
	eof     bool
	cleared atomic.Bool // interrupt was called

	mu      sync.Mutex // guards what follows, and writing to prompt
	shown   string     // the prompt while a line is typed
	reading bool
}

// newPlainEditor shows a prompt if its writer is not nil, which a terminal is
// the stdin of.
func newPlainEditor(stdin io.Reader, prompt io.Writer, take func() []byte) (*plainEditor, error) {
	file, ok := stdin.(*os.File)
	if !ok {
		return nil, fmt.Errorf("standard input is a %T: expected a file, which can be waited for", stdin)
	}
	w, err := newWaiter(int(file.Fd()))
	if err != nil {
		return nil, err
	}
	return &plainEditor{waiter: w, prompt: prompt, take: take}, nil
}

func (e *plainEditor) ReadLine(ctx context.Context, prompt string) (string, error) {
	e.mu.Lock()
	e.cleared.Store(false) // an interrupt from before
	e.reading, e.shown = true, prompt
	e.write(string(e.take()) + prompt)
	e.mu.Unlock()
	line, err := e.readLine(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reading = false
	if errors.Is(err, errCleared) || errors.Is(err, io.EOF) || err != nil && ctx.Err() != nil {
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

// show prints below what was typed so far, which the terminal still has, and
// shows the prompt again.
func (e *plainEditor) show() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.reading {
		return // the screen shows it
	}
	if text := e.take(); len(text) > 0 {
		e.write("\n" + string(text) + e.shown)
	}
}

func (e *plainEditor) interrupt() {
	e.cleared.Store(true)
	e.wake()
}

func (e *plainEditor) Close() error { return e.close() }

func (e *plainEditor) readLine(ctx context.Context) (string, error) {
	stop := context.AfterFunc(ctx, e.wake)
	defer stop()
	var chunk [4096]byte
	for {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if e.cleared.Swap(false) {
			text := string(e.buffer)
			e.buffer = nil // the terminal has dropped the rest of it
			return text, errCleared
		}
		if line, rest, whole := bytes.Cut(e.buffer, []byte{'\n'}); whole {
			e.buffer = bytes.Clone(rest)
			return string(bytes.TrimSuffix(line, []byte{'\r'})), nil
		}
		if e.eof {
			line := string(e.buffer)
			e.buffer = nil
			if line == "" {
				return "", io.EOF
			}
			return line, nil
		}
		readable, err := e.wait(true, -1)
		if err != nil {
			return "", err
		}
		if !readable {
			continue
		}
		n, err := e.read(chunk[:])
		e.buffer = append(e.buffer, chunk[:n]...)
		switch {
		case errors.Is(err, io.EOF) && e.prompt != nil && len(e.buffer) > 0:
			// Ctrl-D after text: the line goes on.
		case errors.Is(err, io.EOF):
			e.eof = true
		case err != nil:
			return "", err
		}
	}
}

// errCleared is Ctrl-C while a line is edited; the line comes with it.
var errCleared = errors.New("line cleared")

// editor reads lines. All but show and interrupt are called by the shell's
// goroutine alone.
type editor interface {
	// ReadLine shows the prompt and returns the line that was typed, without
	// its end. io.EOF: there are no more; errCleared: Ctrl-C, with what had
	// been typed; the context's cause once it has ended.
	ReadLine(ctx context.Context, prompt string) (string, error)
	// SetHistory gives the lines that earlier ones are chosen from.
	SetHistory(lines []string)
	// show asks for the screen's queue to be shown above the prompt. It does
	// not wait.
	show()
	// interrupt is SIGINT while a line is edited. It does not wait.
	interrupt()
	Close() error
}
