package lines

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/failure"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/repl"
)

// This file runs the commands that need no data path where there is none: over a ring of TCP
// connections alone, or, where the other ranks do not come either, on this node.

// meetWithin is how long the other ranks may take to come to a diagnosis: the verdict on the ring
// that has failed reached them at the same time.
const meetWithin = 10 * time.Second

// OnBroken runs those commands of a script that need no data path, after a ring that did not come
// up, and returns why it did not.
func OnBroken(ctx context.Context, s *session.Session, t *command.Table, script string, failed *session.BringUpError) error {
	commands, err := Split(script)
	if err != nil {
		return err
	}
	commands = slices.DeleteFunc(commands, func(each repl.Command) bool {
		c, _ := t.Find(each.Words[0], command.Line)
		return !c.Diagnoses
	})
	if ctx.Err() != nil || len(commands) == 0 {
		return failed
	}
	failure.Report(s, "connect", failed, exit.Code(failed))
	met, why := false, "the ring did not come up over TCP"
	if failed.Met {
		if err := meet(ctx, s, nil); err == nil {
			met = true
			defer func() { _ = s.Leave(ctx, nil, session.End) }() // why the ring is over was said
		} else {
			why = "the other ranks have not come to the diagnosis: " + err.Error()
		}
	}
	if !met && s.Out.Note(render.Fair, "%s: what follows is of this node alone", why) != nil {
		return failed
	}
	for _, each := range commands {
		err := t.RunLine(ctx, s.Stdout, each.Words, false, func(ctx context.Context, c command.Row, call command.Call) error {
			if met {
				return onRing(ctx, s, c, call)
			}
			return onThisNode(ctx, s, c, call)
		})
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			failure.Report(s, each.Words[0], err, exit.Code(err))
		}
	}
	return exit.Reported(failed)
}

// meet joins a ring for a diagnosis, after one that is over for a reason.
func meet(ctx context.Context, s *session.Session, over error) error {
	s.Place.Diagnosing = true
	defer func() { s.Place.Diagnosing = false }()
	return s.Rejoin(ctx, s.Place.Without, s.Leads || s.Place.Led, over, min(meetWithin, s.Config.Duration("timeout")))
}

// diagnose runs a command that needs no data path where the ring has failed, or none came up.
// Followers leave the ring for the diagnosis afterwards, and wait for the next one.
func diagnose(ctx context.Context, s *session.Session, c command.Row, call command.Call, over error) error {
	if s.Ring != nil {
		over = s.Ring.Err()
	}
	if s.Place.History.Last() != 0 {
		over = meet(ctx, s, over)
	}
	if s.Ring == nil {
		if err := s.Out.Note(render.Fair, "%v: %s is of this node alone", over, c.Name); err != nil {
			return err
		}
		return onThisNode(ctx, s, c, call)
	}
	err := onRing(ctx, s, c, call)
	return exit.Graver(err, s.Leave(ctx, nil, session.Order{Do: session.OrderAgain}))
}

// onThisNode runs the command of the process of the same name.
func onThisNode(ctx context.Context, s *session.Session, c command.Row, call command.Call) error {
	own, found := call.Table.Find(c.Name, command.Process)
	if !found {
		return s.Out.Note(render.Fair, "%s: not run, since it needs the other ranks", c.Name)
	}
	flags := pflag.NewFlagSet(own.Name, pflag.ContinueOnError)
	if own.Flags != nil {
		own.Flags(flags)
	}
	var err error
	call.Flags.Visit(func(f *pflag.Flag) {
		if flags.Lookup(f.Name) != nil && err == nil {
			err = flags.Set(f.Name, f.Value.String())
		}
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	return own.Run(ctx, s, command.Call{Name: own.Name, Flags: flags, Args: call.Args, Table: call.Table})
}
