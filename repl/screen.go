package repl

import (
	"bytes"
	"io"
	"sync"
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
