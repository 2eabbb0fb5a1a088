package cli

import (
	"io"

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

	// parent is set in a child of `local`.
	parent *parentLink
}
