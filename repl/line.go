package repl

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// SetTiming switches whether the time that a line took is printed after it.
func (s *Shell) SetTiming(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timing = on
}

// line runs a line as it was typed.
func (s *Shell) line(ctx context.Context, text string) error {
	text = s.expand(text)
	lexed := Lex(text)
	if at := lexed.background; at >= 0 {
		return s.background(strings.TrimSpace(text[:at]))
	}
	if len(lexed.starts) == 0 {
		return nil
	}
	begun := time.Now()
	err := s.host.Run(ctx, text)
	s.mu.Lock()
	timing := s.timing
	s.mu.Unlock()
	if timing {
		_, _ = fmt.Fprintf(s.outW, "(%.3f s)\n", time.Since(begun).Seconds())
	}
	return err
}
