package pingpong

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/cli/timing"
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
		Args: "[HOST]", Offer: func([]string) []string { return nil }, CheckArgs: func(args []string) error { return CheckHost("pingpong", args) },
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
	withLetter(fs, "device", "d")
	command.NumberFlag(fs, "ib-port", "i", 0, 0, 255, "a port of the RDMA device", "port of the RDMA device (0: that of the configuration, else 1)")
	size := configs.SizeValue(DefaultSize)
	fs.VarP(&size, "size", "s", "bytes of each message")
	command.NumberFlag(fs, "rx-depth", "r", DefaultDepth, 1, 1<<20, "receives", "receives to post at a time")
	command.NumberFlag(fs, "iters", "n", DefaultIters, 1, 1<<30, "messages", "messages each way")
	withLetter(fs, "mtu", "m")
	fs.Lookup("mtu").Usage = fmt.Sprintf("path MTU in bytes (0: %d, the stock tool's)", DefaultMTU)
	withLetter(fs, "sl", "l")
	withLetter(fs, "gid-index", "g")
	fs.BoolP("events", "e", false, "sleep until a completion comes, instead of polling")
	fs.BoolP("chk", "c", false, "check the data of each message")
	fs.String("bind", "", "IP address to listen on, or to call from")
	command.Completes(fs, "bind", "nothing")
	for _, o := range stockOnly {
		fs.BoolP(o.name, o.short, false, o.what)
		_ = fs.MarkHidden(o.name) // it was declared just now
	}
}

// withLetter declares a setting's flag that has a letter, too.
func withLetter(fs *pflag.FlagSet, name, letter string) {
	var own pflag.FlagSet
	configs.AddFlags(&own, name)
	f := own.Lookup(name)
	f.Shorthand = letter
	fs.AddFlag(f)
}

// MaxPingpong is the longest message of a queue pair (specification 1.4, 9.7.7).
const MaxPingpong = 1 << 31

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
	o.Size = int(min(command.SizeOf(call.Flags, "size"), MaxPingpong+1))
	if len(call.Args) > 0 {
		o.Host = call.Args[0]
	}
	p := Runner{Session: s, Command: "pingpong", Record: "pingpong"}
	return p.Run(ctx, o)
}

// Runner prints a pingpong as it goes.
type Runner struct {
	Session *session.Session
	Command string // as it was given
	Record  string // the name in its record
	// Explain, if set, says what is about to happen or to be printed.
	Explain func(Moment) error
}

// Moment is a place in a pingpong where something can be explained.
type Moment int

// The moments.
const (
	BeforeStart Moment = iota
	BeforeLocal
	BeforeRemote
	BeforeFigures
)

// Run takes this end through a pingpong and prints what the stock tool prints.
func (p *Runner) Run(ctx context.Context, o Options) error {
	s := p.Session
	if o.Size < 1 || o.Size > MaxPingpong {
		return exit.Usagef("%s --size %s: expected 1 to %s", p.Command, configs.FormatSize(uint64(o.Size)), configs.FormatSize(MaxPingpong))
	}
	if o.MTU == 0 { // both ends need the same, and the stock tool has this one
		o.MTU = DefaultMTU
	}
	if p.Explain == nil {
		p.Explain = func(Moment) error { return nil }
	}
	watch := timing.New()
	o.RoundTrip = watch.Add
	o.Waiting = func(what string) func() { return s.Progress.Clock("%s: waiting %s", p.Command, what) }
	tell := func(format string, at Moment) func(Address) error {
		return func(a Address) error { return errors.Join(p.Explain(at), StockLine(s, format, a)) }
	}
	o.Local, o.Remote = tell(LocalLine, BeforeLocal), tell(RemoteLine, BeforeRemote)
	if err := p.Explain(BeforeStart); err != nil {
		return err
	}
	r, err := Run(ctx, o)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Command, err)
	}
	return errors.Join(p.Explain(BeforeFigures), Print(s, newPingpongResult(p.Record, &o, r, watch)))
}

// The stock tool's lines of the two addresses.
const (
	LocalLine  = "  local address:  %s\n"
	RemoteLine = "  remote address: %s\n"
)

