package pingpong

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/session"
	"ringcli/configs"
)

// stockNames are options that have one name with ibv_rc_pingpong and another here.
var stockNames = map[string]string{"ib-dev": "device", "gid-idx": "gid-index", "tcp-port": "port"}

// stockOnly are the options of ibv_rc_pingpong that are not here, and what they are.
var stockOnly = []struct{ name, short, what string }{
	{"odp", "o", "memory that is paged in on demand (ODP), which not all providers have; here memory is registered before"},
	{"iodp", "O", "the whole address space as one region, paged in on demand (implicit ODP); here the messages' memory alone is registered"},
	{"prefetch", "P", "prefetching memory that is paged in on demand (ODP); here memory is registered before"},
	{"ts", "t", "completions with the adapter's time stamps, which not all providers have; here the program's own clock is read"},
	{"dm", "j", "messages in the adapter's own memory (device memory), which not all providers have; here they are in the host's"},
	{"new_send", "N", "posting by ibv_wr_send instead of ibv_post_send: the messages are the same"},
}

// Rows is `ringcli pingpong`.
func Rows() []command.Row {
	return []command.Row{{
		Name: "pingpong", Group: command.GroupRing, Where: command.Process,
		Summary: "Send messages there and back, with a ringcli or ibv_rc_pingpong",
		Long: `Speaks the protocol of rdma-core's ibv_rc_pingpong, over any provider, as the
server or, with a HOST, as its client. Either end may be the stock tool, which
needs -g INDEX on RoCE; here the GID is chosen, and -g overrides. Both ends need
the same -s, -n and -m: the protocol does not tell.

The options are the stock tool's. --port is the TCP port, as there, or
--tcp-port; the RDMA device's port, elsewhere --port, is --ib-port. --ib-dev and
--gid-idx are the same as --device and --gid-index. The stock tool retries 7
times, which on rdma_rxe is for ever: here --retry-cnt is 6. The time of a round
trip is from one message that came to the next.

With --chk a server checks the first byte of each page of each message, as the
stock tool does of the last, and a client that the whole of each comes back as
it was sent; give it to both ends.`,
		Example: `  ringcli pingpong                           on node0
  ringcli pingpong node0                     on node1
  ibv_rc_pingpong -d mlx5_0 -g 3 node0       or, on node1, the stock tool`,
		Args: "[HOST]", Complete: func([]string) []string { return nil }, CheckArgs: func(args []string) error { return CheckHost("pingpong", args) },
		// The others have the stock tool's letters besides.
		Settings: session.Without(configs.NamesOf(Options{}), "device", "port", "gid-index", "mtu", "sl"),
		Flags:    pingpongFlags,
		Run:      runPingpong,
	}}
}

// CheckHost refuses more than one host.
func CheckHost(command string, args []string) error {
	if len(args) > 1 {
		return exit.Usagef("%s %s: unexpected argument %q: expected the server's HOST alone, or none to be the server", command, args[0], args[1])
	}
	return nil
}

func pingpongFlags(fs *pflag.FlagSet) {
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if own, ok := stockNames[name]; ok {
			name = own
		}
		return pflag.NormalizedName(name)
	})
	command.NumberFlag(fs, "port", "p", DefaultPort, 1, 65535, "a TCP port", "TCP port to listen on or to call")
	WithLetter(fs, "device", "d")
	command.NumberFlag(fs, "ib-port", "i", 0, 0, 255, "a port of the RDMA device", "port of the RDMA device (0: that of the configuration, else 1)")
	size := configs.SizeValue(DefaultSize)
	fs.VarP(&size, "size", "s", "bytes of each message")
	command.NumberFlag(fs, "rx-depth", "r", DefaultDepth, 1, 1<<20, "receives", "receives to post at a time")
	command.NumberFlag(fs, "iters", "n", DefaultIters, 1, 1<<30, "messages", "messages each way")
	WithLetter(fs, "mtu", "m")
	fs.Lookup("mtu").Usage = fmt.Sprintf("path MTU in bytes (0: %d, the stock tool's)", DefaultMTU)
	WithLetter(fs, "sl", "l")
	WithLetter(fs, "gid-index", "g")
	fs.BoolP("events", "e", false, "sleep until a completion comes, instead of polling")
	fs.BoolP("chk", "c", false, "check the data of each message")
	fs.String("bind", "", "IP address to listen on, or to call from")
	command.Completes(fs, "bind", "nothing")
	for _, o := range stockOnly {
		fs.BoolP(o.name, o.short, false, o.what)
		_ = fs.MarkHidden(o.name) // it was declared just now
	}
}

// WithLetter declares a setting's flag that has a letter, too.
func WithLetter(fs *pflag.FlagSet, name, letter string) {
	var own pflag.FlagSet
	configs.AddFlags(&own, name)
	f := own.Lookup(name)
	f.Shorthand = letter
	fs.AddFlag(f)
}

func runPingpong(ctx context.Context, s *session.Session, call command.Call) error {
	for _, o := range stockOnly {
		if command.IsOn(call.Flags, o.name) {
			return exit.Usagef("pingpong -%s: is ibv_rc_pingpong's --%s, %s", o.short, o.name, o.what)
		}
	}
	o := Options{
		TCPPort: command.NumberOf(call.Flags, "port"),
		Depth:   command.NumberOf(call.Flags, "rx-depth"), Iters: command.NumberOf(call.Flags, "iters"),
		Events: command.IsOn(call.Flags, "events"), Check: command.IsOn(call.Flags, "chk"),
	}
	s.Config.Fill(&o)
	if port := command.NumberOf(call.Flags, "ib-port"); port > 0 {
		o.Port = port
	}
	if text := command.TextOf(call.Flags, "bind"); text != "" {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return exit.Usagef("pingpong --bind %q: expected an IP address of this machine", text)
		}
		o.Bind = addr
	}
	o.Size = int(min(command.SizeOf(call.Flags, "size"), MaxSize+1))
	if len(call.Args) > 0 {
		o.Host = call.Args[0]
	}
	p := Runner{Session: s, Command: "pingpong", Record: "pingpong"}
	return p.Run(ctx, o)
}
