package hand

import (
	"context"
	"strings"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/verbs"
)

func injectRow() command.Row {
	return command.Row{
		Name: "inject", Group: command.GroupRing, Where: command.Line, Needs: command.Ready, Claims: true,
		Summary: "Inject faults on purpose, to rehearse or to test",
		Long: `Has packets of soft devices fare badly on purpose, on all ranks from now on, as
the setting inject has it when a ring comes up. FAULTS is
` + verbs.FaultsHelp + `

A list may name one node several times: what is to or from one of its ranks is
to or from all of them. The control ring, over TCP, has no such faults.

While faults are injected, status, the headings of results and each failure say
so. set inject changes them on this rank alone.`,
		Example: "  inject 'soft: loss 1%, corrupt 0.1%, delay 2ms'\n  inject 'soft: loss 100% to 2 on 1'\n  inject off",
		Args:    "FAULTS", Words: []string{verbs.NoFaults, "soft: loss 1%", "soft: delay 2ms", "soft: down 2s every 10s"}, CheckArgs: checkInject,
		Run: runInject,
	}
}

func checkInject(args []string) error {
	_, err := verbs.ParseFaults(strings.Join(args, " "))
	if err != nil {
		return exit.Usagef("inject: %w", err)
	}
	return nil
}

// InjectResult is what happens on purpose from now on.
type InjectResult struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	Inject  string `json:"inject" col:"injected on purpose"`
}

// Adjust implements render.Adjuster.
func (InjectResult) Adjust(string, *render.Cell) {}

func runInject(_ context.Context, s *session.Session, call command.Call) error {
	text := strings.Join(call.Args, " ")
	if err := s.Inject(text); err != nil {
		return err
	}
	s.Place.SetInjected(text)
	return s.Out.Print(InjectResult{Command: "inject", OK: true, Inject: text})
}
