package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/pflag"

	"ringcli/ring/bootstrap"
	"ringcli/trace"
)

// lead runs a command on all ranks. The settings that it takes are the leader's.
func (s *Session) lead(ctx context.Context, c Command, call Call) error {
	s.member.command = c.Name
	if err := s.order(ctx, order{Do: orderRun, Words: s.wordsOf(c, call)}); err != nil {
		return err
	}
	call.Led = true
	return s.together(ctx, c.Run(ctx, s, call))
}

// wordsOf spells a command with its flags and the settings that it takes.
func (s *Session) wordsOf(c Command, call Call) []string {
	words := []string{c.Name}
	call.Flags.Visit(func(f *pflag.Flag) { words = append(words, "--"+f.Name+"="+f.Value.String()) })
	for _, name := range c.Settings {
		if f := call.Flags.Lookup(name); !f.Changed && s.Config.IsSet(name) {
			words = append(words, "--"+name+"="+s.Config.Get(name).String())
		}
	}
	return append(append(words, "--"), call.Args...)
}

// together puts the outcomes of a command on all ranks together. What all ranks
// know already is not told again.
func (s *Session) together(ctx context.Context, err error) error {
	if isShared(err) || ctx.Err() != nil || s.ring.Failed() {
		return err
	}
	return s.member.agree(ctx, err)
}

// followLeader is `connect --follow`: it takes the leader's commands until the
// leader ends, in one ring after the other.
func (s *Session) followLeader(ctx context.Context, t *Table) error {
	if s.Config.Int("index") == 0 {
		return usageError("--follow with index 0: expected another index; rank 0 leads")
	}
	s.follows = true
	for {
		if err := s.join(ctx, followerPatience); err != nil {
			if ctx.Err() != nil || ExitCode(err) == ExitUsage {
				return err
			}
			trace.Warn(trace.Repl, "trying again: "+err.Error())
			if err := pause(ctx, time.Second); err != nil {
				return err
			}
			continue
		}
		again, err := s.follow(ctx, t)
		failure := s.ring.Err()
		err = s.leave(ctx, err, orderEnd)
		if ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if err == nil && !again {
			return nil
		}
		var v *bootstrap.Verdict
		if errors.As(failure, &v) && v.Rank == 0 && (v.Kind == bootstrap.KindLost || v.Kind == bootstrap.KindLeft) {
			return err
		}
		if err != nil && (v == nil || v.By != 0) { // else the leader has said it
			trace.Warn(trace.Repl, "waiting for the leader to connect again: "+err.Error())
		}
	}
}

// pause waits, or returns why the context ended.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// follow takes the leader's orders in a ring. It returns without an error when
// the leader is done with the ring; again says that another one comes.
func (s *Session) follow(ctx context.Context, t *Table) (again bool, err error) {
	if err := mayFollow(s.ring.LocalAddr()); err != nil {
		return false, err
	}
	for {
		data, err := s.ring.Await(ctx)
		if err != nil {
			return false, err
		}
		var o order
		if err := json.Unmarshal(data, &o); err != nil {
			return false, fmt.Errorf("the leader's order %q: %w; do all ranks run the same version?", data, err)
		}
		switch o.Do {
		case orderEnd:
			return false, nil
		case orderAgain:
			return true, nil
		case orderRun:
			err = s.obey(ctx, t, o.Words)
		default:
			err = fmt.Errorf("the leader's order is %q: expected run, again or end; do all ranks run the same version?", o.Do)
		}
		if s.ring.Failed() || ctx.Err() != nil {
			return false, errors.Join(err, context.Cause(ctx))
		}
	}
}

// mayFollow refuses to follow where others than this machine's users reach the
// port that the orders come through.
func mayFollow(own netip.Addr) error {
	if own.IsLoopback() {
		return nil
	}
	return usageError("--follow from %s: expected a ring on loopback addresses; elsewhere, anybody who reaches the port could give commands", own)
}

// obey runs the leader's command. Its outcome is the leader's to report.
func (s *Session) obey(ctx context.Context, t *Table, words []string) error {
	root := t.lineTree(s.stdout, func(ctx context.Context, c Command, call Call) error {
		s.member.command = c.Name
		return s.together(ctx, c.Run(ctx, s, call))
	})
	root.SetArgs(words)
	return root.ExecuteContext(ctx)
}
