package doctor

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/configs"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/device"
)

// name is the command's.
const name = "doctor"

// askedOf is the ring that the settings speak of.
func askedOf(s *session.Session, ranks int) (a Asked, err error) {
	c := s.Config
	a = Asked{
		Index: -1, Ranks: ranks, Channels: c.Int("channels"), MTU: c.Int("mtu"), TCPPort: c.Int("tcp-port"),
		Slots: c.Int("slots"), SlotSize: int(c.Size("slot-size")), Timeout: c.Duration("timeout"),
	}
	devices, err := device.Names(c.String("device"))
	if err != nil {
		return a, err
	}
	a.Device, a.Beside = devices[0], devices[1:]
	if i := c.Int("gid-index"); i >= 0 {
		a.GIDIndex = &i
	}
	if list := c.String("list"); list != "" {
		if a.List, err = hosts.Parse(list, a.TCPPort); err != nil {
			return a, err
		}
	}
	index, from := c.Int("index"), c.Get("index").Origin
	switch {
	case index < 0:
	case len(a.List) == 0 && from.Source == configs.FromEnv && from.Name != configs.IndexVar: // a launcher's, which any program may have
	case len(a.List) == 0:
		return a, exit.Usagef("--index %d without --list: expected both, or neither", index)
	case index >= len(a.List):
		return a, exit.Usagef("index %d: expected 0 to %d, as the list has %d entries", index, len(a.List)-1, len(a.List))
	default:
		a.Index = index
	}
	return a, nil
}

// shown are all rows, or those that are not well.
func shown(rows []Preflight, all bool) []render.Record {
	var list []render.Record
	for _, p := range rows {
		if all || !p.well() {
			list = append(list, p)
		}
	}
	return list
}

// Look examines this node for the ring that the settings speak of, of so many ranks here (0:
// as many as the list has).
func Look(ctx context.Context, s *session.Session, ranks int) ([]Preflight, error) {
	a, err := askedOf(s, ranks)
	if err != nil {
		return nil, err
	}
	return Examine(ctx, ThisSystem(), a)
}

func run(ctx context.Context, s *session.Session, call command.Call) error {
	rows, err := Look(ctx, s, command.NumberOf(call.Flags, "ranks"))
	if err != nil {
		return err
	}
	return Print(s, rows, command.IsOn(call.Flags, "problems"))
}

// runAll has all ranks look, and tells what they found.
func runAll(ctx context.Context, s *session.Session, call command.Call) error {
	mine, err := Look(ctx, s, 0)
	if err != nil {
		return err
	}
	all, err := session.Share(ctx, s.Member, mine)
	if err != nil {
		return err
	}
	r, err := readClocks(ctx, s.Member)
	if err != nil {
		return err
	}
	return Print(s, append(r.rows(), merge(all)...), command.IsOn(call.Flags, "problems"))
}

// Print shows what was found, and ends in the gravest of it.
func Print(s *session.Session, rows []Preflight, problems bool) error {
	list := shown(rows, !problems)
	if err := s.Out.Print(list...); err != nil {
		return err
	}
	var all []Verdict
	for _, p := range rows {
		all = append(all, p.Verdict)
	}
	if err := s.Out.Note(render.Faint, "%s", Counts(all)); err != nil {
		return err
	}
	return verdict(rows)
}

// Settings are those that say what the node is to be good for.
var Settings = []string{"list", "index", "tcp-port", "timeout", "device", "gid-index", "mtu", "channels", "slots", "slot-size"}

// RanksFlag declares --ranks.
func RanksFlag(fs *pflag.FlagSet) {
	command.NumberFlag(fs, "ranks", "", 0, 0, 1<<16, "how many ranks", "ranks that this node is to have (0: as many as --list has entries here, or one)")
}

const verdictHelp = `A check is PASS, WARN (it works, but slower or at a risk), FAIL (no ring will
come up, or none of use) or SKIP, with the reason. Each has the value that was
found, what it should be, and a command that mends it; JSON and CSV also have
the code of the failure that it would lead to (help failures). Exit code 0, 1
with a WARN, 2 with a FAIL. A WARN of a clock alone leaves the exit code at 0.`

// problemsFlag leaves out what is well.
func problemsFlag(fs *pflag.FlagSet) { fs.Bool("problems", false, "show what is not well only") }

// Rows are `ringcli doctor`, and the line of a ring's ranks.
func Rows() []command.Row {
	return []command.Row{
		{
			Name: name, Group: command.GroupLook, Where: command.Process,
			Summary: "Look whether this node is fit for a ring, and what mends it",
			Long: `Looks at this node before a ring does: devices, port states and GIDs, the MTU
of ports and interfaces, PCIe links and ACS, kernel modules and permissions,
locked memory, open files and threads, UDP 4791 and the TCP port, who has them
and which rules of this node's firewall name them, socket buffers, names,
addresses, CPUs, control groups (cpu, memory, pids; v1 and v2), huge pages and
the clock, and of GPUs the driver, device files, libraries, the way to their
memory (peer modules, dma-buf) and the IOMMU; no library is loaded for that.
With --list it also asks for the name of each host, and with --index which
device and GID the ring would take to the neighbours, and the way to each host:
route, interface, and on an Ethernet by ARP whether the host answers and whether
an address is there twice (this needs CAP_NET_RAW). Nothing is changed, and
nothing else is sent but questions to the name server.

` + verdictHelp + `

On all nodes at once: ringcli connect --index I --list A,B -c doctor`,
			Example: `  ringcli doctor
  ringcli doctor --index 0 --list node0,node1 --problems
  ringcli doctor --output json | jq -r 'select(.verdict == "FAIL").fix'`,
			Settings: Settings,
			Flags: func(fs *pflag.FlagSet) {
				RanksFlag(fs)
				problemsFlag(fs)
			},
			Run: run,
		},
		{
			Name: name, Group: command.GroupLook, Where: command.Line, Needs: command.Ready, Diagnoses: true, Harmless: true,
			Summary: "Look whether all nodes are fit for a ring, and what mends them",
			Long: fmt.Sprintf(`Has each rank look at its node as `+"`ringcli %s`"+` does, and shows what they
found: ranks that found the same share a row. Checks in which ranks differ come
first, and of each the minority. The ranks' clocks are compared with rank 0's.

`, name) + verdictHelp,
			Example: "  ringcli local -n 4 -c 'doctor --problems'",
			Flags:   problemsFlag,
			Run:     runAll,
		},
	}
}
