package transport

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/session"
	"ringcli/cli/transport/googlebench"
	"ringcli/configs"
)

// The words of the command.
const (
	wordServe = "serve"
	wordBench = "bench"
)

var words = []string{wordServe, wordBench}

// endSettings are those of both.
var endSettings = append(configs.NamesOf(settings{}), "token-file")

// flagsOf are the flags that one of the words alone takes.
var flagsOf = map[string][]string{
	wordServe: {"bind"},
	wordBench: {
		"begin", "end", "beside", "benchmark_filter", "benchmark_out", "benchmark_min_time", "benchmark_list_tests",
	},
}

// Rows is `ringcli transport`.
func Rows() []command.Row {
	return []command.Row{{
		Name: "transport", Group: command.GroupRing, Where: command.Process,
		Summary: "Write to another process' memory, without a ring: serve, bench",
		Long: `A transport is one connection between two processes: either writes to memory
that the other has registered, or reads it, and tells it when it is there.

  transport serve              serves clients, one at a time: another is told
                               which one, and ends with exit code 2
  transport bench HOST[:PORT]  measures against the server there
  transport bench              starts a server of its own on this machine

A server listens on 127.0.0.1, for clients of its own machine. --bind 0.0.0.0,
or one of its addresses, serves other nodes. Without a token it gives clients
64M of memory, and a bench against a HOST measures up to that size. With one it
gives half of the available memory, 4G at most. The memory is freed when the
client's connection ends.

Both ends take an RDMA device, the nearest where there are several. Where there
is none they refuse, and name what there is: soft, over any network, and shm, on
one host. That is not taken unasked: --device soft, at both ends. Each end says
which device it took, and why. Both ends need the same token (--token-file), or
none.

The table is like Google Benchmark's; the flags --benchmark_* are its own, and
--output json is one document with its field names, not one object a line, that
its tools/compare.py lays beside another. Times are of one iteration; CPU is
that of all threads of the client; M/s and G/s are binary.

  Write      a write, waited for      Batch     a write of 16 that are in flight
  Read       a read, waited for       RoundTrip a write that notifies, and its
  Register   memory, and deregistered           answer: both count as bytes
  BM_Memcpy  a copy within the client, measured before the Write of its size

of_memcpy and of_rate are shares of BM_Memcpy's rate and of the port's; with
--beside h100 the documented figures of RdmaTransport on an H100 server and the
share of those. What was written is read back and compared, after each row.

With --memory cuda:0, or hip:0, an end's memory is a GPU's, of each end its own;
the report says how the adapter reaches it (dma-buf, peer memory, or staged
through the host's memory, whose copies count) and why no better way is taken.
Memcpy is then a copy within the GPU, and Register allocates the memory, too.`,
		Example: `  ringcli transport bench --device shm
  ringcli transport serve --device soft --bind 0.0.0.0    on node0
  ringcli transport bench --device soft node0             on node1
  ringcli transport bench --device shm --benchmark_filter=Write --beside h100
  ringcli transport bench --device soft:lo --benchmark_out=results.json
  ringcli transport bench --memory cuda:0`,
		Args: "serve | bench [HOST[:PORT]]", Words: words, CheckArgs: checkWords,
		Settings: endSettings, Flags: flags, Run: run,
	}}
}

func checkWords(args []string) error {
	switch {
	case len(args) == 0:
		return exit.Usagef("transport: what? expected one of %s", strings.Join(words, ", "))
	case !slices.Contains(words, args[0]):
		return exit.Usagef("transport %q: expected one of %s", args[0], strings.Join(words, ", "))
	case args[0] == wordServe && len(args) > 1:
		return exit.Usagef("transport serve: unexpected argument %q: it serves whoever calls", args[1])
	case len(args) > 2:
		return exit.Usagef("transport bench %s: unexpected argument %q: expected the server's HOST[:PORT] alone, or none for a server of its own", args[1], args[2])
	}
	return nil
}

// The sizes of the documentation's table.
const (
	leastSize = 8 << 10
	mostSize  = 256 << 20
)

