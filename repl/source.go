package repl

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// sourceDepth bounds how deep files may run files.
const sourceDepth = 8

type sourceKey struct{}

// Within returns the context for what a file says, which is run under ctx and has this
// one name among all files. It refuses a file that runs itself, and too many that run
// each other.
func Within(ctx context.Context, path, name string) (context.Context, error) {
	outer, _ := ctx.Value(sourceKey{}).([]string)
	if slices.Contains(outer, name) {
		return nil, fmt.Errorf("source %s: it is being run already, from %s: a file cannot run itself", path, outer[len(outer)-1])
	}
	if len(outer) == sourceDepth {
		return nil, fmt.Errorf("source %s: it is file %d within files: at most %d are", path, sourceDepth+1, sourceDepth)
	}
	return context.WithValue(ctx, sourceKey{}, append(slices.Clone(outer), name)), nil
}

// ReadFile returns a file's text, and the one name that it has among all files.
func ReadFile(path string) (text, name string, err error) {
	read, err := os.ReadFile(path)
	if err == nil {
		name, err = filepath.EvalSymlinks(path)
	}
	if err == nil {
		name, err = filepath.Abs(name)
	}
	return string(read), name, err
}

// Source runs the text of a file line by line, each shown after "> " before it runs, and
// stops at the first that fails, whose place it names: "file:line: error". A
// line ends neither within quotes nor after a \. What it runs may call
// it again under the context that its line was given; name is the file's for Within.
func (s *Shell) Source(ctx context.Context, path, name, text string) error {
	return s.source(ctx, path, name, text, true)
}

func (s *Shell) source(ctx context.Context, path, name, text string, echo bool) error {
	ctx, err := Within(ctx, path, name)
	if err != nil {
		return err
	}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		at, line := i+1, strings.TrimSuffix(lines[i], "\r")
		for Lex(line).Open != 0 && i+1 < len(lines) {
			i++
			line += "\n" + strings.TrimSuffix(lines[i], "\r")
		}
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if echo && !s.secret(line) {
			_, _ = fmt.Fprintln(s.out, "> "+line)
		} else if echo {
			_, _ = fmt.Fprintln(s.out, "> (left out)")
		}
		if err := s.line(ctx, line); err != nil {
			return fmt.Errorf("%s:%d: %w", path, at, err)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s:%d: %w", path, at, context.Cause(ctx))
		}
		if s.quit.Err() != nil {
			return nil
		}
	}
	return nil
}

// SetTiming switches whether the time that a line took is printed after it.
func (s *Shell) SetTiming(on bool) { s.timing.Store(on) }

// line runs a line as it was typed.
func (s *Shell) line(ctx context.Context, text string) error {
	text = s.expand(text)
	if lexed := Lex(text); len(lexed.starts) == 0 && !lexed.Nothing {
		return nil
	}
	begun := time.Now()
	err := s.host.Run(ctx, text)
	if s.timing.Load() {
		_, _ = fmt.Fprintf(s.out, "(%.3f s)\n", time.Since(begun).Seconds())
	}
	return err
}

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
	case lexed.hasJob():
		return fmt.Errorf("watch %q: no command in it can end in &; to watch in the background, quote it and put the & after the quotes", line)
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
