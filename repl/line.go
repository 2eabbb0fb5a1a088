package repl

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// SetTiming switches whether the time that a line took is printed after it.
func (s *Shell) SetTiming(on bool) { s.timing.Store(on) }

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
	if s.timing.Load() {
		_, _ = fmt.Fprintf(s.out, "(%.3f s)\n", time.Since(begun).Seconds())
	}
	return err
}
