//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"ringcli/verbs/ibv/racktest/rack"
)

// runCommand is run N -- CMD.
func runCommand() *cobra.Command {
	o := rack.Options{Log: os.Stderr}
	c := &cobra.Command{
		Use:   "run N [flags] -- COMMAND...",
		Short: "boot machines 1 to N, run a command on the host's leg, end them",
		Long: `Boots machines 1 to N, runs a command on the host's leg of their network
(10.77.0.254) and ends the machines when it has ended. The command finds rackctl in
PATH, and the addresses in RACK_ADDRESSES and RACK_HOST_ADDRESS.`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) (err error) {
			if o.Nodes, err = node(args[0]); err != nil {
				return err
			}
			return run(o, args[1:])
		},
	}
	f := c.Flags()
	f.IntVar(&o.MTU, "mtu", 1500, "of the machines' Ethernet: 1500 gives RoCE an MTU of 1024, 9000 gives 4096")
	f.IntVar(&o.CPUs, "cpus", 1, "of each machine")
	f.IntVar(&o.MemoryMiB, "mem", 320, "MiB of each machine")
	f.StringArrayVar(&o.Shares, "share", nil, "a directory that the machines may write, at the same path (repeatable)")
	f.IntSliceVar(&o.Plain, "plain", nil, "machines without RDMA, by number")
	return c
}

func run(o rack.Options, args []string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	r, err := rack.Up(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Down()) }()
	s, err := listen(r)
	if err != nil {
		return err
	}
	defer s.close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	bin := filepath.Join(r.Dir(), "bin")
	if err := errors.Join(os.Mkdir(bin, 0o755), os.Symlink(self, filepath.Join(bin, "rackctl"))); err != nil {
		return err
	}
	var addresses []string
	for k := 1; k <= r.Nodes(); k++ {
		addresses = append(addresses, r.Address(k).String())
	}
	// A signal is for the command too, which decides what it means to it: a shell
	// lives on after Ctrl-C. TERM and HUP are passed on.
	cmd := r.Host(context.Background(), args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), socketVariable+"="+s.path, "PATH="+bin+":"+os.Getenv("PATH"),
		"RACK_ADDRESSES="+strings.Join(addresses, " "), "RACK_HOST_ADDRESS="+r.HostAddress().String())
	return supervise(cmd)
}

// supervise runs the command and passes signals on to it. It dies with us, which
// the kernel ties to the thread that has started it: that one stays.
func supervise(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			// The terminal's Ctrl-C has reached the whole foreground group already.
			if sig != syscall.SIGINT {
				_ = cmd.Process.Signal(sig)
			}
		case err := <-done:
			var exit *exec.ExitError
			if !errors.As(err, &exit) {
				return err
			}
			if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
				return exitCode(128 + int(status.Signal()))
			}
			if code := exit.ExitCode(); code >= 0 {
				return exitCode(code)
			}
			return err
		}
	}
}