// StockLine prints a line of the stock tool's, for people and for those who look
// for it in the output.
func StockLine(s *session.Session, format string, args ...any) error {
	if s.Out.Format() != render.Table {
		return nil
	}
	return s.Out.Text(fmt.Sprintf(format, args...))
}

// Print shows the result: the lines of the stock tool, and the record.
func Print(s *session.Session, r PingpongResult) error {
	err := errors.Join(
		StockLine(s, "%d bytes in %.2f seconds = %.2f Mbit/sec\n", r.Bytes, r.Seconds, r.MbitPerSec),
		StockLine(s, "%d iters in %.2f seconds = %.2f usec/iter\n", r.Iters, r.Seconds, r.UsecPerIter),
		s.Out.Print(r))
	if err == nil && r.Unacknowledged {
		err = s.Out.Note(render.Faint, "all messages have come; the last one sent was not acknowledged before the peer left")
	}
	return err
}

// PingpongResult is how messages went there and back. Seconds and what follows from
// them are the stock tool's: from before the first message to after the last.
type PingpongResult struct {
	Command     string             `json:"command"`
	OK          bool               `json:"ok"`
	Role        string             `json:"role"` // server or client
	Peer        string             `json:"peer"` // its TCP address
	Device      string             `json:"device"`
	GIDIndex    int                `json:"gid_index"`
	Local       Address            `json:"local"`                                   // what the peer was told of this end's queue pair
	Remote      Address            `json:"remote"`                                  // what the peer told of its own
	Size        int                `json:"size" col:"round trips|11|left|%d bytes"` // bytes of a message
	Iters       int                `json:"iters"`                                   // messages each way
	MTU         int                `json:"mtu"`                                     // bytes
	Bytes       int64              `json:"bytes"`                                   // both ways
	Seconds     float64            `json:"seconds"`
	MbitPerSec  float64            `json:"mbit_per_sec"`
	UsecPerIter float64            `json:"usec_per_iter"`
	RTT         PingpongRoundTrips `json:"rtt_us" col:"Min=min us|9; P50=p50 us|9; P90=p90 us|9; P99=p99 us|9; Max=max us|9"`
	Checked     bool               `json:"checked" col:"data"` // --chk: the data of each message was right
	// Unacknowledged: the peer left before it could acknowledge the last message.
	Unacknowledged bool `json:"unacknowledged,omitempty"`
}

// PingpongRoundTrips are the percentiles of round trips, in microseconds: from one
// message that came to the next; zero where there was but one.
type PingpongRoundTrips struct {
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func newPingpongResult(command string, o *Options, r Result, watch *timing.Stopwatch) PingpongResult {
	role := "client"
	if o.IsServer() {
		role = "server"
	}
	bytes, us := int64(o.Size)*int64(o.Iters)*2, float64(r.Elapsed)/float64(time.Microsecond)
	result := PingpongResult{
		Command: command, OK: true, Role: role, Peer: r.Peer.String(), Device: r.Device, GIDIndex: r.GIDIndex, Local: r.Local, Remote: r.Remote,
		Size: o.Size, Iters: o.Iters, MTU: o.MTU, Bytes: bytes, Seconds: r.Elapsed.Seconds(),
		MbitPerSec: timing.SixPlaces(float64(bytes) * 8 / us), UsecPerIter: timing.SixPlaces(us / float64(o.Iters)),
		Checked: o.Check, Unacknowledged: r.Unacknowledged,
	}
	if watch.Count() > 0 {
		t := watch.Times()
		result.RTT = PingpongRoundTrips{Min: t.Min, P50: t.P50, P90: watch.At(90), P99: t.P99, Max: t.Max}
	}
	return result
}

// Adjust implements render.Adjuster.
func (p PingpongResult) Adjust(column string, cell *render.Cell) {
	if column == "data" {
		*cell = render.Cell{Text: "not checked", Mood: render.Faint}
		if p.Checked {
			*cell = render.Cell{Text: "checked", Mood: render.Good}
		}
	}
}
