package path

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/doctor"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/configs/codes"
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
	fs.Bool("problems", false, "show what is not well only")
}

// Row is the line `path`.
func Row() command.Row {
	return command.Row{
		Name: name, Group: command.GroupLook, Where: command.Line, Needs: command.Ready, Pages: true, Harmless: true,
		Summary: "Look at what the paths between neighbours carry, each way",
		Long: `Looks at the path from each rank to each neighbour, all ranks at once, a row for
each check and direction:

  route   the GID that the edge takes, and the kernel's route to the peer's
  size    the longest packet that passes unfragmented (UDP with DF set), beside
          what the queue pair's MTU needs and the interface's MTU
  device  whether packets of each path MTU arrive that the device itself sends,
          from and to its own UDP port (soft devices alone can send such)
  marks   with which DSCP and ECN packets arrive: as the traffic class of the
          ring says, as DSCP 26 with ECT(0), and as DSCP 48. What a NIC sends
          and receives by itself no program sees: these are the kernel's packets
  ports   latencies and losses by source port: where routers balance load by it
          (ECMP), each takes a path of its own. In brackets: by how much a
          port's packets come later than those of the fastest, in this direction
          alone
  bytes   whether the counters of the device, and of the interface under a
          device in software, grew by what was sent over the queue pairs. Where
          other traffic grows them by half as much or more that cannot be seen

What arrived is told over the control ring, so a direction is judged by itself.
The packets are a few hundred for each direction, to a UDP port that is opened
for them: where a firewall lets 4791 pass alone, --listen-port says which.

doctor looks at each node by itself, before there is a ring: path at what lies
between two. links measures how fast a path is: path what it carries.

A check is PASS, WARN (it works, but not as it was meant), FAIL (it keeps
packets of the ring from the peer) or SKIP, with the reason. Exit code 0, 1 with
a WARN, 2 with a FAIL.`,
		Example: "  path --problems\n  path --source-ports 16 --listen-port 4792",
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
	return Print(s, rows, command.IsOn(call.Flags, "problems"))
}

// Print shows what was found, and ends in the gravest of it.
func Print(s *session.Session, rows []PathCheck, problems bool) error {
	var list []render.Record
	well := 0
	counted := map[doctor.Verdict][]string{}
	for _, p := range rows {
		if p.OK {
			well++
		}
		if !p.OK || !problems {
			list = append(list, p)
		}
		counted[p.Verdict] = append(counted[p.Verdict], fmt.Sprintf("%s of %d -> %d", p.Check, p.From, p.To))
	}
	if err := s.Out.Print(list...); err != nil {
		return err
	}
	if err := s.Out.Note(render.Faint, "%d of %d checks are well", well, len(rows)); err != nil {
		return err
	}
	var parts []string
	code := exit.OK
	if failed := counted[doctor.Fail]; len(failed) > 0 {
		code, parts = exit.Critical, append(parts, "failed: "+strings.Join(failed, ", "))
	}
	if warned := counted[doctor.Warn]; len(warned) > 0 {
		code, parts = exit.Worse(code, exit.Warning), append(parts, "a warning: "+strings.Join(warned, ", "))
	}
	if code == exit.OK {
		return nil
	}
	return codes.With(codes.Path, exit.Sharedf(code, "%s: of %d checks %s", name, len(rows), strings.Join(parts, "; ")))
}

// The waits of a test; each has a deadline, and none is for a peer that is gone: the
// control ring tells that.
const (
	// travel is how long a probe may be under way.
	travel = 300 * time.Millisecond
	// each is how often a probe is sent: a path that loses one in ten loses none of the sizes.
	each = 4
	// echoes are enough for a median, and for a path of several that loses some; echoing is
	// how long they may take in all.
	echoes, echoing = 30, 3 * time.Second
	// pings over the queue pairs are more than heartbeats and strangers of an interface send.
	pings = 200
	// counting is how old the counters that a device gives may be (lifespan of hw_counters,
	// 10 to 12 ms).
	counting = 20 * time.Millisecond
	// idling is how long nobody sends, for what grows by others.
	idling = 100 * time.Millisecond
	// ethernet and ackBytes are a packet's header there, and an ACK without the headers that it
	// shares: BTH, AETH, ICRC.
	ethernet, ackBytes = 14, ethernet + 40 + 8 + 12 + 4 + 4
)
