//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ringcli/verbs/ibv/racktest/rack/wire"
)

// socketVariable names the socket of the rack that runs.
const socketVariable = "RACKCTL_SOCKET"

// timeoutStatus is timeout(1)'s.
const timeoutStatus = 124

func execCommand() *cobra.Command {
	var (
		env   []string
		limit time.Duration
	)
	c := &cobra.Command{
		Use:   "exec K [flags] -- COMMAND...",
		Short: "run a command in machine K: its output, its exit status",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			k, err := node(args[0])
			if err != nil {
				return err
			}
			dir, _ := os.Getwd() // none: the root
			return call(wire.Command{Args: append([]string{"exec"}, args[1:]...), Env: env, Dir: dir, Node: k}, os.Stdin, limit)
		},
	}
	c.Flags().StringArrayVarP(&env, "env", "e", nil, "NAME=VALUE, added to its environment (repeatable)")
	c.Flags().DurationVarP(&limit, "timeout", "t", 0, "kill it after that long, such as 30s (exit status 124)")
	return c
}

// remoteCommand is a verb of the rack itself, on one machine.
func remoteCommand(use, short string) *cobra.Command {
	verb, _, _ := strings.Cut(use, " ")
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			k, err := node(args[0])
			if err != nil {
				return err
			}
			return call(wire.Command{Args: append([]string{verb}, args[1:]...), Node: k}, nil, 0)
		},
	}
}

// call has the rack that runs do c.
func call(c wire.Command, stdin io.Reader, limit time.Duration) error {
	path := os.Getenv(socketVariable)
	if path == "" {
		return errors.New(`no rack is up here: use this within "rackctl run N -- COMMAND", such as bash`)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		return fmt.Errorf("the rack is gone: %w", err)
	}
	defer func() { _ = conn.Close() }()
	w := wire.NewWriter(conn)
	if err := w.Write(wire.JSON(wire.Start, 0, c)); err != nil {
		return err
	}
	if stdin != nil {
		go func() {
			_, _ = io.Copy(w.Stream(wire.Stdin, 0), stdin)
			_ = w.Write(wire.Frame{Kind: wire.Stdin})
		}()
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		go func() {
			for sig := range signals {
				_ = w.Write(wire.Frame{Kind: wire.Signal, Data: []byte{byte(sig.(syscall.Signal))}})
			}
		}()
	}
	if limit > 0 {
		if err := conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
			return err
		}
	}
	for {
		f, err := wire.Read(conn)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return exitCode(timeoutStatus) // the connection's end kills the command
		case err != nil:
			return fmt.Errorf("the rack is gone: %w", err)
		case f.Kind == wire.Stdout:
			_, err = os.Stdout.Write(f.Data)
		case f.Kind == wire.Stderr:
			_, err = os.Stderr.Write(f.Data)
		case f.Kind == wire.Exit:
			return result(f)
		}
		if err != nil {
			return err
		}
	}
}

// result makes an exit status of an outcome, as a shell does.
func result(f wire.Frame) error {
	var o wire.Outcome
	if err := f.Into(&o); err != nil {
		return err
	}
	switch {
	case o.Error != "":
		return errors.New(o.Error)
	case o.Signal != 0:
		return exitCode(128 + o.Signal)
	case o.Code != 0:
		return exitCode(o.Code)
	}
	return nil
}
