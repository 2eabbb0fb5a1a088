package command

import (
	"bytes"
	"context"
	_ "embed"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ringcli/cli/exit"
	"ringcli/cli/session"
)

// Shells are those that there is a completion script for.
var Shells = []string{"bash", "zsh", "fish", "powershell"}

func checkShell(args []string) error {
	if len(args) != 1 {
		return exit.Usagef("completion: %d arguments given: expected one shell: %s", len(args), strings.Join(Shells, ", "))
	}
	if !slices.Contains(Shells, args[0]) {
		return exit.Usagef("completion: unknown shell %q: expected one of %s", args[0], strings.Join(Shells, ", "))
	}
	return nil
}

func runCompletion(_ context.Context, s *session.Session, call Call) error {
	switch call.Args[0] {
	case "bash":
		return bashCompletion(call.Tree, s.Stdout)
	case "zsh":
		return call.Tree.GenZshCompletion(s.Stdout)
	case "fish":
		return call.Tree.GenFishCompletion(s.Stdout, true)
	}
	return call.Tree.GenPowerShellCompletionWithDesc(s.Stdout)
}

// bashPrelude is what cobra's script takes from the package bash-completion,
// which many a node has not.
//
//go:embed complete.bash
var bashPrelude string

// bashCompletion writes cobra's script for bash, made to work without the package
// bash-completion, and with "@", which bash breaks words at but keeps in what is
// replaced.
func bashCompletion(root *cobra.Command, w io.Writer) error {
	var script bytes.Buffer
	if err := root.GenBashCompletionV2(&script, true); err != nil {
		return err
	}
	text := strings.NewReplacer(
		"_init_completion -n =: ", "_init_completion -n =:@ ",
		"_get_comp_words_by_ref ", "__ringcli_words ",
		"_filedir", "__ringcli_filedir",
	).Replace(script.String())
	_, err := io.WriteString(w, bashPrelude+"\n"+text)
	return err
}

// CompletionRow is `ringcli completion`.
func CompletionRow() Row {
	return Row{
		Name: "completion", Group: GroupProgram, Where: Process,
		Summary: "Print a completion script for a shell",
		Long: `Prints a script that completes commands, flags and their values:

  source <(ringcli completion bash)
  source <(ringcli completion zsh)
  ringcli completion fish | source`,
		Args: "bash|zsh|fish|powershell", Words: Shells, CheckArgs: checkShell,
		Run: runCompletion,
	}
}
