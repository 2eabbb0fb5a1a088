package repl

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// watchFloor is the shortest interval of a Watch: shorter ones measure the
// terminal.
const watchFloor = 100 * time.Millisecond

// Watch runs a line at once and then after every interval, under a heading with
// the time, until its context ends, which is no error, or the line fails. The
// screen is not cleared, so that it can be scrolled back and piped.
func (s *Shell) Watch(ctx context.Context, every time.Duration, line string) error {
	if every < watchFloor {
		return fmt.Errorf("watch every %s: expected %s or more", every, watchFloor)
	}
	line = strings.TrimSpace(s.expand(line))
	switch lexed := Lex(line); {
	case len(lexed.starts) == 0:
		return fmt.Errorf("watch every %s: expected a command after the interval", every)
	case lexed.background >= 0:
		return fmt.Errorf("watch %q: it cannot end in &; to watch in the background, quote it and put the & after the quotes", line)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if _, err := fmt.Fprintf(s.out, "--- %s, every %s: %s\n", time.Now().Format("15:04:05.0"), every, line); err != nil {
			return err
		}
		err := s.host.Run(ctx, line)
		if ctx.Err() != nil || s.quit.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
