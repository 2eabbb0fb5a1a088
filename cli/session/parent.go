package session

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/exit"
	"ringcli/cli/render"
)

// ParentFlag is the file descriptor of the pipe from a parent that runs all
// ranks of a ring on this machine. Its end is the end of this process.
const ParentFlag = "parent-fd"

// ChildGrace is how long a child may take to close its ring once its parent is
// gone.
const ChildGrace = 2 * time.Second

// ChildFlags are what `local` gives its children; help does not show them.
func ChildFlags(fs *pflag.FlagSet) {
	fs.Int(ParentFlag, 0, "")
	if err := fs.MarkHidden(ParentFlag); err != nil {
		panic("cli: " + err.Error())
	}
}

// Parent is a child's view of its parent.
type Parent struct {
	Ctx  context.Context
	rank int
}

// Adopt makes this process end with its parent, if it has one of ours.
func (s *Session) Adopt(ctx context.Context, flags *pflag.FlagSet) error {
	if flags.Lookup(ParentFlag) == nil || !flags.Changed(ParentFlag) {
		return nil
	}
	fd, err := flags.GetInt(ParentFlag)
	if err != nil || fd < 3 {
		return exit.Usagef("--%s is %d: expected a file descriptor that `ringcli local` passes on", ParentFlag, fd)
	}
	pipe := os.NewFile(uintptr(fd), "pipe from the parent")
	child, cancel := context.WithCancelCause(ctx)
	go func() {
		// Nothing is ever written: whatever ends this is the parent's end.
		_, _ = io.Copy(io.Discard, pipe)
		cancel(exit.ErrInterrupted)
		time.Sleep(ChildGrace)
		os.Exit(exit.Interrupted)
	}()
	s.Parent = &Parent{Ctx: child, rank: s.Config.Int("index")}
	if s.Parent.rank > 0 {
		// The leader speaks for the ring.
		s.Out = render.New(io.Discard, s.Out.Format())
	}
	return nil
}

// Silent tells whether an error is reported by another process: by the parent,
// which knows of the interruption, or by the leader.
func (p *Parent) Silent(err error) bool {
	return exit.Code(err) == exit.Interrupted || p.rank > 0 && exit.IsShared(err)
}

// SpeaksToParent tells whether what this process writes goes through a parent
// that adds the rank.
func (s *Session) SpeaksToParent() bool { return s.Parent != nil && s.Parent.rank > 0 }
