package cli

import (
	"context"

	"ringcli/cli/schema"
)

// docCommands are the commands that tell programs about this program.
func docCommands() []Command {
	return []Command{
		{
			Name: "schema", Group: groupProgram, Where: Process | Line, Own: true, Harmless: true,
			Summary: "Print the JSON Schema of what --output json prints",
			Long: `Prints the JSON Schema (draft 2020-12) that describes each line that a command
prints with --output json, errors included. A line's "command" says which of the
records it is, "ok" whether all is well.`,
			Example: "  ringcli schema > ringcli.schema.json",
			Run:     func(_ context.Context, s *Session, _ Call) error { return s.Out.Text(schema.JSON) },
		},
	}
}
