// Package backends is the command that shows what can run a collective on this machine.
package backends

import (
	"context"
	"fmt"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/collective/backend"
)

const name = "backends"

// Info is a back end, and if it is not available, why.
type Info struct {
	Command  string `json:"command"`
	OK       bool   `json:"ok"` // available
	Backend  string `json:"backend" col:"back end"`
	Priority int    `json:"priority" col:"priority"`
	Memory   string `json:"memory" col:"memory"`           // the kind that it reaches: host, cuda or hip
	Library  string `json:"library" col:"library|dash"`    // what the dynamic linker finds it by; empty of the ring
	Path     string `json:"path"`                          // the file that was loaded
	Version  string `json:"version" col:"version|dash"`    // of the library
	Chosen   bool   `json:"chosen" col:"auto"`             // by --backend auto
	Reason   string `json:"reason" col:"remark|fair|last"` // why it is not available
}

// Adjust implements render.Adjuster.
func (i Info) Adjust(column string, cell *render.Cell) {
	if column == "auto" {
		cell.Text = map[bool]string{true: "*"}[i.Chosen]
	}
}

// Setting is an environment variable that the vendors' libraries find.
type Setting struct {
	Command  string `json:"command"`
	OK       bool   `json:"ok"`
	Variable string `json:"variable" col:"variable"`
	Value    string `json:"value" col:"value"`
	// Origin is environment where an operator has set it, else ringcli.
	Origin string `json:"origin" col:"from"`
	Reads  string `json:"reads" col:"read by|last"` // who reads it, and what it cannot say
}

// keys are the settings that the libraries are configured by.
var keys = []string{"use-ring-all-reduce", "use-tree-all-reduce", "tree-threshold-bytes", "num-channels", "enable-debug", "buffer-size"}

// Configuration is what the settings say to the vendors' libraries. What one of the two
// algorithms leaves open is as our own all-reduce has it: the ring is used, and the tree is
// not.
func Configuration(s *session.Session) *backend.Configuration {
	c := s.Config
	ring, tree := c.String("use-ring-all-reduce"), c.String("use-tree-all-reduce")
	return &backend.Configuration{
		UseRingAllReduce: ring == "true" || ring == "auto" && tree != "auto", UseTreeAllReduce: tree == "true",
		TreeThresholdBytes: c.Size("tree-threshold-bytes"), NumChannels: c.Int("num-channels"),
		EnableDebug: c.String("enable-debug") == "true", BufferSize: c.Size("buffer-size"), Log: s.Stderr,
	}
}

func run(_ context.Context, s *session.Session, call command.Call) error {
	configuration := Configuration(s)
	factories, err := backend.Factories(configuration)
	if err != nil {
		return err
	}
	chosen, err := backend.Pick(factories, backend.Auto)
	if err != nil {
		return err
	}
	var rows, settings []render.Record
	for _, v := range configuration.Variables() {
		origin := "ringcli"
		if v.Theirs {
			origin = "environment"
		}
		settings = append(settings, Setting{Command: name, OK: true, Variable: v.Name, Value: v.Value, Origin: origin, Reads: v.Reads})
	}
	asked := chosen
	if len(call.Args) > 0 {
		if asked, err = backend.Pick(factories, call.Args[0]); err != nil {
			return err
		}
	}
	for _, f := range factories {
		if len(call.Args) > 0 && f != asked {
			continue
		}
		found := f.Find()
		info := Info{
			Command: name, OK: found.Reason == nil, Backend: f.Name(), Priority: f.Priority(), Memory: f.Memory(),
			Library: f.Library(), Path: found.Path, Version: found.Version, Chosen: f == chosen,
		}
		if found.Reason != nil {
			info.Reason = found.Reason.Error()
		}
		rows = append(rows, info)
	}
	for _, each := range [][]render.Record{rows, settings} {
		if err := s.Out.Print(each...); err != nil {
			return err
		}
	}
	if reason := asked.Find().Reason; reason != nil {
		return fmt.Errorf("%s: %w", asked.Name(), reason)
	}
	return nil
}

func checkArgs(args []string) error {
	if len(args) > 1 {
		return exit.Usagef("%s: %d arguments given: expected none, or one back end", name, len(args))
	}
	return nil
}

// Row is `backends`.
func Row() command.Row {
	return command.Row{
		Name: name, Group: command.GroupLook, Where: command.Process | command.Line, Own: true, Harmless: true,
		Summary: "Show what can run a collective here, and why something cannot",
		Long: `Shows the back ends of collectives: our own ring, and the libraries of GPU
vendors, libnccl.so.2 and librccl.so.1, which are looked for when this is asked
and not before. Of those that are available the one of the highest priority is
what auto takes. With a name it shows that one, and fails if it is not
available (exit code 3), saying what is missing.

Below that are the environment variables by which the libraries are configured,
from --num-channels, --buffer-size, --enable-debug and the two settings of
all-reduce's algorithm. What is set already stays as it is.`,
		Example: "  ringcli backends\n  ringcli backends nccl",
		Args:    "[BACKEND]", CheckArgs: checkArgs, Words: append(backend.Names(), backend.Auto),
		Settings: keys, Run: run,
	}
}
