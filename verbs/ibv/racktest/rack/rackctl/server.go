//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"syscall"

	"ringcli/verbs/ibv/racktest/rack"
	"ringcli/verbs/ibv/racktest/rack/wire"
)

// server lets other rackctls command the rack of this one: a connection is one
// command, in the frames that a machine's agent speaks as well.
type server struct {
	rack     *rack.Rack
	path     string
	listener net.Listener
	ctx      context.Context // ends with the server
	cancel   context.CancelFunc
	clients  sync.WaitGroup
}

func listen(r *rack.Rack) (*server, error) {
	s := &server{rack: r, path: filepath.Join(r.Dir(), "rackctl.socket")}
	var err error
	if s.listener, err = net.Listen("unix", s.path); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	go func() {
		for {
			conn, err := s.listener.Accept()
			if err != nil {
				return // closed
			}
			s.clients.Go(func() { s.serve(conn) })
		}
	}()
	return s, nil
}

func (s *server) close() {
	s.cancel()
	_ = s.listener.Close()
	s.clients.Wait()
}

// serve handles one connection: a Start frame, whose first argument is the verb.
func (s *server) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	// The client's going, or our end, ends its command.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	w := wire.NewWriter(conn)
	f, err := wire.Read(conn)
	if err != nil || f.Kind != wire.Start {
		return
	}
	var c wire.Command
	var outcome wire.Outcome
	if err := f.Into(&c); err != nil || len(c.Args) == 0 {
		return
	}
	if c.Args[0] == "exec" {
		outcome = s.exec(ctx, cancel, conn, w, c)
	} else if err := s.do(ctx, w, c); err != nil {
		outcome = wire.Outcome{Code: 255, Error: err.Error()}
	}
	_ = w.Write(wire.JSON(wire.Exit, 0, outcome)) // a client that has gone
}

func (s *server) do(ctx context.Context, w *wire.Writer, c wire.Command) error {
	k, words := c.Node, c.Args[1:]
	switch c.Args[0] {
	case "impair":
		if len(words) == 1 && words[0] == "none" {
			words = nil
		}
		return s.rack.Impair(k, words...)
	case "link":
		if len(words) != 1 {
			return errors.New("link K up|down|cut")
		}
		to, err := rack.ParseLinkState(words[0])
		if err != nil {
			return err
		}
		return s.rack.Link(k, to)
	case "pause":
		return s.rack.Pause(k)
	case "resume":
		return s.rack.Resume(k)
	case "kill":
		return s.rack.Kill(k)
	case "start":
		return s.rack.Start(ctx, k)
	case "console":
		_, err := fmt.Fprintln(w.Stream(wire.Stdout, 0), s.rack.Console(k))
		return err
	}
	return fmt.Errorf("no verb %q", c.Args[0])
}

// exec runs a command in a machine for a client.
func (s *server) exec(ctx context.Context, cancel func(), conn net.Conn, w *wire.Writer, c wire.Command) wire.Outcome {
	if len(c.Args) < 2 {
		return wire.Outcome{Code: 255, Error: "no command"}
	}
	stdin := wire.NewQueue()
	defer stdin.Close()
	cmd := s.rack.Command(ctx, c.Node, c.Args[1], c.Args[2:]...)
	cmd.Env, cmd.Dir, cmd.Stdin = c.Env, c.Dir, stdin
	cmd.Stdout, cmd.Stderr = w.Stream(wire.Stdout, 0), w.Stream(wire.Stderr, 0)
	if err := cmd.Start(); err != nil {
		return wire.Outcome{Code: 255, Error: err.Error()}
	}
	go func() {
		for {
			f, err := wire.Read(conn)
			switch {
			case err != nil:
				cancel()
				return
			case f.Kind == wire.Stdin && len(f.Data) == 0:
				stdin.Close()
			case f.Kind == wire.Stdin:
				stdin.Put(f.Data)
			case f.Kind == wire.Signal && len(f.Data) == 1:
				_ = cmd.Signal(syscall.Signal(f.Data[0])) // it may just have ended
			}
		}
	}()
	err := cmd.Wait()
	var exit *rack.ExitError
	switch {
	case errors.As(err, &exit):
		return wire.Outcome{Code: exit.Code, Signal: int(exit.Signal)}
	case err != nil:
		return wire.Outcome{Code: 255, Error: err.Error()}
	}
	return wire.Outcome{}
}
