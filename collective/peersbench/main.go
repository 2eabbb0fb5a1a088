//go:build linux

// Command peers measures ringcli's collectives beside Open MPI's and MPICH's, on this
// machine:
//
//	go -C collective/peersbench run .
//
// It installs Debian's packages of both if they are missing, compiles a small C program
// against each, and starts every contender: a set of processes that stays up and blocks
// while another is measured. In every round and at every size they take turns, and who
// is first does so, too: what disturbs grows or fades, and two virtual CPUs may be two
// threads of one core at one moment and far from each other at the next. What counts are
// the ratios within a round, of which the median is taken; beside each round stands how
// far the CPUs were from each other, and the floor, which is the least that an all-reduce
// has to move.
//
// With --hosts the ranks are on several hosts, which are network namespaces behind links of
// a given rate, and what goes over each link is counted.
//
// Both sides are measured in the style of nccl-tests: a warm-up, a barrier, a loop that
// reads no clock, and the time of an iteration is that of the slowest rank. Results are
// checked before, element by element.
//
// Whatever ends the rounds early, --limit and Ctrl-C included, what was measured is printed,
// with how much of the plan that is.
//
// It ends with 2 if something failed or was wrong, with 3 if it was called wrongly, and
// with 130 after Ctrl-C.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

const (
	exitFailed      = 2
	exitUsage       = 3
	exitInterrupted = 130
)

type usageError struct{ error }

func main() { os.Exit(execute(os.Args[1:])) }

// execute is the program, but for its end.
func execute(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// A second signal ends the process at once; its children end with their orders.
	defer context.AfterFunc(ctx, stop)()
	c := command()
	c.SetArgs(args)
	err := c.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "peersbench: interrupted")
		return exitInterrupted
	}
	fmt.Fprintln(os.Stderr, "peersbench:", err)
	if errors.As(err, &usageError{}) {
		return exitUsage
	}
	return exitFailed
}

func command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "peersbench",
		Short: "ringcli's collectives beside Open MPI's and MPICH's, interleaved, with ratios",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("%q: expected flags only, see --help", args)}
			}
			return nil
		},
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(c.Flags()); err != nil {
				return usageError{err}
			}
			ctx, cancel := context.WithTimeoutCause(c.Context(), o.limit, fmt.Errorf("not done after %s (--limit)", o.limit))
			defer cancel()
			return run(ctx, o, os.Stdout, os.Stderr)
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	o.flags(c.Flags())
	c.AddCommand(rankCommand(), hostCommand())
	return c
}
