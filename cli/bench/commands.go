package bench

import (
	"context"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/session"
	"ringcli/collective"
	"ringcli/collective/plan"
)

// Rows are the commands that run in a ring, in -c and -f.
func Rows() []command.Row {
	list := []command.Row{
		{
			Name: "self-check", Aliases: []string{"check"}, Group: command.GroupCollective, Where: command.Line, Needs: command.Ready,
			Summary: "Prove the ring: a ping, then all collectives in all ways",
			Long: `Pings each neighbour, then runs every collective, each
by every algorithm and under every protocol that the ring has, of float32 and of
int32, with every element of every rank verified. It goes on after wrong data,
so that its table shows what is affected; times are those of float32. With
--backend it does so by that: by NCCL or RCCL on the memory of its GPUs.`,
			Flags: func(fs *pflag.FlagSet) { backendFlag(fs, true) },
			Check: func(_ context.Context, s *session.Session, call command.Call, _ int) error {
				return checkBackends(s, call, call.Name, operation{})
			},
			Run: func(ctx context.Context, s *session.Session, call command.Call) error {
				list, ring := vendors(call)
				if ring {
					if err := selfCheck(ctx, s, nil); err != nil || len(list) == 0 {
						return err
					}
				}
				return selfCheck(ctx, s, list)
			},
		},
		Row(),
		TuneRow(),
	}
	for _, o := range plan.Operations() {
		summary, about := o.Help()
		list = append(list, command.Row{
			Name: o.String(), Aliases: o.Aliases(), Group: command.GroupCollective, Where: command.Line, Summary: summary,
			Needs: command.Ready, Stops: true, Harmless: true,
			Long: about + `

The size is that of the whole vector. Times are the slowest rank's; bandwidths
are in GB/s (1e9 bytes) by nccl-tests' formulas. With --check every element of
every rank is compared with a reference, bit for bit. A rank that kept the
others waiting and an edge that was slow are told, with --duration when it
happens (help benchmarks).`,
			Settings: session.OperationSettings, Flags: flagsOf(o), Check: checkOperation, Run: runOperation,
		})
	}
	return append(list, barrierRow())
}

func flagsOf(o collective.Operation) func(*pflag.FlagSet) {
	return func(fs *pflag.FlagSet) {
		operationFlags(fs)
		if o.Rooted() {
			rootFlag(fs)
		}
	}
}