func flags(fs *pflag.FlagSet) {
	command.NumberFlag(fs, "tcp-port", "", DefaultPort, 0, 65535, "a TCP port", "the server's TCP port (serve: 0 takes a free one)")
	memoryFlag(fs)
	fs.String("bind", loopback.String(), "serve: IP address to listen on; 0.0.0.0: all")
	command.Completes(fs, "bind", "nothing")
	begin, end := configs.SizeValue(leastSize), configs.SizeValue(mostSize)
	fs.VarP(&begin, "begin", "b", "bench: least size in bytes; each further one is twice as large")
	fs.VarP(&end, "end", "e", "bench: greatest size in bytes; of a HOST without a token "+configs.FormatSize(strangersMemory))
	fs.Var(&command.Parsed[map[string]float64]{Kind: "whose", Completions: []string{"h100"}, Text: func(map[string]float64) string { return "h100" }, Parse: func(text string) (map[string]float64, error) {
		if text != "h100" {
			return nil, errors.New("expected h100")
		}
		return googlebench.H100, nil
	}}, "beside", "bench: figures of others to show beside: h100")
	fs.Var(&command.Parsed[*regexp.Regexp]{Kind: "regexp", Parse: regexp.Compile}, "benchmark_filter", "bench: what to measure, by name; \"-\" before it leaves those out (all)")
	command.Completes(fs, "benchmark_filter", "words", "Write", "Batch", "Read", "RoundTrip", "Register", "Memcpy")
	fs.String("benchmark_out", "", "bench: write the report as JSON to this file, besides")
	command.Completes(fs, "benchmark_out", "files", "json")
	fs.Var(&command.Parsed[googlebench.Time]{Value: &googlebench.Time{Least: 500 * time.Millisecond}, Kind: "time", Parse: parseTime, Text: timeText},
		"benchmark_min_time", "bench: how long to measure each at least, as in 0.5s, or how often, as in 100x")
	command.Completes(fs, "benchmark_min_time", "words", "0.1s", "0.5s", "2s", "100x")
	fs.Bool("benchmark_list_tests", false, "bench: list the names, measure nothing")
	session.ChildFlags(fs)
}

// parseTime reads Google Benchmark's --benchmark_min_time: seconds, with or without an s, or a
// number of iterations and x.
func parseTime(text string) (googlebench.Time, error) {
	if times, ok := strings.CutSuffix(text, "x"); ok {
		n, err := strconv.Atoi(times)
		if err != nil || n < 1 || n > 1e9 {
			return googlebench.Time{}, errors.New("expected a number of iterations from 1 to 1e9 before the x")
		}
		return googlebench.Time{Iterations: n}, nil
	}
	seconds, err := strconv.ParseFloat(strings.TrimSuffix(text, "s"), 64)
	if err != nil || !(seconds > 0 && seconds <= 3600) {
		return googlebench.Time{}, errors.New("expected seconds above 0 as in 0.5s, or iterations as in 100x")
	}
	return googlebench.Time{Least: time.Duration(seconds * float64(time.Second))}, nil
}

func timeText(t googlebench.Time) string {
	if t.Iterations > 0 {
		return fmt.Sprintf("%dx", t.Iterations)
	}
	return fmt.Sprintf("%gs", t.Least.Seconds())
}

func run(ctx context.Context, s *session.Session, call command.Call) error {
	for word, names := range flagsOf {
		for _, name := range names {
			if word != call.Args[0] && call.Flags.Changed(name) {
				return exit.Usagef("transport %s --%s: is of `transport %s`", call.Args[0], name, word)
			}
		}
	}
	if call.Args[0] == wordServe {
		return runServe(ctx, s, call)
	}
	return runBench(ctx, s, call)
}

// sizesOf are those from the least to the greatest, by doubling.
func sizesOf(s *session.Session, call command.Call) ([]uint64, error) {
	least, most := command.SizeOf(call.Flags, "begin"), command.SizeOf(call.Flags, "end")
	token, _, err := s.Secrets.Token(s.Config)
	if err != nil {
		return nil, err
	}
	if own := len(call.Args) < 2; !own && token == nil && !call.Flags.Changed("end") {
		most = max(least, strangersMemory) // a server gives no more
	}
	switch {
	case least < 1 || most > mostMemory:
		return nil, exit.Usagef("transport bench: -b %s, -e %s: expected sizes from 1 to %s", configs.FormatSize(least), configs.FormatSize(most), configs.FormatSize(mostMemory))
	case least > most:
		return nil, exit.Usagef("transport bench: -b %s is above -e %s: expected the least size first", configs.FormatSize(least), configs.FormatSize(most))
	}
	var sizes []uint64
	for size := least; size <= most; size *= 2 {
		sizes = append(sizes, size)
	}
	return sizes, nil
}

// wanted tells by name what is to be measured.
func wanted(fs *pflag.FlagSet) func(name string) bool {
	filter := command.Given[*regexp.Regexp](fs, "benchmark_filter")
	if filter == nil {
		return func(string) bool { return true }
	}
	text := (*filter).String()
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		if not, err := regexp.Compile(rest); err == nil {
			return func(name string) bool { return !not.MatchString(name) }
		}
	}
	return (*filter).MatchString
}
