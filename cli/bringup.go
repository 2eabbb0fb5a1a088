package cli

import (
	"slices"

	"github.com/spf13/pflag"
)

// settingsOfRing are the settings that connecting takes.
var settingsOfRing = []string{
	"list", "index", "tcp-port", "timeout",
	"device", "port", "gid-index", "mtu", "sl", "traffic-class",
	"qp-timeout", "retry-cnt", "rnr-retry", "min-rnr-timer",
	"algorithm", "protocol", "segment", "depth", "table", "slots", "slot-size",
}

// without returns the names but for some.
func without(names []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(some, name) })
}

// bringUpCommands are the commands of the process that make a ring.
func bringUpCommands() []Command {
	return []Command{
		{
			Name: "connect", Group: groupRing, Where: Process,
			Summary: "Join a ring as one of its ranks",
			Long: `Joins the ring of --list as rank --index, together with the other ranks, which
may start in any order, and runs the commands of -c or -f there. Without either,
on a terminal, it is a shell; elsewhere, and with --check, it runs the
self-check: a ping of each neighbour, then reduce-scatter, all-gather and
all-reduce, each by every algorithm and under every protocol that the ring has,
with every element of every rank verified. With --follow a rank takes the
commands of rank 0, in its shell or its script.

The C programs' spelling "-myindex 0 -list a,b" is understood.

` + lineHelp,
			Example: `  ringcli connect --index 0 --list node0,node1,node2
  ringcli connect --index 1 --list @hosts -c 'ping; all-reduce --check'`,
			Settings: settingsOfRing,
			Flags: func(fs *pflag.FlagSet) {
				scriptFlags(fs)
				fs.Bool("follow", false, "take the commands of rank 0, which leads; on loopback addresses only")
				faultFlag(fs)
				childFlags(fs)
			},
			Run: runConnect,
		},
		{
			Name: "local", Group: groupRing, Where: Process,
			Summary: "Run all ranks of a ring on this machine, as processes",
			Long: `Starts -n processes on this machine, each with a loopback address of its own in
a fresh subnet of 127.0.0.0/8, and runs the commands of -c or -f on all of them,
or the self-check (see connect). Rank 0's output is shown; the exit code is
that of the rank that fared worst.

` + lineHelp,
			Example: `  ringcli local -n 4
  ringcli local -n 4 --shell
  ringcli local -n 2 -c 'all-reduce --protocol rendezvous-read --check'`,
			Settings: settingsOfLocal(),
			Flags: func(fs *pflag.FlagSet) {
				ranksFlag(fs, 4)
				scriptFlags(fs)
				fs.Bool("shell", false, "a shell as rank 0, which leads the other ranks")
				faultFlag(fs)
			},
			Run: runLocal,
		},
		{
			Name: "bench", Group: groupRing, Where: Process,
			Summary: benchSummary,
			Long: benchLong + `

Takes connect's flags, or -n for ranks on this machine.`,
			Example: `  ringcli bench all-reduce -n 4 -b 8 -e 64M -f 2
  ringcli bench p2p -n 2`,
			Args: "OPERATION", Words: benchWords, CheckArgs: checkBenchArgs,
			Settings: settingsOfRing,
			Flags:    func(fs *pflag.FlagSet) { ranksFlag(fs, 0); benchFlags(fs); childFlags(fs) },
			Run:      runBenchProcess,
		},
		tuneProcessCommand(),
	}
}

// lineHelp says which commands there are for -c and -f.
const lineHelp = `Commands of -c and -f are separated by ';': self-check, ping, status, counters,
all-reduce, reduce-scatter, all-gather, bench, expect and more. -c help lists
them all, -c 'help COMMAND' shows the flags of one.`
