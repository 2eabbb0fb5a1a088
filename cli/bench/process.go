package bench

import (
	"context"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/connect"
	"ringcli/cli/exit"
	"ringcli/cli/local"
	"ringcli/cli/session"
	"ringcli/verbs/cpu"
)

// mostPerCPU is the ranks to a CPU up to which the -n of a bench is taken for ranks without
// more. More measure the scheduler, and nccl-tests' usual -n is 20 or more.
const mostPerCPU = 4

// checkRanks refuses a bench of very many ranks to a CPU, unless it also says how long to
// measure: its -n may be nccl-tests', which is the iterations.
func checkRanks(call command.Call, n int) error {
	cpus, err := cpu.Allowed()
	if err != nil || call.Name != "bench" || n <= mostPerCPU*len(cpus) || call.Flags.Changed("iters") || call.Flags.Changed("duration") {
		return nil
	}
	return exit.Usagef("bench: -n %d is %[1]d ranks on this machine, which has %d CPUs: for %[1]d iterations, nccl-tests' -n, expected --iters, as in `ringcli bench %[3]s -n 2 --iters %[1]d`; for %[1]d ranks expected --iters or --duration besides, as in -n %[1]d --iters 20", n, len(cpus), call.Args[0])
}

// AsProcess is a command of a ring that is ready as one of the process: with -n it
// runs the ranks here, else it is one rank.
func AsProcess(c command.Row, example string) command.Row {
	check, run, flags := c.Check, c.Run, c.Flags
	c.Group, c.Where, c.Needs, c.Stops, c.Check, c.Example, c.Settings = command.GroupRing, command.Process, 0, false, nil, example, session.RingSettings
	c.Long += "\n\nTakes connect's flags, or -n for ranks on this machine; mpirun and srun\nstart it as they do connect. Rank 0 prints, with --print all each rank."
	c.Flags = func(fs *pflag.FlagSet) {
		local.RanksFlag(fs, 0)
		flags(fs)
		connect.PrintFlag(fs)
		session.ChildFlags(fs)
	}
	c.Run = func(ctx context.Context, s *session.Session, call command.Call) error {
		n := command.NumberOf(call.Flags, "ranks")
		if s.Parent == nil && n > 0 {
			if err := checkRanks(call, n); err != nil {
				return err
			}
			if err := check(ctx, s, call, n); err != nil {
				return err
			}
			args := append([]string{c.Name}, call.Args...)
			return local.Run(ctx, s, n, append(args, local.ChangedFlags(call.Flags, append([]string{"ranks"}, session.LaunchSettings...)...)...))
		}
		known, err := s.Launch(ctx, false)
		if err == nil {
			err = check(ctx, s, call, s.RanksHere())
		}
		if err != nil {
			return err
		}
		if !known {
			return exit.Usagef("%s: neither -n nor --list is given: expected -n N for ranks on this machine, or --index I --list a,b,c on each node, or mpirun or srun to start it", c.Name)
		}
		s.OnlyRank0 = connect.OnlyRank0(call.Flags)
		if err := connect.NoteRank0(s); err != nil {
			return err
		}
		return connect.InRing(s.Launcher.Patient(ctx), s, func(ctx context.Context) error {
			return s.Together(func() error { return run(ctx, s, call) })
		})
	}
	return c
}
