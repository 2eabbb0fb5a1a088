package cli

import (
	"github.com/spf13/pflag"
)

// processCommands are the commands of `ringcli NAME` that need no ring.
func processCommands() []Command {
	return []Command{
		{
			Name: "devices", Group: groupLook, Where: Process | Line, Own: true, Harmless: true,
			Summary: "Show devices, ports and GIDs, and why a provider has none",
			Run:     runDevices,
		},
		{
			Name: "query", Group: groupLook, Where: Process | Line, Own: true, Harmless: true,
			Summary: "Show everything about a device, its ports and their GIDs",
			Long: `Shows everything that a device says about itself, its ports and their GIDs,
under the names of ibv_devinfo -v: the device that is named, else the ring's
own, else all devices. A table has what matters most, or with --verbose all;
JSON and CSV always have all.`,
			Example: "  ringcli query soft:lo\n  ringcli query --verbose soft:lo",
			Args:    "[DEVICE]", CheckArgs: checkQuery,
			Offer: func(args []string) []string {
				if len(args) > 0 {
					return nil
				}
				return deviceNames()
			},
			Flags: func(fs *pflag.FlagSet) { fs.BoolP("verbose", "v", false, "show every attribute") },
			Run:   runQuery,
		},
		{
			Name: "config", Group: groupLook, Where: Process,
			Summary: "Show every setting in force and where its value came from",
			Long: `Shows every setting in force and where its value came from. A value is taken
from the first of: its flag, its variable RINGCLI_NAME, the configuration file,
the default.`,
			Settings: settingsOfRing,
			Flags: func(fs *pflag.FlagSet) {
				fs.Bool("sample", false, "print a commented configuration file instead")
			},
			Run: runConfig,
		},
		{
			Name: "version", Group: groupProgram, Where: Process | Line, Own: true, Harmless: true,
			Summary: "Show the versions of this program and Go, and its providers",
			Run:     runVersion,
		},
		{
			Name: "completion", Group: groupProgram, Where: Process,
			Summary: "Print a completion script for a shell",
			Long: `Prints a script that completes commands, flags and their values:

  source <(ringcli completion bash)
  source <(ringcli completion zsh)
  ringcli completion fish | source`,
			Args: "bash|zsh|fish|powershell", Words: shells, CheckArgs: checkShell,
			Run: runCompletion,
		},
	}
}
