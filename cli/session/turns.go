package session

import (
	"context"
	"errors"
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
	Base   *Session
	line   []*Turn // the first one has the ring
	guest  string  // a visitor's command, which has the ring too
	guests int     // how many visit
}

// Turn is a command's place in the line of those that want the ring.
type Turn struct {
	of      *Turns
	command string
	granted chan struct{} // closed when the ring is its
	over    chan struct{} // closed when it is not any more
	// The lock of Turns guards these.
	owner *Session // whose turn it is; nil until it has begun
	ended bool     // it has ended before its visitors
}

// Reserve takes a place in the line, which Leave gives up.
func (t *Turns) Reserve(command string) *Turn {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	return t.reserve(command)
}

// reserve needs the lock.
func (t *Turns) reserve(command string) *Turn {
	turn := &Turn{of: t, command: command, granted: make(chan struct{}), over: make(chan struct{})}
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
		return nil, exit.Usagef("%w", &BusyError{Command: command, Holder: t.holder()})
	}
	turn := t.reserve(command)
	turn.take(s)
	return turn, nil
}

// holder is the command that has the ring, "" if none does. It needs the lock.
func (t *Turns) holder() string {
	switch {
	case len(t.line) == 0:
		return ""
	case t.line[0].ended:
		return t.guest
	}
	return t.line[0].command
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
	text := t.holder()
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

// Leave ends the turn, or gives the place up. What the turn's visitors have not ended the
// next one waits for: a command that was cancelled ends before them.
func (turn *Turn) Leave() {
	if turn.GiveUp() {
		return
	}
	t := turn.of
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if len(t.line) > 0 && t.line[0] == turn {
		turn.ended = true
		t.next()
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

// next gives the ring to the next one in the line, if the first has ended and nobody visits
// it. It needs the lock.
func (t *Turns) next() {
	if len(t.line) == 0 || !t.line[0].ended || t.guests > 0 {
		return
	}
	close(t.line[0].over)
	if t.line = t.line[1:]; len(t.line) > 0 {
		close(t.line[0].granted)
	}
}

// enter makes a command a visitor of a turn, unless that has ended.
func (t *Turns) enter(s *Session, command string, turn *Turn) (leave func(), entered bool) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if turn.ended || len(t.line) == 0 || t.line[0] != turn {
		return nil, false
	}
	t.guest = command
	t.guests++
	s.Ring, s.Member, s.Leads = t.Base.Ring, t.Base.Member, t.Base.Leads
	return func() {
		t.Mu.Lock()
		defer t.Mu.Unlock()
		t.guests--
		t.next()
	}, true
}

// Visit lets a command in while another that Stops has the ring: when that one is at a
// boundary on all ranks. It returns without one where there is nobody to visit, who would
// let it in, any more: then the command takes its turn like others.
func (t *Turns) Visit(ctx context.Context, s *Session, command string) (host string, leave func(), err error) {
	limit := s.Config.Duration("timeout")
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		t.Mu.Lock()
		if len(t.line) == 0 {
			t.Mu.Unlock()
			return "", nil, nil
		}
		of, turn := t.holder(), t.line[0]
		owner, ended := turn.owner, turn.ended
		t.Mu.Unlock()
		var in <-chan struct{} // nil where the turn is only its visitors' any more
		out := func() {}
		if !ended {
			if owner == nil {
				return "", nil, nil
			}
			if c := owner.Running.Load(); c == nil || !c.Stops {
				return "", nil, nil
			}
			in, out = s.Visits.Knock()
		}
		hush := s.Await(ctx, begun, of+" in the background to come to a boundary")
		select {
		case <-in:
			left, entered := t.enter(s, command, turn)
			hush()
			if entered {
				return of, func() { left(); out() }, nil
			}
			out()
		case <-turn.over:
			hush()
			out()
		case <-ctx.Done():
			hush()
			out()
			if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				return "", nil, context.Cause(ctx)
			}
			awaits := ""
			if w, waits := s.Waits.Now(); waits {
				awaits = ": it waits for " + w.String()
			}
			return "", nil, fmt.Errorf("%s: %s in the background has come to no boundary in %s%s", command, of, limit, awaits)
		}
	}
}

// StopGrace is how long a command may take to its next boundary: longer than an
// iteration of any size that is usual, shorter than patience with a rank that is
// not there. Tests change it, on machines that are busy.
var StopGrace = 10 * time.Second

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
	_, _ = fmt.Fprintf(s.Stderr, "%s stops at its next boundary, within %s%s\n", command, StopGrace, harder)
}
