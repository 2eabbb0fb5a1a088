package lines

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/failure"
	"ringcli/cli/ledger"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/configs/codes"
	"ringcli/repl"
)

// Check refuses a script with a mistake before a ring is brought up for
// it. A command that stands in it again is checked once.
func Check(ctx context.Context, s *session.Session, t *command.Table, script string, ranksHere int) error {
	commands, err := Split(script)
	if err != nil {
		return err
	}
	var key []byte
	checked := map[string]bool{}
	for _, each := range commands {
		key = strconv.AppendBool(key[:0], each.Job)
		for _, word := range each.Words {
			key = strconv.AppendQuote(key, word)
		}
		if checked[string(key)] {
			continue
		}
		checked[string(key)] = true
		err := t.RunLine(ctx, io.Discard, each.Words, false, func(ctx context.Context, c command.Row, call command.Call) error {
			return check(ctx, s, c, call, each.Job, ranksHere)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func check(ctx context.Context, s *session.Session, c command.Row, call command.Call, job bool, ranksHere int) error {
	if c.Typed {
		return noShell(c)
	}
	if job {
		if err := c.Background(false); err != nil {
			return err
		}
	}
	if c.Check == nil {
		return nil
	}
	return c.Check(ctx, s, call, ranksHere)
}

// Run runs a script, or a line of the shell. The first command that fails ends it, but for a
// warning, or with --keep-going: then `reconnect` mends what a ring has failed of. A script
// waits for its jobs at its end, and stops them if it has failed.
func Run(ctx context.Context, s *session.Session, t *command.Table, script string) error {
	if s.Jobs != nil { // of the shell, or of the script that this is sourced from
		return runLines(ctx, s, t, script)
	}
	s.Jobs, s.Turns = repl.NewJobs(ctx), &session.Turns{Base: s}
	defer func() { s.Jobs, s.Turns = nil, nil }()
	err := runLines(ctx, s, t, script)
	if err == nil || exit.Code(err) == exit.Warning || s.KeepGoing {
		err = exit.Graver(err, Wait(ctx, s, 0))
	}
	if left := s.Jobs.StopAll(); left != nil {
		err = errors.Join(err, left)
	}
	return err
}

// runLines runs the commands of a script, one after the other, and returns the gravest failure
// of those that it goes on after.
func runLines(ctx context.Context, s *session.Session, t *command.Table, script string) error {
	commands, err := Split(script)
	if err != nil {
		return err
	}
	worst := error(nil)
	for _, each := range commands {
		err := t.RunLine(ctx, s.Stdout, each.Words, each.Job, func(ctx context.Context, c command.Row, call command.Call) error {
			call.Text = strings.Join(each.Words, " ")
			if each.Job {
				return background(ctx, s, c, call)
			}
			return foreground(ctx, s, c, call)
		})
		switch {
		case errors.Is(err, exit.ErrQuit):
			return worst
		case err == nil:
			continue
		}
		kept := keptGoing(ctx, s, err)
		if kept == nil {
			return err
		}
		worst = exit.Graver(worst, kept)
	}
	return worst
}

// keptGoing tells of a failure that a script goes on after, and returns what the script ends
// with if nothing worse comes; nil ends it now.
func keptGoing(ctx context.Context, s *session.Session, err error) error {
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
}

// foreground runs one command of a line: here, or on all ranks if this one leads
// them and the command is about the ring.
func foreground(ctx context.Context, s *session.Session, c command.Row, call command.Call) error {
	var results []render.Record // for `expect`
	s.Out.Seen = func(r render.Record) { results = append(results, r) }
	begun := time.Now()
	err := start(ctx, s, c, call)
	s.Out.Seen = nil
	if len(results) > 0 {
		s.Results, s.Fresh = results, true
	}
	line := ledger.Line{OK: true, Text: call.Text, Duration: time.Since(begun).Seconds()}
	if err != nil {
		err = told(ctx, s, c, err)
		line.OK, line.Error, line.Code = errors.Is(err, exit.ErrQuit), err.Error(), string(failure.Code(err))
	}
	s.Ledger.Add(line)
	return err
}

// told is the error that a command ends with: a failure of the ring is diagnosed, and the
// flight recorder kept.
func told(ctx context.Context, s *session.Session, c command.Row, err error) error {
	s.Parent.Hear()
	var over *session.OverError
	if c.UsesRing() && !errors.As(err, &over) {
		err = failure.Explain(ctx, s, c.Name, err)
		if ctx.Err() == nil {
			failure.KeepRecord(s, c.Name, err)
		}
	}
	return failure.InCommand(c.Name, err)
}

// turn waits for the command's turn with the ring.
func turn(ctx context.Context, s *session.Session, c command.Row, call command.Call) (end func(), err error) {
	turn := call.Turn // of a job, which leaves it
	if turn == nil {
		turn = s.Turns.Reserve(c.Name)
	}
	if err := turn.Take(ctx, s); err != nil {
		turn.Leave()
		return nil, err
	}
	return func() {
		if call.Turn != nil {
			return
		}
		turn.Keep()
		turn.Leave()
	}, nil
}

func noShell(c command.Row) error {
	return exit.Usagef("%s is for the shell: expected none in -c and -f", c.Name)
}

func start(ctx context.Context, s *session.Session, c command.Row, call command.Call) error {
	if c.UsesRing() && s.Turns != nil {
		end, err := turn(ctx, s, c, call)
		if err != nil {
			return err
		}
		defer end()
	}
	if c.Typed && s.Shell == nil { // in a file that a script sources
		return noShell(c)
	}
	if c.UsesRing() || !s.Interactive && (s.Jobs == nil || len(s.Jobs.List()) == 0) {
		s.Does(c.Name)
		defer s.Does("")
	}
	defer s.Speak()()
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
		err := s.Ready(ctx)
		switch {
		case err == nil:
			return onRing(ctx, s, c, call)
		case c.Diagnoses && (s.Ring == nil || s.Ring.Failed()):
			return diagnose(ctx, s, c, call, err)
		}
		return err
	}
	return c.Run(ctx, s, call)
}

// onRing runs a command that needs a ring: here, on all ranks if this one leads them, or together
// with those that run the same.
func onRing(ctx context.Context, s *session.Session, c command.Row, call command.Call) error {
	s.Member.Command = c.Name
	switch {
	case c.Own:
		return c.Run(ctx, s, call)
	case s.Leads:
		return Lead(ctx, s, c, call)
	}
	return s.Together(func() error { return c.Run(ctx, s, call) })
}
