package about

import (
	"context"
	_ "embed"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/render"
	"ringcli/cli/schema"
	"ringcli/cli/session"
	"ringcli/configs"
	"ringcli/verbs"
)

// ConfigEntry is a setting's value in force.
type ConfigEntry struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	Name    string `json:"name" col:"setting"`
	Value   string `json:"value" col:"value|last|dash"`
	Origin  string `json:"origin" col:"origin"`
}

// Adjust implements render.Adjuster.
func (c ConfigEntry) Adjust(column string, cell *render.Cell) {
	if column == "origin" && c.Origin == "default" {
		cell.Mood = render.Faint
	}
}

// VersionInfo says what this binary is.
type VersionInfo struct {
	Command   string   `json:"command"`
	OK        bool     `json:"ok"`
	Version   string   `json:"version" col:"version"`
	Revision  string   `json:"revision"`
	Go        string   `json:"go" col:"go"`
	OS        string   `json:"os" col:"platform"`
	Arch      string   `json:"arch"`
	Providers []string `json:"providers" col:"providers"`
}

// version and revision, of the commit, are set by the Makefile; without them those are shown
// that the go command noted.
var version, revision string

// PrintConfig shows the settings in force.
func PrintConfig(s *session.Session) error {
	var rows []render.Record
	for _, v := range s.Config.Values() {
		rows = append(rows, ConfigEntry{Command: "config", OK: true, Name: v.Name, Value: v.String(), Origin: v.Origin.String()})
	}
	switch token, from, err := s.Secrets.Token(s.Config); {
	case err != nil:
		return err
	case token != nil:
		rows = append(rows, ConfigEntry{Command: "config", OK: true, Name: "token", Value: token.String(), Origin: from})
	}
	if err := s.Out.Print(rows...); err != nil {
		return err
	}
	for _, why := range s.Config.Foreign() {
		if err := s.Out.Note(render.Fair, "not set: %v", why); err != nil {
			return err
		}
	}
	if file := s.Config.File(); file != "" {
		return s.Out.Note(render.Faint, "configuration file: %s", file)
	}
	return s.Out.Note(render.Faint, "no configuration file; looked for %s", strings.Join(configs.SearchPath(), ", "))
}

func runVersion(_ context.Context, s *session.Session, _ command.Call) error {
	v := VersionInfo{
		Command: "version", OK: true, Version: Version(),
		Revision: revision, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Providers: []string{},
	}
	if info, ok := debug.ReadBuildInfo(); ok && revision == "" {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				v.Revision = setting.Value
			}
		}
	}
	for _, p := range verbs.Providers() {
		v.Providers = append(v.Providers, p.Name())
	}
	return s.Out.Print(v)
}

// Adjust implements render.Adjuster.
func (v VersionInfo) Adjust(column string, cell *render.Cell) {
	if column == "platform" {
		cell.Text += "/" + v.Arch
	}
}

// Version is what `ringcli version` shows first.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}

// Rows tell people and programs about this program.
func Rows() []command.Row {
	return []command.Row{
		{
			Name: "config", Group: command.GroupLook, Where: command.Process,
			Summary: "Show every setting in force and where its value came from",
			Long: `Shows every setting in force and where its value came from. A value is taken
from the first of: its flag, its variable RINGCLI_NAME, the configuration file,
the default.`,
			Settings: session.RingSettings,
			Flags: func(fs *pflag.FlagSet) {
				fs.Bool("sample", false, "print a commented configuration file instead")
			},
			Run: func(_ context.Context, s *session.Session, call command.Call) error {
				if command.IsOn(call.Flags, "sample") {
					return s.Out.Text(configs.Sample())
				}
				return PrintConfig(s)
			},
		},
		{
			Name: "version", Group: command.GroupProgram, Where: command.Process | command.Line, Own: true, Harmless: true,
			Summary: "Show the versions of this program and Go, and its providers",
			Run:     runVersion,
		},
		command.CompletionRow(),
		examplesRow(),
		{
			Name: "schema", Group: command.GroupProgram, Where: command.Process | command.Line, Own: true, Harmless: true,
			Summary: "Print the JSON Schema of what --output json prints",
			Long: `Prints the JSON Schema (draft 2020-12) that describes each line that a command
prints with --output json, errors included. A line's "command" says which of the
records it is, "ok" whether all is well.`,
			Example: "  ringcli schema > ringcli.schema.json",
			Run:     func(_ context.Context, s *session.Session, _ command.Call) error { return s.Out.Text(schema.JSON) },
		},
	}
}
