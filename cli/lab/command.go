package lab

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/pingpong"
	"ringcli/cli/session"
	"ringcli/configs"
	"ringcli/verbs/gpu"
)

var settingsOfTwo = []string{"list", "index", "tcp-port"}

var labWords = []string{"a", "b", "c", "d"}

// labBytes is the default length of a lab's messages: more than one packet at
// most path MTUs, and quickly compared.
const labBytes = 8 << 10

// stockLetters are ibv_rc_pingpong's for what are settings here.
var stockLetters = []struct{ setting, letter string }{{"device", "d"}, {"port", "i"}, {"tcp-port", "p"}, {"mtu", "m"}, {"sl", "l"}, {"gid-index", "g"}}

// Rows is `ringcli lab`.
func Rows() []command.Row {
	return []command.Row{{
		Name: "lab", Group: command.GroupRing, Where: command.Process,
		Summary: "Walk two queue pairs through the verbs, step by step",
		Long: `Takes every step that two queue pairs need to talk to each other, one by one,
and shows what the live objects say after each; then sends, writes and reads,
with every byte verified where it arrives.

  lab a  one process, two queue pairs, no sockets
  lab b  two hosts: the reference sample, ibv_rc_pingpong, as the server or,
         with its HOST, the client; either may be the stock tool (see pingpong),
         whose letters -d -i -p -s -m -l -g it takes
  lab c  two hosts: rank 0 listens, rank 1 connects, and they swap over TCP
         what each must know of the other
  lab d  lab c on the memory of a GPU, --memory; without --list lab a on it.
         It shows how the adapter reaches the GPU: by dma-buf, else by peer
         memory, else staged through the host's, and why no better

--explain says before each step what it does, why, and what it is called in
libibverbs, and when one fails, what its error means. --rkey and its like use
wrong values on purpose, to see what comes of them; the lab then fails, with
exit code 2, on both ends.`,
		Example: `  ringcli lab a --explain
  ringcli lab a --device soft:lo --rkey 0xdeadbeef
  ringcli lab b --explain                        on node0
  ringcli lab b node0                            on node1
  ringcli lab c --index 0 --list node0,node1     on node0
  ringcli lab c --index 1 --list node0,node1     on node1
  ringcli lab d --memory cuda:0`,
		Args: "LAB [HOST]", Words: labWords, CheckArgs: checkLab,
		Settings: slices.Concat(settingsOfTwo, configs.NamesOf(Options{})),
		Flags: func(fs *pflag.FlagSet) {
			fs.Bool("explain", false, "say before each step what it does and why")
			size := configs.SizeValue(labBytes)
			fs.VarP(&size, "size", "s", "bytes of each message (lab b: 1K)")
			memoryFlag(fs)
			command.OptionalFlag[uint32](fs, "rkey", 0, 1<<32-1, "rkey to use in WRITE and READ (the peer's)")
			command.OptionalFlag[uint64](fs, "raddr", 0, 1<<63-1, "address to WRITE to and READ from (the peer's region)")
			command.OptionalFlag[uint32](fs, "psn", 0, 1<<24-1, "PSN to expect first, rq_psn (the peer's)")
			command.OptionalFlag[uint32](fs, "dest-qpn", 0, 1<<24-1, "queue pair to talk to, dest_qp_num (the peer's)")
			for _, s := range stockLetters {
				pingpong.WithLetter(fs, s.setting, s.letter)
			}
		},
		Run: runLab,
	}}
}

func checkLab(args []string) error {
	expected := "expected one of " + strings.Join(labWords, ", ")
	switch {
	case len(args) == 0:
		return exit.Usagef("lab: which one? %s", expected)
	case args[0] == "b":
		return pingpong.CheckHost("lab b", args[1:])
	case len(args) > 1:
		return exit.Usagef("lab %s: unexpected argument %q: %s, alone", args[0], args[1], expected)
	}
	if !slices.Contains(labWords, args[0]) {
		return exit.Usagef("lab %q: %s", args[0], expected)
	}
	return nil
}

// maxLabBytes keeps four such messages far below what can be registered.
const maxLabBytes = 64 << 20

