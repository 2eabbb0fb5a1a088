package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"ringcli/cli/exit"
	"ringcli/cli/ledger"
	"ringcli/cli/render"
	"ringcli/configs"
	"ringcli/configs/codes"
	"ringcli/repl"
	"ringcli/ring"
	"ringcli/trace"
)

// Session is what a command has to work with. Each line of the shell has one of its
// own (Fork), so that a line in the background and one in front share nothing but the
// ring and what common has. What guards a field stands behind it. line: it belongs to
// the command that runs, and between two lines to the shell's host, under its lock.
// claim: the holder of the ring's claim changes it, or any command where there is none.
type Session struct {
	*common
	Config   *configs.Config // line
	Out      *render.Printer // line
	Progress *Progress       // its own lock; nil in the background, which has no line on the screen

	Ring   *ring.Ring // claim; nil before `open`
	Member *Member    // claim; nil before the ring can compute
	Leads  bool       // claim; the other ranks take this one's commands

	Results []render.Record // line; what the last command that printed any has printed
	Fresh   bool            // line; Results are of this line
	Forked  *configs.Config // only read: the configuration that the line began with

	Running *atomic.Pointer[Running] // atomic, for Ctrl-C: what runs; nil where nobody asks
	Stop    *atomic.Bool             // atomic, for Ctrl-C: stop at the next boundary; may be nil

	inBackground bool // only read: a command in the background has it
}

// common is what the sessions of a process share. It is set up before the first
// line runs, and only read then.
type common struct {
	Options
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Signals        *exit.Signals // nil in tests
	// ByHand is what was done by hand on the ring.
	ByHand ByHand
	// Version is what `ringcli version` shows first.
	Version string
	// Interactive says that a person types the lines.
	Interactive bool
	// KeepGoing runs the rest of a script after a command that failed.
	KeepGoing bool
	// OnlyRank0 has what all ranks do together printed by rank 0 alone.
	OnlyRank0 bool
	// Follows says that this rank takes the leader's commands.
	Follows  bool
	Launcher Launcher
	// Local says that the other ranks are children of this process.
	Local bool
	// Parent is set in a child of `local`.
	Parent  *Parent
	Secrets Secrets
	// Ledger keeps what is found, for machines; nil where none is asked for.
	Ledger *ledger.Ledger
	// Shell is nil where no lines are typed.
	Shell *repl.Shell
	// Place is what goes from one ring to the next.
	Place *Place
	// Waits are what the process waits for from other ranks, which speaker tells people.
	Waits   *ring.Waits
	speaker *speaker
	// Turns gives the ring to one command at a time; nil where nothing is run by lines.
	Turns *Turns
	// Jobs are the commands in the background; nil where nothing is run by lines.
	Jobs *repl.Jobs
	// Explain adds to what a job has failed of what that leads to; nil: nothing.
	Explain func(ctx context.Context, s *Session, err error) error
}

// New returns the session that a command of the process has, with the default options.
func New(stdin io.Reader, stdout, stderr io.Writer, signals *exit.Signals, hand ByHand) *Session {
	return &Session{
		common:   &common{Options: DefaultOptions(), Stdin: stdin, Stdout: stdout, Stderr: stderr, Signals: signals, ByHand: hand, Place: &Place{}, Waits: &ring.Waits{}, speaker: &speaker{}},
		Progress: NewProgress(stderr),
	}
}

// BusyError refuses a command while another has the ring.
type BusyError struct{ Command, Holder string }

// FailureCode is that of a ring that another command has.
func (e *BusyError) FailureCode() codes.Code { return codes.Busy }

func (e *BusyError) Error() string {
	return fmt.Sprintf("%s: the ring is busy with %s: `wait` for it, or `stop` it", e.Command, e.Holder)
}

// ForJob returns a session for a command in the background.
func (s *Session) ForJob() *Session {
	job := s.Fork()
	job.Out, job.Progress, job.inBackground = s.Out.Fork(), nil, true
	return job
}

type jobKey struct{}

// WithJob is the context of a command in the background with its session.
func WithJob(ctx context.Context, s *Session) context.Context {
	return context.WithValue(ctx, jobKey{}, s)
}

// OfJob is the session of the command in the background that runs a line; nil if none does.
func OfJob(ctx context.Context) *Session {
	s, _ := ctx.Value(jobKey{}).(*Session)
	return s
}

// Fork returns a session for one line.
func (s *Session) Fork() *Session {
	return &Session{
		common: s.common, Config: s.Config, Out: s.Printer(), Progress: s.Progress,
		Ring: s.Ring, Member: s.Member, Leads: s.Leads, Results: s.Results, Forked: s.Config,
		Running: new(atomic.Pointer[Running]), Stop: new(atomic.Bool),
	}
}

// ByHand is what was done by hand on the ring, as far as a session must ask.
type ByHand interface {
	// MayOperate refuses an operation of all ranks while something is in its way.
	MayOperate(context.Context, *Session) error
	// Release gives back what hangs on the ring, which is about to close.
	Release() error
}

// Running is a command that runs.
type Running struct {
	Name  string
	Stops bool // at its next boundary, if it is asked to
}

// Stopping reports whether what runs should stop at its next boundary, together
// with the other ranks, which leaves the ring usable.
func (s *Session) Stopping() bool { return s.Stop != nil && s.Stop.Load() }

// Sides lists the side that is meant, or both.
func Sides(only *ring.Side) []ring.Side {
	if only != nil {
		return []ring.Side{*only}
	}
	return []ring.Side{ring.Left, ring.Right}
}

// SetTrace has the prints as the settings say.
func (s *Session) SetTrace() error {
	err := trace.Set(s.Config.String("trace"))
	// A program without prints has them off, which the default need not say.
	if err != nil && (s.Config.IsSet("trace") || !errors.Is(err, trace.ErrNoPrints)) {
		return fmt.Errorf("%w (from %s)", err, s.Config.Get("trace").Origin)
	}
	trace.SetCopy(s.Ledger.Events())
	return trace.SetOutput(s.Stderr, trace.Format(s.Config.String("trace-format")))
}

// DeviceOf names the devices that a ring uses.
func DeviceOf(r *ring.Ring) string {
	var names []string
	for _, d := range r.Devices() {
		names = append(names, d.Name)
	}
	return cmp.Or(strings.Join(names, "+"), "-")
}

// Together runs what all ranks do together, in a ring: its results are rank 0's to
// print, if the others have not been asked to.
func (s *Session) Together(run func() error) error {
	if s.OnlyRank0 && s.Ring.Rank() > 0 {
		out := s.Out
		s.Out = out.Unshown() // `expect` compares with them everywhere
		defer func() { s.Out = out }()
	}
	return run()
}

// SpeaksToParent tells whether what this process writes goes through a parent
// that adds the rank.
func (s *Session) SpeaksToParent() bool { return s.Parent != nil && s.Parent.rank > 0 }
