package repl

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"sync"
	"time"
)

// heldLimit bounds what is kept of a line that does not end, bytes.
const heldLimit = 64 << 10

// screen is the one writer: it knows whether a line is being edited and what the
// last line on the terminal looks like. Streams write through it.
type screen struct {
	// mu guards all fields, those of the streams too, and is held while a
	// stream is written.
	mu      sync.Mutex
	prompts bool // lines are edited on the terminal that the streams lead to
	escapes bool // the terminal understands escape codes
	editing bool
	queue   []byte // whole lines that arrived while a line was edited
	// status is an unfinished line that is redrawn with \r, such as how far an
	// operation is; midline is any other unfinished line.
	status  []byte
	midline bool
	log     *transcript // nil if there is none

	// wake tells the editor that the queue is not empty. It is called without
	// mu, from any goroutine, and does not wait.
	wake func()
}

// stream is standard output or standard error.
type stream struct {
	s        *screen
	w        io.Writer
	onScreen bool
	held     []byte // of a line that is not whole, while a line is edited
	logged   []byte // of a line that is not whole, for the transcript
}

// Fd lets those who write see whether they write to a terminal: what has no file
// descriptor is none.
func (o *stream) Fd() uintptr {
	if f, ok := o.w.(interface{ Fd() uintptr }); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}

func (o *stream) Write(b []byte) (int, error) {
	s := o.s
	s.mu.Lock()
	if s.log != nil {
		o.logged = s.log.add(o.logged, b)
	}
	switch {
	case !o.onScreen:
		n, err := o.w.Write(b)
		s.mu.Unlock()
		return n, err
	case s.editing:
		o.hold(b)
		wake := len(s.queue) > 0
		s.mu.Unlock()
		if wake {
			s.wake()
		}
		return len(b), nil
	}
	defer s.mu.Unlock()
	text := b
	if len(o.held) > 0 {
		text = append(o.held, b...)
		o.held = nil
	}
	if err := s.show(o.w, text); err != nil {
		return 0, err
	}
	return len(b), nil
}

// hold queues the whole lines of b and keeps the rest, of which only what
// follows a \r would be seen.
func (o *stream) hold(b []byte) {
	o.held = append(o.held, b...)
	if end := bytes.LastIndexByte(o.held, '\n') + 1; end > 0 {
		o.s.queue = append(o.s.queue, o.held[:end]...)
		o.held = o.held[end:]
	}
	if r := bytes.LastIndexByte(o.held, '\r'); r >= 0 {
		o.held = o.held[r+1:]
	}
	if len(o.held) > heldLimit {
		o.s.queue = append(append(o.s.queue, o.held...), '\n')
		o.held = nil
	}
	o.held = bytes.Clone(o.held) // so that what was queued can be freed
}

// show writes b where no line is edited, around a status line if there is one.
func (s *screen) show(w io.Writer, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	status, text := s.status, b
	if len(status) > 0 && b[0] != '\r' {
		text = append(s.erase(), b...)
	}
	s.follow(b)
	if len(status) > 0 && b[0] != '\r' && b[len(b)-1] == '\n' {
		text = append(append(text, '\r'), status...)
		s.status = status
	}
	_, err := w.Write(text)
	return err
}

// follow keeps track of the last line on the terminal.
func (s *screen) follow(b []byte) {
	newline, redraw := bytes.LastIndexByte(b, '\n'), bytes.LastIndexByte(b, '\r')
	switch {
	case redraw > newline:
		s.status, s.midline = bytes.Clone(b[redraw+1:]), false
	case newline >= 0:
		s.status, s.midline = nil, newline+1 < len(b)
	default:
		s.status, s.midline = nil, true
	}
}

// erase returns what clears the status line.
func (s *screen) erase() []byte {
	if s.escapes {
		return []byte("\r\x1b[K")
	}
	return append(append([]byte{'\r'}, bytes.Repeat([]byte{' '}, len(s.status))...), '\r')
}

