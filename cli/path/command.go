package path

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/doctor"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/configs/codes"
	"ringcli/ring"
	"ringcli/ring/path"
)

// name is the command's.
const name = "path"

const (
	defaultPorts = 8
	mostPorts    = 64
	// firstPort is the first source port of RoCE v2 (Linux, IB_ROCE_UDP_ENCAP_VALID_PORT_MIN
	// of rdma/ib_verbs.h).
	firstPort = 0xc000
)

func flags(fs *pflag.FlagSet) {
	command.NumberFlag(fs, "source-ports", "", defaultPorts, 1, mostPorts, "how many source ports", "UDP source ports to compare")
	command.NumberFlag(fs, "first-source-port", "", firstPort, 1024, 1<<16-mostPorts, "the first source port", "the first of them; one that is taken is passed over")
	command.NumberFlag(fs, "listen-port", "", 0, 0, 1<<16-1, "a UDP port", "UDP port that takes the packets at each rank (0: any; not the device's)")
	fs.Bool("all", false, "show the checks that passed or were skipped, too")
}

// Row is the line `path`.
func Row() command.Row {
	return command.Row{
		Name: name, Group: command.GroupLook, Where: command.Line, Needs: command.Ready, Diagnoses: true, Harmless: true,
		Summary: "Look at what the paths between neighbours carry, each way",
		Long: `Looks at the path from each rank to each neighbour, all ranks at once, a row for
each check and direction:

  route   the GID that the edge takes, and the kernel's route to the peer's
  size    the longest packet that passes unfragmented (UDP with DF set), beside
          what the queue pair's MTU needs and the interface's MTU
  marks   with which DSCP and ECN packets arrive: as the traffic class of the
          ring says, as DSCP 26 with ECT(0), and as DSCP 48. What a NIC sends
          and receives by itself no program sees: these are the kernel's packets
  ports   latencies and losses by source port: where routers balance load by it
          (ECMP), each takes a path of its own. In brackets: by how much a
          port's packets come later than those of the fastest, in this direction
          alone
  loss    how many of 512 short packets that the device itself sends arrive
          (soft devices), and of as many of the kernel's

What arrived is told over the control ring, so a direction is judged by itself.
The packets are some 1200 for each direction, to a UDP port that is opened
for them: where a firewall lets 4791 pass alone, --listen-port says which.

doctor looks at each node by itself, before there is a ring: path at what lies
between two. links measures how fast a path is: path what it carries.

The table has what is not well, the gravest first; JSON and CSV have all checks.
A check is PASS, WARN (it works, but not as it was meant), FAIL (it keeps
packets of the ring from the peer) or SKIP, with the reason. Exit code 0, 1 with
a WARN, 2 with a FAIL.`,
		Example: "  path --all\n  path --source-ports 16 --listen-port 4792",
		Flags:   flags, Run: run,
	}
}

// how says how to look.
type how struct {
	ports, first, listen int
}

func run(ctx context.Context, s *session.Session, call command.Call) error {
	h := how{command.NumberOf(call.Flags, "source-ports"), command.NumberOf(call.Flags, "first-source-port"), command.NumberOf(call.Flags, "listen-port")}
	if s.Ring.Size() == 1 {
		return s.Out.Note(render.Faint, "a ring of one has no path")
	}
	end := s.Progress.Clock("path, all ranks at once")
	rows, err := look(ctx, s.Member, h)
	end()
	if err != nil {
		return err
	}
	return Print(s, rows, command.IsOn(call.Flags, "all"))
}

// Print shows what was found, the gravest first, and ends in that. A table has what is not well
// alone, unless all is asked for.
func Print(s *session.Session, rows []PathCheck, all bool) error {
	var list []render.Record
	var verdicts []doctor.Verdict
	counted := map[doctor.Verdict][]string{}
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b PathCheck) int {
		return cmp.Compare(slices.Index(doctor.Verdicts, a.Verdict), slices.Index(doctor.Verdicts, b.Verdict))
	})
	for _, p := range rows {
		if !p.OK || all || s.Out.Format() != render.Table {
			list = append(list, p)
		}
		verdicts = append(verdicts, p.Verdict)
		counted[p.Verdict] = append(counted[p.Verdict], fmt.Sprintf("%s of %d -> %d", p.Check, p.From, p.To))
	}
	if err := s.Out.Print(list...); err != nil {
		return err
	}
	hidden := ""
	if len(list) < len(rows) {
		hidden = "; path --all shows them all"
	}
	if err := s.Out.Note(render.Faint, "%s%s", doctor.Counts(verdicts), hidden); err != nil {
		return err
	}
	code := exit.Warning
	switch {
	case len(counted[doctor.Fail]) > 0:
		code = exit.Critical
	case len(counted[doctor.Warn]) == 0:
		return nil
	}
	summary := doctor.Summary(verdicts, counted)
	who := func(rank int) string { return fmt.Sprintf("rank %d", rank) }
	if s.Ring != nil {
		who = s.Ring.NodeName
	}
	if v := together(rows, summary, who); v != nil {
		return codes.With(codes.Path, exit.Sharedf(code, "%w", v))
	}
	return codes.With(codes.Path, exit.Sharedf(code, "%s: %s", name, summary))
}

// The waits of a test; each has a deadline, and none is for a peer that is gone: the
// control ring tells that.
const (
	// travel is how long a probe may be under way.
	travel = 300 * time.Millisecond
	// each is how often a probe is sent: a path that loses one in ten loses none of the sizes.
	each = 4
	// echoes are enough for a median, and with several ports for a loss of 2 %; echoing is how long
	// they may take in all. lossRounds of the device's packets, 512, are enough for that, too: that
	// fewer than fewestLost are missing happens once in 300 times then.
	echoes, echoing = path.MostEach, 3 * time.Second
	lossRounds      = 512 / ring.MostLoss
)
