//go:build linux

// Command beside measures ringcli beside perftest, in the same two virtual machines:
//
//	go -C verbs/ibv/racktest run ./rack/beside
//
// In every round and at every size it runs ib_write_bw, `ringcli bench p2p` on the
// kernel's rdma_rxe through libibverbs, and ib_write_lat, and then bench p2p on the
// soft provider, which needs no device; rdma_rxe is unloaded meanwhile, since both
// speak on UDP port 4791. What counts are the ratios within a round, of which the
// median is taken: where a processor emulates another and serves others as well,
// figures of their own say little.
//
// It ends with 1 if the bandwidth of ringcli by that of ib_write_bw, both on rdma_rxe,
// is below the floor at 64 KiB, and with 2 if something failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ringcli/configs"
	"ringcli/verbs/ibv/racktest/rack"
)

const (
	floorBytes = 64 << 10
	mtu        = 4096 // of RoCE on an Ethernet of 9000
	exitSlow   = 1
	exitFailed = 2
)

// options are the program's flags.
type options struct {
	rounds int
	bytes  []uint64
	depth  int
	cpus   int
	floor  float64
	binary string
}

var errSlow = errors.New("slow")

func main() {
	err := start()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "beside:", err)
	if errors.Is(err, errSlow) {
		os.Exit(exitSlow)
	}
	os.Exit(exitFailed)
}

func start() error {
	var o options
	sizes := flag.String("sizes", "64,4K,64K,1M", "bytes of a message, up to 8M: the machines' memory is the upper bound")
	limit := flag.Duration("limit", 30*time.Minute, "end after this long, whatever happens")
	flag.IntVar(&o.rounds, "rounds", 7, "interleaved rounds, of which the medians are printed")
	flag.IntVar(&o.depth, "depth", 128, "messages in flight, of ringcli as of perftest (its --tx-depth)")
	flag.IntVar(&o.cpus, "cpus", 1, "CPUs of each machine")
	flag.Float64Var(&o.floor, "floor", 0.9, "end with 1 if ringcli by ib_write_bw is below this at 64K (0: never)")
	flag.StringVar(&o.binary, "ringcli", "", "the ringcli to measure (empty: one built of this module)")
	flag.Parse()
	if o.rounds < 1 {
		return fmt.Errorf("-rounds %d: expected 1 or more", o.rounds)
	}
	for text := range strings.SplitSeq(*sizes, ",") {
		size, err := configs.ParseSize(text)
		if err != nil {
			return fmt.Errorf("-sizes %s: %w", text, err)
		}
		o.bytes = append(o.bytes, size)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, *limit, fmt.Errorf("not done after %s (-limit)", *limit))
	defer cancel()
	return run(ctx, o, os.Stdout, os.Stderr)
}

// run boots the machines, measures, prints and ends them.
func run(ctx context.Context, o options, out, log io.Writer) (err error) {
	for _, tool := range []string{"ib_write_bw", "ib_write_lat"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is missing: expected Debian's package perftest", tool)
		}
	}
	dir, err := os.MkdirTemp("", "ringcli-beside-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{options: o, dir: dir, log: log, command: filepath.Join(dir, "ringcli")}
	if o.binary != "" {
		data, err := os.ReadFile(o.binary)
		if err != nil {
			return err
		}
		if err := os.WriteFile(b.command, data, 0o755); err != nil {
			return err
		}
	} else if err := build(ctx, b.command); err != nil {
		return err
	}
	if b.rack, err = rack.Up(ctx, rack.Options{Nodes: 2, CPUs: o.cpus, MTU: 9000, Shares: []string{dir}, Log: log}); err != nil {
		return cause(ctx, err)
	}
	defer func() { err = errors.Join(err, b.rack.Down()) }()
	results, err := b.measure(ctx)
	if err != nil {
		return cause(ctx, err)
	}
	if err := b.print(out, results); err != nil {
		return err
	}
	return verdict(results, o.floor)
}

// cause says why what was stopped has stopped.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// product is where the module lies that is measured, from this one's directory.
const product = "../../.."

// build makes ringcli.
func build(ctx context.Context, to string) error {
	c := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", to, "./cli/ringcli")
	c.Dir = product
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", c, err, out)
	}
	return nil
}
