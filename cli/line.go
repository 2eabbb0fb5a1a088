package cli

import (
	"context"
	"errors"
	"io"
	"strings"

	"ringcli/cli/render"
)

// eachCommand runs the commands of a script, one after the other. failed is
// told each failure, and whether to go on is its to say.
func eachCommand(ctx context.Context, t *Table, script string, w io.Writer, run func(context.Context, Command, Call) error, failed func(error) (goOn bool)) error {
	commands, err := splitScript(script)
	if err != nil {
		return err
	}
	worst := error(nil)
	for _, words := range commands {
		root := t.lineTree(w, run)
		root.SetArgs(words)
		err := error(nil)
		// Cobra looks at the flags first, which are nobody's then.
		if _, known := t.find(words[0], Line); known || strings.HasPrefix(words[0], "-") {
			err = root.ExecuteContext(ctx)
		} else {
			err = unknownCommand(root, words[0])
		}
		switch {
		case errors.Is(err, errQuit):
			return worst
		case err == nil:
		case ExitCode(err) == ExitWarning, failed != nil && failed(err):
			if worst == nil || worse(ExitCode(worst), ExitCode(err)) != ExitCode(worst) {
				worst = err
			}
		default:
			return err
		}
	}
	return worst
}

// checkScript refuses a script with a mistake before a ring is brought up for
// it.
func (s *Session) checkScript(ctx context.Context, t *Table, script string, ranksHere int) error {
	return eachCommand(ctx, t, script, io.Discard, func(_ context.Context, c Command, call Call) error {
		if c.Check == nil {
			return nil
		}
		return c.Check(s, call, ranksHere)
	}, nil)
}

// runScript runs a script. The first command that fails ends it, but for a
// warning, or with --keep-going for as long as there is a ring to go on with.
func (s *Session) runScript(ctx context.Context, t *Table, script string) error {
	return eachCommand(ctx, t, script, s.stdout, func(ctx context.Context, c Command, call Call) error { return s.perform(ctx, c, call) }, func(err error) bool {
		if !s.keepGoing || ctx.Err() != nil || ExitCode(err) == ExitInterrupted || s.ring != nil && s.ring.Failed() {
			return false
		}
		s.report("script", err, ExitCode(err))
		return true
	})
}

// perform runs one command of a line: here, or on all ranks if this one leads
// them and the command is about the ring. A failure is diagnosed, and the flight
// recorder kept.
func (s *Session) perform(ctx context.Context, c Command, call Call) error {
	err := s.observed(func() error { return s.start(ctx, c, call) })
	if err == nil {
		return nil
	}
	var over *overError
	if (c.Claims || c.Needs == Ready) && !errors.As(err, &over) {
		err = s.explain(ctx, c.Name, err)
		if ctx.Err() == nil {
			s.keepRecord(c.Name, err)
		}
	}
	return inCommand(c.Name, err)
}

func (s *Session) start(ctx context.Context, c Command, call Call) error {
	if (c.Claims || c.Needs == Ready) && s.claim != nil {
		release, err := s.claim(s, c.Name)
		if err != nil {
			return err
		}
		defer release()
	}
	if s.running != nil {
		s.running.Store(&running{c.Name, c.Stops})
		defer s.running.Store(nil)
	}
	switch c.Needs {
	case Opened:
		if s.ring == nil {
			return usageError("%s: there is no ring: `open` comes first, or `connect`, which takes all steps", c.Name)
		}
	case Ready:
		if err := s.ready(ctx); err != nil {
			return err
		}
		s.member.command = c.Name
		if s.leads && !c.Own {
			return s.lead(ctx, c, call)
		}
	}
	return c.Run(ctx, s, call)
}

// observed keeps what a command prints for `expect`.
func (s *Session) observed(run func() error) error {
	if s.Out == nil {
		return run()
	}
	var results []render.Record
	s.Out.Seen = func(r render.Record) { results = append(results, r) }
	err := run()
	s.Out.Seen = nil
	if len(results) > 0 {
		s.results, s.fresh = results, true
	}
	return err
}