// edit begins the editing of a line, on a line of its own.
func (s *screen) edit(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.prompts {
		return
	}
	// A terminal that cannot be written shows itself when it is read.
	switch {
	case len(s.status) > 0:
		_, _ = w.Write(s.erase())
	case s.midline:
		_, _ = w.Write([]byte{'\n'})
	}
	s.status, s.midline, s.editing = nil, false, true
}

// take returns the lines to be shown above the prompt, for the editor.
func (s *screen) take() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := s.queue
	s.queue = nil
	return queue
}

// edited ends the editing of a line, and shows what the editor did not.
func (s *screen) edited(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.editing = false
	if len(s.queue) > 0 {
		_, _ = w.Write(s.queue)
		s.queue = nil
	}
}

// transcript is a file that all typed and printed lines go to, as they look
// when they are finished. The screen's lock guards it.
type transcript struct {
	file *os.File
	err  error // the first failure to write
}

func (t *transcript) mark(what string) {
	t.line(fmt.Appendf(nil, "# transcript %s %s", what, time.Now().Format(time.RFC3339)))
}

func (t *transcript) line(text []byte) {
	text = plainText(text)
	if r := bytes.LastIndexByte(bytes.TrimSuffix(text, []byte{'\r'}), '\r'); r >= 0 {
		text = text[r+1:]
	}
	text = bytes.TrimRight(text, "\r \t")
	if _, err := t.file.Write(append(text, '\n')); err != nil && t.err == nil {
		t.err = fmt.Errorf("transcript: %w: what follows is missing in it", err)
	}
}

// add writes the whole lines of partial+b and returns the rest.
func (t *transcript) add(partial, b []byte) (rest []byte) {
	rest = append(partial, b...)
	for {
		line, after, whole := bytes.Cut(rest, []byte{'\n'})
		if !whole {
			// Only what follows a \r would be seen.
			if r := bytes.LastIndexByte(rest, '\r'); r > 0 {
				rest = rest[r:]
			}
			return bytes.Clone(rest)
		}
		t.line(line)
		rest = after
	}
}

func (t *transcript) close() error {
	t.mark("ends")
	if err := t.file.Close(); err != nil && t.err == nil {
		t.err = fmt.Errorf("transcript: %w", err)
	}
	return t.err
}

// escapes are ECMA-48's: CSI up to its final byte, OSC up to BEL or ST, and ESC with
// one character.
var escapes = regexp.MustCompile(`(?s)\x1b(\[[^@-~]*[@-~]?|\]([^\x07\x1b]|\x1b+[^\x07\x1b\\])*(\x1b*\x07|\x1b+\\)?|.)?`)

// plainText returns text without escape sequences.
func plainText(text []byte) []byte { return escapes.ReplaceAll(text, nil) }

// SetTranscript appends everything that is typed and printed from now on to a
// file, without escape codes; "" ends it, as another path does. What failed to
// be written is reported when it ends.
func (s *Shell) SetTranscript(path string) error {
	var next *transcript
	if path != "" {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("transcript: %w: give a file that can be written", err)
		}
		next = &transcript{file: file}
	}
	s.screen.mu.Lock()
	defer s.screen.mu.Unlock()
	last := s.screen.log
	s.screen.log = next
	if last != nil {
		s.flush(last)
		if err := last.close(); err != nil {
			return err
		}
	}
	if next != nil {
		next.mark("begins")
		return next.err
	}
	return nil
}

// flush writes what of the output is no whole line yet. It needs the screen's
// lock.
func (s *Shell) flush(t *transcript) {
	for _, o := range []*stream{s.out, s.err} {
		if len(o.logged) > 0 {
			t.line(o.logged)
		}
		o.logged = nil
	}
}

// typed notes a line that was typed.
func (s *Shell) typed(prompt, line string) {
	s.screen.mu.Lock()
	defer s.screen.mu.Unlock()
	if t := s.screen.log; t != nil {
		s.flush(t)
		t.line([]byte(prompt + line))
	}
}
