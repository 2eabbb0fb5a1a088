package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ringcli/collective/reduce"
	"ringcli/configs"
	"ringcli/trace"
	"ringcli/verbs"
)

// flagWords returns what completion offers as a flag's value.
func flagWords(flag string) []string {
	switch flag {
	case "type":
		return names(reduce.Types())
	case "op":
		return names(reduce.Ops())
	case "device":
		return append(deviceNames(), "auto")
	case "trace":
		words := []string{"debug", "info", "warn", "error", "off"}
		for _, l := range trace.Levels() {
			words = append(words, l.Subsystem.String()+"=")
		}
		return words
	}
	setting, ok := configs.Lookup(flag)
	if !ok {
		return nil
	}
	words := make([]string, len(setting.OneOf))
	for i, v := range setting.OneOf {
		words[i] = fmt.Sprint(v)
	}
	return words
}

// deviceNames lists the devices of all providers that have some.
func deviceNames() []string {
	var list []string
	for _, p := range verbs.Providers() {
		devices, err := p.Devices()
		if err != nil {
			continue // `ringcli devices` says why
		}
		for _, d := range devices {
			list = append(list, d.Name())
		}
	}
	return list
}

// completable are the flags whose values are completed.
var completable = []string{"type", "op", "protocol", "device", "output", "trace", "trace-format", "mtu"}

func completeFlags(cmd *cobra.Command) {
	for _, name := range completable {
		if cmd.Flags().Lookup(name) == nil && cmd.PersistentFlags().Lookup(name) == nil {
			continue
		}
		// The only error is a flag that does not exist.
		_ = cmd.RegisterFlagCompletionFunc(name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return flagWords(name), cobra.ShellCompDirectiveNoFileComp
		})
	}
}

var shells = []string{"bash", "zsh", "fish", "powershell"}

func checkShell(args []string) error {
	if len(args) != 1 {
		return usageError("completion: %d arguments given: expected one shell: %s", len(args), strings.Join(shells, ", "))
	}
	for _, s := range shells {
		if args[0] == s {
			return nil
		}
	}
	return usageError("completion: unknown shell %q: expected one of %s", args[0], strings.Join(shells, ", "))
}

func runCompletion(_ context.Context, s *Session, call Call) error {
	root := s.root
	w := s.stdout
	switch call.Args[0] {
	case "bash":
		return root.GenBashCompletionV2(w, true)
	case "zsh":
		return root.GenZshCompletion(w)
	case "fish":
		return root.GenFishCompletion(w, true)
	}
	return root.GenPowerShellCompletionWithDesc(w)
}
