package lines

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/ring/bootstrap"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/trace"
)

// Lead runs a command on all ranks. The settings that it takes are the leader's.
func Lead(ctx context.Context, s *session.Session, c command.Row, call command.Call) error {
	s.Member.Command = c.Name
	if err := s.Order(ctx, session.Order{Do: session.OrderRun, Words: commandWords(s, c, call)}); err != nil {
		return err
	}
	call.Led = true
	return together(ctx, s, c.Run(ctx, s, call))
}

// commandWords spells a command with its flags and the settings that it takes.
func commandWords(s *session.Session, c command.Row, call command.Call) []string {
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
func together(ctx context.Context, s *session.Session, err error) error {
	if exit.IsShared(err) || ctx.Err() != nil || s.Ring.Failed() {
		return err
	}
	return s.Member.Agree(ctx, err)
}

// leaderTick is the pause between two looks for a leader while no ring shows it.
const leaderTick = 250 * time.Millisecond

// leaderWatch limits a follower's waits for a ring to its leader's life, and so long after.
type leaderWatch struct {
	history *bootstrap.History
	after   time.Duration
	since   time.Time // the leader is missing; zero while it lives
}

// limit returns a context that ends with a *bootstrap.Verdict on a leader that is missing.
// The function that it returns ends the watch.
func (w *leaderWatch) limit(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for Pause(ctx, leaderTick) == nil {
			v := w.history.Leader().Missing(ctx)
			switch {
			case v == nil:
				w.since = time.Time{}
				continue
			case w.since.IsZero():
				w.since = time.Now()
			}
			if time.Since(w.since) >= w.after {
				cancel(v)
			}
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}

// Follow is `connect --follow`: it takes the leader's commands until the
// leader ends, in one ring after the other. Where a ring has failed, the verdict on it is
// what it ends with if no other comes. It waits for another leader for as long as retry after
// one that has ended, or is stopped, without saying so.
func Follow(ctx context.Context, s *session.Session, t *command.Table, retry time.Duration) error {
	if s.Config.Int("index") == 0 {
		return exit.Usagef("--follow with index 0: expected another index; rank 0 leads")
	}
	s.Follows = true
	rank := s.Config.Int("index")
	tell := func(text string) { trace.Warn(trace.Repl, text) }
	if s.SpeaksToParent() { // which leads, and has said it
		tell = func(text string) { trace.Info(trace.Repl, text) }
	}
	if err := mayFollow(ctx, s); err != nil {
		return err
	}
	var last error // why the last ring failed
	watch := leaderWatch{history: &s.Place.History, after: retry}
	for {
		limited, end := watch.limit(ctx)
		err := s.Join(limited, session.FollowerPatience)
		end()
		if err != nil {
			if group, ok := regrouped(err); ok {
				if s.TakeUp(group) {
					return leftOut(s)
				}
				continue
			}
			if missing, ok := errors.AsType[*bootstrap.Verdict](context.Cause(limited)); ok && ctx.Err() == nil {
				return leaderless(last, missing)
			}
			if ctx.Err() != nil || exit.Code(err) == exit.Usage {
				return err
			}
			last = cmp.Or(last, err)
			tell("trying again: " + err.Error())
			if err := Pause(ctx, time.Second); err != nil {
				return err
			}
			continue
		}
		if now := s.Ring.Rank(); now != rank {
			if err := s.Out.Note(render.Plain, "rank %d is rank %d of %d now", rank, now, s.Ring.Size()); err != nil {
				return s.Leave(ctx, err, session.End)
			}
			rank = now
		}
		group, again, err := followRing(ctx, s, t)
		failure := s.Ring.Err()
		err = s.Leave(ctx, err, session.End)
		if ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if err == nil && !again {
			return nil
		}
		if s.TakeUp(group) {
			return leftOut(s)
		}
		var v *bootstrap.Verdict
		if errors.As(failure, &v) && retry == 0 && v.Rank == 0 && (v.Kind == bootstrap.KindLost || v.Kind == bootstrap.KindLeft) {
			return err
		}
		last = err
		if err != nil && (v == nil || v.By != 0) { // else the leader has said it
			tell("waiting for the leader to connect again: " + err.Error())
		}
	}
}

// leaderless ends a follower whose leader is missing: with why its last ring failed, if it
// has, and with what it waited for then, unless that is the same.
func leaderless(last error, missing *bootstrap.Verdict) error {
	v, ok := errors.AsType[*bootstrap.Verdict](last)
	switch {
	case last == nil:
		return fmt.Errorf("waiting for the leader to connect: %w", missing)
	case ok && v.Rank == missing.Rank && v.Kind == missing.Kind:
		return last
	}
	return fmt.Errorf("%w; waiting for the leader to connect again: %w", last, missing)
}

// leftOut ends a follower that its leader goes on without. That is an order like the one to
// end: it is no failure, whether the ring had failed before or not.
func leftOut(s *session.Session) error {
	return s.Out.Note(render.Plain, "the ring goes on without this rank: to take it back in, start it again, then give rank 0 `connect`")
}

// regrouped tells whether a bring-up ended since the leader has decided anew, and what, if
// that was said.
func regrouped(err error) (*bootstrap.Group, bool) {
	v, ok := errors.AsType[*bootstrap.Verdict](err)
	if !ok || v.Kind != bootstrap.KindRegrouped {
		return nil, false
	}
	return v.Group, true
}

// Pause waits, or returns why the context ended.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// followRing takes the leader's orders in a ring. It returns without an error when
// the leader is done with the ring; again says that another one comes, of these ranks.
func followRing(ctx context.Context, s *session.Session, t *command.Table) (next *bootstrap.Group, again bool, err error) {
	for {
		data, err := s.Ring.Await(ctx)
		if err != nil {
			return nil, false, err
		}
		var o session.Order
		if err := json.Unmarshal(data, &o); err != nil {
			return nil, false, fmt.Errorf("the leader's order %q: %w; do all ranks run the same version?", data, err)
		}
		switch o.Do {
		case session.OrderEnd:
			return nil, false, nil
		case session.OrderAgain:
			return o.Group, true, nil
		case session.OrderRun:
			err = obey(ctx, s, t, o.Words)
		default:
			err = fmt.Errorf("the leader's order is %q: expected run, again or end; do all ranks run the same version?", o.Do)
		}
		if s.Ring.Failed() || ctx.Err() != nil {
			// After the command, perhaps, of which it is no error then.
			return nil, false, errors.Join(cmp.Or(err, s.Ring.Err()), context.Cause(ctx))
		}
	}
}

// mayFollow refuses to follow where others than this machine's users reach the
// port that the orders come through, unless a token keeps them out.
func mayFollow(ctx context.Context, s *session.Session) error {
	token, _, err := s.Secrets.Token(s.Config)
	if err != nil || token != nil {
		return err
	}
	list, index, err := s.Identity()
	if err != nil {
		return err
	}
	nodes, err := hosts.Parse(list, s.Config.Int("tcp-port"))
	if err != nil || index < 0 || index >= len(nodes) {
		return err // Join says what is wrong with an index
	}
	addrs, _ := hosts.Lookup(ctx, nodes[index].Host) // a name that has no address yet will get no loopback address
	return mayFollowAt(nodes[index].Host, addrs...)
}

func mayFollowAt(host string, own ...netip.Addr) error {
	if len(own) > 0 && !slices.ContainsFunc(own, func(a netip.Addr) bool { return !a.IsLoopback() }) {
		return nil
	}
	return exit.Usagef("--follow at %s without a token: anybody who reaches the port could give commands; give all ranks the same --token-file or RINGCLI_TOKEN (`openssl rand -hex 32` makes one), or use loopback addresses", host)
}

// obey runs the leader's command. Its outcome is the leader's to report.
func obey(ctx context.Context, s *session.Session, t *command.Table, words []string) error {
	return t.RunLine(ctx, s.Stdout, words, false, func(ctx context.Context, c command.Row, call command.Call) error {
		s.Member.Command = c.Name
		s.Does(c.Name)
		defer s.Does("")
		return together(ctx, s, s.Together(func() error { return c.Run(ctx, s, call) }))
	})
}
