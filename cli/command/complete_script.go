package command

import (
	"bytes"
	"context"
	_ "embed"
	"io"
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
	for _, s := range Shells {
		if args[0] == s {
			return nil
		}
	}
	return exit.Usagef("completion: unknown shell %q: expected one of %s", args[0], strings.Join(Shells, ", "))
}

func runCompletion(_ context.Context, s *session.Session, call Call) error {
	root := call.Tree
	w := s.Stdout
	switch call.Args[0] {
	case "bash":
		return bashCompletion(root, w)
	case "zsh":
		return root.GenZshCompletion(w)
	case "fish":
		return root.GenFishCompletion(w, true)
	}
	return root.GenPowerShellCompletionWithDesc(w)
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
