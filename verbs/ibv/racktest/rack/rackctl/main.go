//go:build linux

// Command rackctl boots a rack for use by hand:
//
//	go -C verbs/ibv/racktest run ./rack/rackctl run 2 -- bash
//
// boots two virtual machines and runs bash on the host's leg of their network,
// where rackctl is in PATH and commands the rack that runs:
//
//	rackctl exec 1 -- ibv_devinfo
//	rackctl impair 1 loss 1%
//	rackctl link 2 cut
//
// All is gone when the command has ended, or when rackctl has been killed.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{
		Use:               "rackctl",
		Short:             "Virtual machines with Linux's rdma_rxe, for use by hand",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.AddCommand(runCommand(), execCommand())
	for _, c := range []struct{ use, short string }{
		{"impair K [NETEM...]", "change what machine K sends, in tc-netem's words; none: no more"},
		{"link K up|down|cut", "down: the carrier is lost; cut: packets vanish"},
		{"pause K", "stop machine K in its tracks"},
		{"resume K", "let it go on"},
		{"kill K", "pull its plug"},
		{"start K", "boot it again"},
		{"console K", "print the end of its console"},
	} {
		root.AddCommand(remoteCommand(c.use, c.short))
	}
	err := root.Execute()
	if exit := (exitCode)(0); errors.As(err, &exit) {
		os.Exit(int(exit))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rackctl:", err)
		os.Exit(255)
	}
}

// exitCode is the exit status of a command that has run.
type exitCode int

func (e exitCode) Error() string { return "exit status " + strconv.Itoa(int(e)) }

func node(s string) (int, error) {
	k, err := strconv.Atoi(s)
	if err != nil || k < 1 {
		return 0, fmt.Errorf("%q is no machine's number, they begin with 1", s)
	}
	return k, nil
}
