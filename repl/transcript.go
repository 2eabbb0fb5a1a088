package repl

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"time"
)

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
