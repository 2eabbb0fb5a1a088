package cli

import (
	"context"
)

// ringCommands are the commands that run in a ring, in -c and -f.
func ringCommands() []Command {
	list := []Command{
		{
			Name: "self-check", Aliases: []string{"check"}, Group: groupCollective, Where: Line, Needs: Ready,
			Summary: "Prove the ring: a ping, then all collectives in all ways",
			Long: `Pings each neighbour, then runs reduce-scatter, all-gather and all-reduce, each
by every algorithm and under every protocol that the ring has, with every
element of every rank verified. It goes on after wrong data, so that its table
shows what is affected.`,
			Run: func(ctx context.Context, s *Session, _ Call) error { return s.selfCheck(ctx) },
		},
		{
			Name: "bench", Group: groupCollective, Where: Line, Needs: Ready, Stops: true,
			Summary: benchSummary, Long: benchLong,
			Args: "OPERATION", Words: benchWords, CheckArgs: checkBenchArgs,
			Settings: settingsOfOperation, Flags: benchFlags,
			Check: checkBench, Run: runBench,
		},
		tuneCommand(),
	}
	for _, c := range operationCommands {
		list = append(list, Command{
			Name: c.name, Aliases: c.aliases, Group: groupCollective, Where: Line, Summary: c.summary,
			Needs: Ready, Stops: true, Harmless: true,
			Long: c.long + `

The size is that of the whole vector. Times are the slowest rank's; bandwidths
are in GB/s (1e9 bytes) by nccl-tests' formulas. With --check every element of
every rank is compared with a reference, bit for bit.`,
			Settings: settingsOfOperation, Flags: operationFlags, Check: checkOperation, Run: runOperation,
		})
	}
	return list
}

// operationCommands are the collectives as commands.
var operationCommands = []struct {
	name, summary, long string
	aliases             []string
}{
	{"all-reduce", "Reduce all ranks' vectors; every rank gets the result", `Reduces the vectors of all ranks element by element; every rank gets the whole
result.`, []string{"allreduce", "ar"}},
	{"reduce-scatter", "Reduce all ranks' vectors; each rank gets its chunk", `Reduces the vectors of all ranks element by element; rank r of n gets elements
r*count/n to (r+1)*count/n of the result.`, []string{"reducescatter", "rs"}},
	{"all-gather", "Collect every rank's chunk; every rank gets the whole vector", `Every rank r of n contributes elements r*count/n to (r+1)*count/n and gets the
whole vector.`, []string{"allgather", "ag"}},
}
