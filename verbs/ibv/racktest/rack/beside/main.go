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
// is below the floor at 64 KiB, with 2 if something failed and with 3 if it was called
// wrongly.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ringcli/configs"
	"ringcli/verbs/ibv/racktest/rack"
)

const (
	floorBytes = 64 << 10
	exitSlow   = 1
	exitFailed = 2
	exitUsage  = 3
)

// options are the command's flags.
type options struct {
	rounds int
	sizes  []string
	bytes  []uint64 // of sizes
	depth  int
	cpus   int
	floor  float64
	output string
	binary string
	costs  bool
	limit  time.Duration
}

var errSlow = errors.New("slow")

type usageError struct{ error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := command().ExecuteContext(ctx)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "beside:", err)
	switch {
	case errors.As(err, &usageError{}):
		os.Exit(exitUsage)
	case errors.Is(err, errSlow):
		os.Exit(exitSlow)
	default:
		os.Exit(exitFailed)
	}
}

func command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "beside",
		Short: "ringcli's bandwidth and latency beside perftest's, on Linux's rdma_rxe in two virtual machines",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("%q: expected flags only, see --help", args)}
			}
			return nil
		},
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return usageError{err}
			}
			ctx, cancel := context.WithTimeoutCause(c.Context(), o.limit, fmt.Errorf("not done after %s (--limit)", o.limit))
			defer cancel()
			return run(ctx, o, os.Stdout, os.Stderr)
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	f := c.Flags()
	f.IntVar(&o.rounds, "rounds", 7, "interleaved rounds, of which the medians are printed")
	f.StringSliceVar(&o.sizes, "sizes", []string{"64", "4K", "64K", "1M"}, "bytes of a message")
	f.IntVar(&o.depth, "depth", 128, "messages in flight, of ringcli as of perftest (its --tx-depth)")
	f.IntVar(&o.cpus, "cpus", 1, "CPUs of each machine")
	f.Float64Var(&o.floor, "floor", 0.9, "end with 1 if ringcli by ib_write_bw is below this at 64K (0: never)")
	f.StringVar(&o.output, "output", "table", "table, or json: an object a line")
	f.StringVar(&o.binary, "ringcli", "", "the ringcli to measure (empty: one built of this module)")
	f.BoolVar(&o.costs, "costs", true, "what a post and an empty poll of verbs/ibv cost, too")
	f.DurationVar(&o.limit, "limit", 30*time.Minute, "end after this long, whatever happens")
	return c
}

// check refuses what would measure nothing, before machines are booted.
func (o *options) check() error {
	switch {
	case o.rounds < 1 || o.rounds > 1000:
		return fmt.Errorf("--rounds %d: expected 1 to 1000", o.rounds)
	case o.depth < 1 || o.depth > 128:
		return fmt.Errorf("--depth %d: expected 1 to 128, which is what bench p2p has room for", o.depth)
	case o.cpus < 1 || o.cpus > 64:
		return fmt.Errorf("--cpus %d: expected 1 to 64", o.cpus)
	case !(o.floor >= 0 && o.floor <= 10):
		return fmt.Errorf("--floor %g: expected 0 to 10, such as 0.9", o.floor)
	case o.output != "table" && o.output != "json":
		return fmt.Errorf("--output %s: expected table or json", o.output)
	case o.limit <= 0:
		return fmt.Errorf("--limit %s: expected a duration above 0", o.limit)
	case len(o.sizes) == 0:
		return errors.New("--sizes: expected one size or several, such as 64,64K")
	}
	for _, text := range o.sizes {
		var size configs.SizeValue
		if err := size.Set(text); err != nil {
			return fmt.Errorf("--sizes %s: %w", text, err)
		}
		// perftest takes 1 byte and more; the machines' memory is the upper bound.
		if size < 1 || size > 8<<20 {
			return fmt.Errorf("--sizes %s: expected 1 to 8M", text)
		}
		o.bytes = append(o.bytes, uint64(size))
	}
	return nil
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
	} else if err := build(ctx, "build", b.command, "./cli/ringcli"); err != nil {
		return err
	}
	// Everybody has an MTU of 4096: that of an Ethernet of 9000.
	if b.rack, err = rack.Up(ctx, rack.Options{Nodes: 2, CPUs: o.cpus, MTU: 9000, Shares: []string{dir}, Log: log}); err != nil {
		return cause(ctx, err)
	}
	defer func() { err = errors.Join(err, b.rack.Down()) }()
	results, err := b.measure(ctx)
	if err != nil {
		return cause(ctx, err)
	}
	r := Report{
		Kernel: b.rack.Kernel(), Accelerator: b.rack.Accelerator(), CPUs: o.cpus, Rounds: o.rounds, Depth: o.depth, MTU: 4096,
		Sizes: results, Floor: o.floor,
	}
	if o.costs {
		if r.Costs, err = b.costs(ctx); err != nil {
			return cause(ctx, err)
		}
	}
	if err := r.print(out, o.output); err != nil {
		return err
	}
	return r.verdict()
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

// build makes a command, or a package's tests.
func build(ctx context.Context, how, to, pkg string) error {
	args := []string{how, "-buildvcs=false", "-o", to, pkg}
	if how == "test" {
		args = append([]string{"test", "-c"}, args[1:]...)
	}
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = product
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
