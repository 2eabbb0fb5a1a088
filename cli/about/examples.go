package about

import (
	"context"
	"slices"
	"strings"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/configs"
)

// ExampleInfo is a file that the binary carries, to be changed and put to use.
type ExampleInfo struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	Name    string `json:"name" col:"example"`
	File    string `json:"file" col:"file"` // as it is best called
	What    string `json:"what" col:"what it is|last"`
	// Text is all of it, where the example was named.
	Text string `json:"text,omitempty"`
}

func runExamples(_ context.Context, s *session.Session, call command.Call) error {
	if len(call.Args) == 0 {
		var rows []render.Record
		for _, e := range configs.Examples() {
			rows = append(rows, ExampleInfo{Command: "examples", OK: true, Name: e.Name, File: e.File, What: e.What})
		}
		return s.Out.Print(rows...)
	}
	all := configs.Examples()
	at := slices.IndexFunc(all, func(e configs.Example) bool { return call.Args[0] == e.Name || call.Args[0] == e.File })
	if at < 0 {
		var known []string
		for _, e := range all {
			known = append(known, e.Name)
		}
		return exit.Usagef("examples: there is no %q: expected one of %s", call.Args[0], strings.Join(known, ", "))
	}
	e := all[at]
	if s.Out.Format() == render.Table {
		return s.Out.Text(e.Text)
	}
	return s.Out.Print(ExampleInfo{Command: "examples", OK: true, Name: e.Name, File: e.File, What: e.What, Text: e.Text})
}

// examplesRow is `ringcli examples`.
func examplesRow() command.Row {
	return command.Row{
		Name: "examples", Group: command.GroupProgram, Where: command.Process | command.Line, Own: true, Harmless: true,
		Summary: "Print an example: Slurm job, Kubernetes manifest, script for -f",
		Long: `Lists the files that this program carries, or prints one, to be changed and put
to use: jobs and checks for Slurm, Kubernetes, systemd, mpirun and pdsh, and the
scripts that -f knows by their names.`,
		Example: `  ringcli examples
  ringcli examples slurm-prolog > /etc/slurm/slurm-prolog.sh
  ringcli examples soak > my-soak.ring`,
		Args: "[NAME]",
		Complete: func(args []string) (words []string) {
			if len(args) > 0 {
				return nil
			}
			for _, e := range configs.Examples() {
				words = append(words, e.Name+"\t"+e.What)
			}
			return words
		},
		CheckArgs: func(args []string) error {
			if len(args) > 1 {
				return exit.Usagef("examples: %d arguments given: expected one name, or none for a list", len(args))
			}
			return nil
		},
		Run: runExamples,
	}
}
