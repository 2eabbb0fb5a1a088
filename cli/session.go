package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"ringcli/trace"
	"sync/atomic"

	"ringcli/cli/render"
	"ringcli/configs"
	"ringcli/repl"
	"ringcli/ring"
)

// Session is what a command has to work with.
type Session struct {
	Config   *configs.Config
	Out      *render.Printer
	Progress *Progress

	stdin          io.Reader
	stdout, stderr io.Writer

	// ring is nil before `open`, and member before the ring can compute.
	ring   *ring.Ring
	member *Member
	// hand is what was done by hand on the ring.
	hand byHand
	// interactive says that a person types the lines.
	interactive bool
	// shell is nil where no lines are typed.
	shell *repl.Shell
	// claim gives the ring to one command at a time; nil where there is no other.
	claim func(s *Session, command string) (release func(), err error)
	// stopJob asks a line in the background to stop at its next boundary, and
	// reports whether it will.
	stopJob func(id int) bool
	// keepGoing runs the rest of a script after a command that failed.
	keepGoing bool
	// sourced is how deep scripts have called scripts.
	sourced int
	// running is the command that runs; nil where nobody asks.
	running *atomic.Pointer[running]
	// leads says that the other ranks take this one's commands.
	leads bool
	// follows says that this rank takes the leader's.
	follows bool
	// fault is what --corrupt asks for; may be nil.
	fault *fault
	// results are what the last command that printed any has printed.
	results []render.Record
	// forked is the configuration that a line of the shell began with, and fresh
	// says that it has results.
	forked  *configs.Config
	fresh   bool
	signals *signals // nil in tests
	// parent is set in a child of `local`.
	parent *parentLink
	// stop is set when what runs should stop at its next boundary; may be nil.
	stop *atomic.Bool
}

// byHand is what was done by hand on the ring, as far as a session must ask.
type byHand interface {
	// mayOperate refuses an operation of all ranks while something is in its way.
	mayOperate(context.Context, *Session) error
	// release gives back what hangs on the ring, which is about to close.
	release() error
}

// running is a command that runs.
type running struct {
	name  string
	stops bool // at its next boundary, if it is asked to
}

// stopping reports whether what runs should stop at its next boundary, together
// with the other ranks, which leaves the ring usable.
func (s *Session) stopping() bool { return s.stop != nil && s.stop.Load() }

// sidesOf lists the side that is meant, or both.
func sidesOf(only *ring.Side) []ring.Side {
	if only != nil {
		return []ring.Side{*only}
	}
	return []ring.Side{ring.Left, ring.Right}
}

func newSession(stdin io.Reader, stdout, stderr io.Writer, signals *signals, hand byHand) *Session {
	return &Session{stdin: stdin, stdout: stdout, stderr: stderr, Progress: newProgress(stderr), hand: hand, signals: signals}
}

func (s *Session) setTrace() error {
	err := trace.Set(s.Config.String("trace"))
	// A program without prints has them off, which the default need not say.
	if err != nil && (s.Config.IsSet("trace") || !errors.Is(err, trace.ErrNoPrints)) {
		return fmt.Errorf("%w (from %s)", err, s.Config.Get("trace").Origin)
	}
	return trace.SetOutput(s.stderr, trace.Format(s.Config.String("trace-format")))
}

// dropMember closes what computes over the ring, before the queue pairs under
// it change.
func (s *Session) dropMember() error {
	m := s.member
	if s.member = nil; m == nil {
		return nil
	}
	return m.comm.Close()
}
