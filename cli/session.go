package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"ringcli/trace"
	"strings"
	"sync/atomic"

	"ringcli/cli/render"
	"ringcli/configs"
	"ringcli/repl"
	"ringcli/ring"
)

// Session is what a command has to work with. Each line of the shell has one of its
// own (fork), so that a line in the background and one in front share nothing but
// the ring. But for stop and running, which other goroutines use, its fields belong
// to the command that runs; between two lines the shell's host guards them.
type Session struct {
	*common
	Config   *configs.Config
	Out      *render.Printer
	Progress *Progress // nil in the background, which has no line of its own

	// ring is nil before `open`, and member before the ring can compute. Where there
	// is a claim, its holder alone changes these two and leads.
	ring   *ring.Ring
	member *Member
	// leads says that the other ranks take this one's commands.
	leads bool
	// sourced is how deep scripts have called scripts.
	sourced int
	// results are what the last command that printed any has printed, and fresh
	// says that it was a command of this line.
	results []render.Record
	fresh   bool
	// forked is the configuration that a line of the shell began with.
	forked *configs.Config
	// running is the command that runs; nil where nobody asks. Ctrl-C reads it.
	running *atomic.Pointer[running]
	// stop is set, by Ctrl-C, when what runs should stop at its next boundary; may be nil.
	stop *atomic.Bool
}

// common is what the sessions of a process share. It is set up before the first
// line runs, and only read then.
type common struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	signals        *signals // nil in tests
	// hand is what was done by hand on the ring.
	hand byHand
	// interactive says that a person types the lines.
	interactive bool
	// keepGoing runs the rest of a script after a command that failed.
	keepGoing bool
	// follows says that this rank takes the leader's commands.
	follows bool
	// fault is what --corrupt asks for; may be nil.
	fault *fault
	// parent is set in a child of `local`.
	parent *parentLink
	// shell is nil where no lines are typed.
	shell *repl.Shell
	// claim gives the ring to one command at a time; nil where there is no other.
	claim func(s *Session, command string) (release func(), err error)
	// stopJob asks a line in the background to stop at its next boundary, and
	// reports whether it will.
	stopJob func(id int) bool
}

// newSession returns the session that a command of the process has.
func newSession(stdin io.Reader, stdout, stderr io.Writer, signals *signals, hand byHand) *Session {
	return &Session{
		common:   &common{stdin: stdin, stdout: stdout, stderr: stderr, signals: signals, hand: hand},
		Progress: newProgress(stderr),
	}
}

// fork returns a session for one line.
func (s *Session) fork() *Session {
	return &Session{
		common: s.common, Config: s.Config, Out: render.New(s.stdout, render.Format(s.Config.String("output"))), Progress: s.Progress,
		ring: s.ring, member: s.member, leads: s.leads, results: s.results, forked: s.Config,
		running: new(atomic.Pointer[running]), stop: new(atomic.Bool),
	}
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

// setTrace has the prints as the settings say.
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

// deviceOf names the devices that a ring uses.
func deviceOf(r *ring.Ring) string {
	var names []string
	for _, d := range r.Devices() {
		names = append(names, d.Name)
	}
	return render.OrDash(strings.Join(names, "+"))
}
