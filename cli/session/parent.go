package session

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/exit"
	"ringcli/ring/bootstrap"
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
	_ = fs.MarkHidden(ParentFlag) // it was declared just now
}

// Parent is a child's view of its parent.
type Parent struct {
	Ctx  context.Context
	rank int
}

// Silent tells whether an error is reported by another process: by the parent,
// which knows of the interruption, here or at another rank, or by the leader.
func (p *Parent) Silent(err error) bool {
	var v *bootstrap.Verdict
	canceled := errors.As(err, &v) && v.Kind == bootstrap.KindCanceled
	return exit.Code(err) == exit.Interrupted || p.rank > 0 && (canceled || exit.IsShared(err))
}
