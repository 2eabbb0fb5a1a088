package repl

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// Source runs a file line by line, each shown after "> " before it runs, and
// stops at the first that fails, whose place it names: "file:line: error". A
// line ends neither within quotes nor after a \. A file that Source runs may call
// it again under the context that its line was given.
func (s *Shell) Source(ctx context.Context, path string) error { return s.source(ctx, path, true) }

func (s *Shell) source(ctx context.Context, path string, echo bool) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("source: %w", err)
	}
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return fmt.Errorf("source: %w", err)
	}
	if ctx, err = Within(ctx, path, real); err != nil {
		return err
	}

	lines := strings.Split(string(text), "\n")
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
