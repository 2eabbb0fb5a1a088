package cli

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/render"
)

// parentFlag is the file descriptor of the pipe from a parent that runs all
// ranks of a ring on this machine. Its end is the end of this process.
const parentFlag = "parent-fd"

// childGrace is how long a child may take to close its ring once its parent is
// gone.
const childGrace = 2 * time.Second

// childFlags are what `local` gives its children; help does not show them.
func childFlags(fs *pflag.FlagSet) {
	fs.Int(parentFlag, 0, "")
	if err := fs.MarkHidden(parentFlag); err != nil {
		panic("cli: " + err.Error())
	}
}

// parentLink is a child's view of its parent.
type parentLink struct {
	ctx  context.Context
	rank int
}

// adopt makes this process end with its parent, if it has one of ours.
func (s *Session) adopt(ctx context.Context, flags *pflag.FlagSet) error {
	if flags.Lookup(parentFlag) == nil || !flags.Changed(parentFlag) {
		return nil
	}
	fd, err := flags.GetInt(parentFlag)
	if err != nil || fd < 3 {
		return usageError("--%s is %d: expected a file descriptor that `ringcli local` passes on", parentFlag, fd)
	}
	pipe := os.NewFile(uintptr(fd), "pipe from the parent")
	child, cancel := context.WithCancelCause(ctx)
	go func() {
		// Nothing is ever written: whatever ends this is the parent's end.
		_, _ = io.Copy(io.Discard, pipe)
		cancel(errInterrupted)
		time.Sleep(childGrace)
		os.Exit(ExitInterrupted)
	}()
	s.parent = &parentLink{ctx: child, rank: s.Config.Int("index")}
	if s.parent.rank > 0 {
		// The leader speaks for the ring.
		s.Out = render.New(io.Discard, s.Out.Format())
	}
	return nil
}

// silent tells whether an error is reported by another process: by the parent,
// which knows of the interruption, or by the leader.
func (p *parentLink) silent(err error) bool {
	return ExitCode(err) == ExitInterrupted || p.rank > 0 && isShared(err)
}

// speaksToParent tells whether what this process writes goes through a parent
// that adds the rank.
func (s *Session) speaksToParent() bool { return s.parent != nil && s.parent.rank > 0 }
