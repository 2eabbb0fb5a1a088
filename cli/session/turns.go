package session

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"ringcli/cli/exit"
)

// Turns gives the ring to one command at a time, in the order in which they have asked.
type Turns struct {
	Mu sync.Mutex // guards what follows
	// Base is the session between two commands. Its ring, member and leads change only at
	// the hand of the command whose turn it is.
	Base *Session
	line []*Turn // the first one has the ring
}

// Turn is a command's place in the line of those that want the ring.
type Turn struct {
	of      *Turns
	command string
	granted chan struct{} // closed when the ring is its
	owner   *Session      // whose turn it is; nil until it has begun; guarded by the lock of Turns
}

// Reserve takes a place in the line, which Leave gives up.
func (t *Turns) Reserve(command string) *Turn {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	return t.reserve(command)
}

// reserve needs the lock.
func (t *Turns) reserve(command string) *Turn {
	turn := &Turn{of: t, command: command, granted: make(chan struct{})}
	if t.line = append(t.line, turn); len(t.line) == 1 {
		close(turn.granted)
	}
	return turn
}

// Try is Reserve and Take if nobody has the ring; else it says who has.
func (t *Turns) Try(s *Session, command string) (*Turn, error) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if len(t.line) > 0 {
		return nil, exit.Usagef("%w", &BusyError{Command: command, Holder: t.line[0].command})
	}
	turn := t.reserve(command)
	turn.take(s)
	return turn, nil
}

// Waits tells whether others have the ring before.
func (turn *Turn) Waits() bool {
	select {
	case <-turn.granted:
		return false
	default:
		return true
	}
}

// Doomed tells whether the ring has failed, and no command in the line mends it: then all that
// wait fail at their turns.
func (turn *Turn) Doomed() bool {
	t := turn.of
	t.Mu.Lock()
	defer t.Mu.Unlock()
	mends := func(turn *Turn) bool { return turn.command == "reconnect" }
	return t.Base.Ring != nil && t.Base.Ring.Failed() && !slices.ContainsFunc(t.line, mends)
}

// Take waits for the turn and gives the ring to a session. While it waits people are told
// for whom.
func (turn *Turn) Take(ctx context.Context, s *Session) error {
	if turn.Waits() {
		if !s.SpeaksToParent() { // where rank 0 waits for the same
			defer s.Await(ctx, time.Now(), turn.of.before(turn)+" in the background to end")()
		}
		select {
		case <-turn.granted:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	turn.of.Mu.Lock()
	defer turn.of.Mu.Unlock()
	turn.take(s)
	return nil
}

// before names the commands that have the ring before a turn.
func (t *Turns) before(turn *Turn) string {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	text := t.line[0].command
	switch more := slices.Index(t.line, turn) - 1; {
	case more == 1:
		text += " and another one"
	case more > 1:
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// take needs the lock.
func (turn *Turn) take(s *Session) {
	turn.owner = s
	if base := turn.of.Base; s != base {
		s.Ring, s.Member, s.Leads = base.Ring, base.Member, base.Leads
	}
}

// Keep keeps what the owner has made of the ring.
func (turn *Turn) Keep() {
	turn.of.Mu.Lock()
	defer turn.of.Mu.Unlock()
	if base, s := turn.of.Base, turn.owner; s != base {
		base.Ring, base.Member, base.Leads = s.Ring, s.Member, s.Leads
	}
}

// Leave ends the turn, or gives the place up. Later calls do nothing.
func (turn *Turn) Leave() {
	t := turn.of
	t.Mu.Lock()
	defer t.Mu.Unlock()
	switch i := slices.Index(t.line, turn); {
	case i == 0:
		if t.line = t.line[1:]; len(t.line) > 0 {
			close(t.line[0].granted)
		}
	case i > 0:
		t.line = slices.Delete(t.line, i, i+1)
	}
}

// GiveUp gives the place up unless the turn has come: then it never does.
func (turn *Turn) GiveUp() bool {
	t := turn.of
	t.Mu.Lock()
	defer t.Mu.Unlock()
	i := slices.Index(t.line, turn)
	if i > 0 {
		t.line = slices.Delete(t.line, i, i+1)
	}
	return i > 0
}

// AskToStop asks what runs to stop at its next boundary. It reports whether it
// will. Harder says what does not wait for that.
func (s *Session) AskToStop(harder string) bool {
	c := s.Running.Load()
	if c == nil || !c.Stops {
		return false
	}
	s.Halt(c.Name, harder)
	return true
}

// Halt has a command that Stops do so at its next boundary.
func (s *Session) Halt(command, harder string) {
	s.Stop.Store(true)
	s.Progress.End()
	if s.SpeaksToParent() { // so does rank 0
		return
	}
	// A terminal that is gone has nobody to read it.
	_, _ = fmt.Fprintf(s.Stderr, "%s stops at its next boundary, within %s%s\n", command, s.StopGrace, harder)
}