func runLab(ctx context.Context, s *session.Session, call command.Call) error {
	which := call.Args[0]
	if which == "b" {
		return runLabB(ctx, s, call)
	}
	size := command.SizeOf(call.Flags, "size")
	if size < 1 || size > maxLabBytes {
		return exit.Usagef("lab --size %s: expected 1 to %s", configs.FormatSize(size), configs.FormatSize(maxLabBytes))
	}
	r := &Runner{Session: s, Lab: which, Explain: command.IsOn(call.Flags, "explain"), begun: time.Now(), Mark: markOf(s)}
	var o Options
	s.Config.Fill(&o)
	command.Fill(call.Flags, &o.Wrong)
	o.Bytes, o.Begin, o.Done = int(size), r.Begin, r.Done
	o.Waiting = func(what string) func() { return s.Await(ctx, time.Now(), what) }
	var err error
	if o.GPU, err = gpuOf(which, call.Flags); err != nil {
		return err
	}
	two := which == "c" || which == "d" && (s.Config.String("list") != "" || s.Config.IsSet("index"))
	switch {
	case which == "d" && !two:
		err = A(ctx, o)
	case which == "a":
		for _, name := range settingsOfTwo {
			if call.Flags.Changed(name) {
				return exit.Usagef("lab a --%s: lab a is within one process: `lab c` is between two hosts", name)
			}
		}
		err = A(ctx, o)
	case two:
		list, index := s.Config.String("list"), s.Config.Int("index")
		switch {
		case list == "":
			return exit.Usagef("lab %s: no server list: expected --list HOST0,HOST1, the same on both hosts", which)
		case !s.Config.IsSet("index"):
			return exit.Usagef("lab %s: no index: expected --index 0 on the host that listens, --index 1 on the one that connects", which)
		}
		r.Rank = &index
		err = C(ctx, index, list, s.Config.Int("tcp-port"), o)
	}
	return r.conclude(ctx, err)
}

// memoryFlag is which memory lab D takes.
func memoryFlag(fs *pflag.FlagSet) {
	fs.Var(&command.Parsed[gpu.Place]{Kind: "memory", Parse: gpu.ParsePlace, Text: gpu.Place.String, Completions: []string{"cuda:0", "hip:0"}},
		"memory", "lab d: a GPU, cuda:N or hip:N (the first that there is)")
}

// gpuOf is the GPU of lab D, nil of other labs.
func gpuOf(lab string, flags *pflag.FlagSet) (*gpu.Device, error) {
	asked := command.Given[gpu.Place](flags, "memory")
	switch {
	case lab != "d" && asked != nil:
		return nil, exit.Usagef("lab %s --memory: lab %s is on the host's memory: `lab d` is on a GPU's", lab, lab)
	case lab != "d":
		return nil, nil
	case asked != nil && asked.Kind == gpu.Host:
		return nil, exit.Usagef("lab d --memory host: expected a GPU, such as cuda:0 or hip:0: `lab c` and `lab a` are on the host's memory")
	case asked != nil:
		d, err := gpu.Open(*asked)
		if err != nil {
			return nil, exit.Usagef("lab d: %w", err)
		}
		return d, nil
	}
	var reasons []error
	for _, kind := range gpu.Kinds {
		d, err := gpu.Open(gpu.Place{Kind: kind})
		if err == nil {
			return d, nil
		}
		reasons = append(reasons, err)
	}
	return nil, exit.Usagef("lab d: no GPU: %w", errors.Join(reasons...))
}

// notOfB are the flags of the other labs that lab b does not take: the stock
// tool's protocol has no place for them.
var notOfB = []string{"list", "index", "memory", "rkey", "raddr", "psn", "dest-qpn"}

// labBBytes is the size of the document's messages.
const labBBytes = 1 << 10

// runLabB is the pingpong, explained.
func runLabB(ctx context.Context, s *session.Session, call command.Call) error {
	for _, name := range notOfB {
		if call.Flags.Changed(name) {
			return exit.Usagef("lab b --%s: lab b is ibv_rc_pingpong's protocol, which has no such thing: expected the server's HOST alone, or none", name)
		}
	}
	o := pingpong.Options{
		TCPPort: pingpong.DefaultPort, Size: labBBytes, Depth: pingpong.DefaultDepth, Iters: pingpong.DefaultIters,
	}
	s.Config.Fill(&o)
	if s.Config.IsSet("tcp-port") {
		o.TCPPort = s.Config.Int("tcp-port")
	}
	if call.Flags.Changed("size") {
		o.Size = int(min(command.SizeOf(call.Flags, "size"), pingpong.MaxSize+1))
	}
	p := pingpong.Runner{Session: s, Command: "lab b", Record: "lab"}
	if command.IsOn(call.Flags, "explain") {
		p.Explain = pingpong.Explanations{
			Start: Explain("b: before it begins"), Local: Explain("b: local address"), Remote: Explain("b: remote address"), Figures: Explain("b: figures"),
		}
	}
	if len(call.Args) > 1 {
		o.Host = call.Args[1]
	}
	return p.Run(ctx, o)
}
