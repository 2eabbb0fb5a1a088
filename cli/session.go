package cli

import (
	"io"
	"sync/atomic"

	"github.com/spf13/cobra"

	"ringcli/cli/render"
	"ringcli/configs"
)

// Session is what a command has to work with.
type Session struct {
	Config   *configs.Config
	Out      *render.Printer
	Progress *Progress

	stdin          io.Reader
	stdout, stderr io.Writer
	root           *cobra.Command

	// member is this rank's part in the ring, nil before there is one.
	member *Member
	// fault is what --corrupt asks for; may be nil.
	fault *fault
	// parent is set in a child of `local`.
	parent *parentLink
	// stop is set when what runs should stop at its next boundary; may be nil.
	stop *atomic.Bool
}

// stopping reports whether what runs should stop at its next boundary, together
// with the other ranks, which leaves the ring usable.
func (s *Session) stopping() bool { return s.stop != nil && s.stop.Load() }
