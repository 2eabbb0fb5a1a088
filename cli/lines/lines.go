package lines

import (
	"context"
	"errors"
	"io"
	"time"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/failure"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/configs/codes"
)

// each runs the commands of a script, one after the other. failed is
// told each failure; it returns what to end with if nothing worse comes, or nil to end now.
func each(ctx context.Context, t *command.Table, script string, w io.Writer, run command.RunFunc, failed func(error) (kept error)) error {
	commands, err := Split(script)
	if err != nil {
		return err
	}
	worst := error(nil)
	for _, words := range commands {
		root := t.LineTree(w, run)
		root.SetArgs(words)
		err := root.ExecuteContext(ctx)
		if p, is := w.(*render.Pager); is {
			err = errors.Join(err, p.Show(ctx))
		}
		switch {
		case errors.Is(err, exit.ErrQuit):
			return worst
		case err == nil:
			continue
		case failed == nil:
			return err
		}
		kept := failed(err)
		if kept == nil {
			return err
		}
		worst = exit.Graver(worst, kept)
	}
	return worst
}

// Check refuses a script with a mistake before a ring is brought up for
// it.
func Check(ctx context.Context, s *session.Session, t *command.Table, script string, ranksHere int) error {
	return each(ctx, t, script, io.Discard, func(ctx context.Context, c command.Row, call command.Call) error {
		switch {
		case c.Typed:
			return noShell(c)
		case c.Check == nil:
			return nil
		}
		return c.Check(ctx, s, call, ranksHere)
	}, nil)
}

// Run runs a script. The first command that fails ends it, but for a
// warning, or with --keep-going: then `reconnect` mends what a ring has failed of.
func Run(ctx context.Context, s *session.Session, t *command.Table, script string) error {
	w := s.Stdout
	if s.Pager != nil {
		w = s.Pager
	}
	return each(ctx, t, script, w, func(ctx context.Context, c command.Row, call command.Call) error {
		return perform(ctx, s, c, call)
	}, func(err error) error {
		switch code := exit.Code(err); {
		case s.KeepGoing && ctx.Err() == nil && !exit.IsUsers(err):
			failure.Report(s, "script", err, code)
			if s.Ring != nil && s.Ring.Failed() { // of which the ranks of the next one need not hear
				return exit.Sharedf(code, "%w", exit.Reported(err))
			}
			return exit.Reported(err)
		case code == exit.Warning:
			return err
		}
		return nil
	})
}

// perform runs one command of a line: here, or on all ranks if this one leads
// them and the command is about the ring. A failure is diagnosed, and the flight
// recorder kept.
func perform(ctx context.Context, s *session.Session, c command.Row, call command.Call) error {
	var results []render.Record // for `expect`
	s.Out.Seen = func(r render.Record) { results = append(results, r) }
	err := start(ctx, s, c, call)
	s.Out.Seen = nil
	if len(results) > 0 {
		s.Results, s.Fresh = results, true
	}
	if err == nil {
		return nil
	}
	s.Parent.Hear()
	var over *session.OverError
	if (c.Claims || c.Needs == command.Ready) && !errors.As(err, &over) {
		err = failure.Explain(ctx, s, c.Name, err)
		if ctx.Err() == nil {
			failure.KeepRecord(s, c.Name, err)
		}
	}
	return failure.InCommand(c.Name, err)
}

func noShell(c command.Row) error {
	return exit.Usagef("%s is for the shell: expected none in -c and -f", c.Name)
}

func start(ctx context.Context, s *session.Session, c command.Row, call command.Call) error {
	usesRing := c.Claims || c.Needs == command.Ready
	if usesRing && s.Claim != nil {
		begun := time.Now()
		release, err := s.Claim(s, c.Name)
		if err != nil && c.Visits {
			call.Host, release, err = s.Visit(ctx, s, c.Name, err)
			call.Waited = time.Since(begun)
		}
		if err != nil {
			return err
		}
		defer release()
	}
	if c.Typed && s.Shell == nil { // in a file that a script sources
		return noShell(c)
	}
	if usesRing && call.Host == "" || !s.Interactive {
		s.Does(c.Name)
		defer s.Does("")
	}
	defer s.Speak()()
	if c.Pages && s.Pager != nil {
		defer s.Out.Into(s.Pager)()
	}
	if s.Running != nil {
		s.Running.Store(&session.Running{Name: c.Name, Stops: c.Stops})
		defer s.Running.Store(nil)
	}
	switch c.Needs {
	case command.Opened:
		if s.Ring == nil {
			return exit.Codedf(codes.Order, "%s: there is no ring: `open` comes first, or `connect`, which takes all steps", c.Name)
		}
	case command.Ready:
		if err := s.Ready(ctx); err != nil {
			return err
		}
		s.Member.Command = c.Name
		switch {
		case c.Own:
		case s.Leads:
			return Lead(ctx, s, c, call)
		default:
			return s.Together(func() error { return c.Run(ctx, s, call) })
		}
	}
	return c.Run(ctx, s, call)
}
