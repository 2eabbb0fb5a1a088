package session

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"ringcli/cli/exit"
	"ringcli/ring/bootstrap"
)

// ParentFlag is the file descriptor of the pipe from a parent that runs all
// ranks of a ring on this machine. Its end is the end of this process.
const ParentFlag = "parent-fd"

// LedgerFlag is that of the pipe to the ledger of a parent that keeps one.
const LedgerFlag = "ledger-fd"

// ReportFlag is that of the pipe to the parent, which wants to know what came of it.
const ReportFlag = "report-fd"

const (
	// ChildGrace is how long a child may take to close its ring once its parent is
	// gone.
	ChildGrace = 2 * time.Second
	// GroupSignal is how much later than another process of its group, such as that of
	// a terminal's Ctrl-C, a process may take note of a signal, on a busy machine.
	GroupSignal = time.Second
)

// HeadedFlag is that of a child whose parent has had CSV's header written: 1.
const HeadedFlag = "csv-headed"

// ChildFlags are what `local` gives its children; help does not show them.
func ChildFlags(fs *pflag.FlagSet) {
	for _, name := range []string{ParentFlag, ReportFlag, LedgerFlag, SecretsFlag, HeadedFlag} {
		fs.Int(name, 0, "")
		_ = fs.MarkHidden(name) // it was declared just now
	}
}

// Parent is a child's view of its parent.
type Parent struct {
	// Ctx ends with the parent, and after a signal to this process alone.
	Ctx     context.Context
	cancel  context.CancelCauseFunc
	signals context.Context // ends at once with a signal to this process
	pipe    *os.File        // from the parent
	report  *os.File        // to it; nil if it does not ask
	rank    int
}

// IsChild tells whether a parent of ours started this process.
func IsChild(flags *pflag.FlagSet) bool {
	return flags.Lookup(ParentFlag) != nil && flags.Changed(ParentFlag)
}

// Adopt makes this process end with its parent, if it has one of ours.
func (s *Session) Adopt(ctx context.Context, flags *pflag.FlagSet) error {
	if !IsChild(flags) {
		return nil
	}
	fd, err := flags.GetInt(ParentFlag)
	if err != nil || fd < 3 {
		return exit.Usagef("--%s is %d: expected a file descriptor that `ringcli local` passes on", ParentFlag, fd)
	}
	s.Parent = adopt(ctx, os.NewFile(uintptr(fd), "pipe from the parent"), s.Config.Int("index"))
	if fd, err := flags.GetInt(ReportFlag); err == nil && fd >= 3 {
		s.Parent.report = os.NewFile(uintptr(fd), "pipe to the parent")
	}
	if fd, err := flags.GetInt(SecretsFlag); err == nil && fd >= 3 {
		if err := s.Secrets.takeOver(fd); err != nil {
			return err
		}
	}
	go func() {
		// Nothing is ever written: whatever ends this is the parent's end.
		_, _ = io.Copy(io.Discard, s.Parent.pipe)
		if s.ParentEnded != nil {
			s.ParentEnded(s.Parent.rank)
		}
		s.Parent.cancel(exit.ErrInterrupted)
		time.Sleep(ChildGrace)
		os.Exit(exit.Interrupted)
	}()
	if s.Parent.rank > 0 {
		// The leader speaks for the ring.
		s.Out = s.Out.Unshown()
	}
	return nil
}

// adopt is the view of a rank whose signals end ctx. A signal to the whole group is the
// parent's to act on, for all ranks: this one gives it the time to.
func adopt(ctx context.Context, pipe *os.File, rank int) *Parent {
	p := &Parent{signals: ctx, pipe: pipe, rank: rank}
	p.Ctx, p.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		select {
		case <-p.Ctx.Done():
		case <-time.After(GroupSignal):
			p.cancel(context.Cause(ctx))
		}
	})
	return p
}

// Hear ends Ctx now if it is about to end. What another rank did because the parent ended
// came after the end of the pipe, which all ranks see at once: whoever looks here before
// it blames another rank blames none for what the user did. A nil parent says nothing.
func (p *Parent) Hear() {
	if p == nil {
		return
	}
	state := []unix.PollFd{{Fd: int32(p.pipe.Fd())}}
	// The end is reported whether it is asked for or not.
	if n, err := unix.Poll(state, 0); err == nil && n > 0 && state[0].Revents&unix.POLLHUP != 0 {
		p.cancel(exit.ErrInterrupted)
	}
	if p.signals.Err() != nil {
		p.cancel(context.Cause(p.signals))
	}
}

// Report tells the parent what came of it, if there is one that asks.
func (p *Parent) Report(what any) error {
	if p == nil || p.report == nil {
		return nil
	}
	return json.NewEncoder(p.report).Encode(what)
}

// Silent tells whether an error is reported by another process: by the parent,
// which knows of the interruption, here or at another rank, or by the leader.
func (p *Parent) Silent(err error) bool {
	var v *bootstrap.Verdict
	canceled := errors.As(err, &v) && v.Kind == bootstrap.KindCanceled
	return exit.IsInterruption(exit.Code(err)) || p.rank > 0 && (canceled || exit.IsShared(err))
}
