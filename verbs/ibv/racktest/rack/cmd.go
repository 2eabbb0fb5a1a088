//go:build linux

package rack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"time"

	"ringcli/verbs/ibv/racktest/rack/wire"
)

// Cmd is a command in a virtual machine, used like exec.Cmd. Its process group is
// its own, and what it leaves running in it ends with it.
type Cmd struct {
	Args []string // its name and arguments; the guest looks the name up in its PATH
	Env  []string // NAME=VALUE, added to PATH, HOME and LANG as they are here
	Dir  string   // where it runs; empty: this process's directory; the root if the guest lacks it

	Stdin          io.Reader // nil: empty
	Stdout, Stderr io.Writer // nil: dropped. The same value in both gets the two in order.

	ctx context.Context
	m   *machine
	err error // of finding the machine

	id             uint32
	stdout, stderr *wire.Queue
	copies         sync.WaitGroup
	ended          chan struct{} // closed by end
	endOnce        sync.Once
	outcome        wire.Outcome // set before ended is closed
	failure        error        // likewise
}

// ExitError says how a command ended that did not end well.
type ExitError struct {
	Node   int
	Name   string
	Code   int            // its exit status; -1 if a signal ended it
	Signal syscall.Signal // 0: none
	Stderr []byte         // what it said, if Output was called without a Stderr
}

func (e *ExitError) Error() string {
	how := fmt.Sprintf("exit status %d", e.Code)
	if e.Signal != 0 {
		how = "signal: " + e.Signal.String()
	}
	if said := strings.TrimSpace(string(e.Stderr)); said != "" {
		how += ": " + said
	}
	return fmt.Sprintf("vm %d: %s: %s", e.Node, e.Name, how)
}

// ExitCode is the exit status, -1 if a signal ended the command.
func (e *ExitError) ExitCode() int { return e.Code }

// killDeadline is for the outcome of a command that has been told to end: a guest
// that runs tells it at once.
const killDeadline = 20 * time.Second

// Start starts the command. Errors: ErrDown; that the guest cannot run it is told
// by Wait.
func (c *Cmd) Start() error {
	if c.err != nil {
		return c.err
	}
	if c.ended != nil {
		return errors.New("rack: a Cmd can be started once")
	}
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	command := wire.Command{Args: c.Args, Env: c.Env, Dir: c.Dir}
	if command.Dir == "" {
		command.Dir, _ = os.Getwd() // none: the root
	}
	c.ended = make(chan struct{})
	c.stdout, c.stderr = wire.NewQueue(), wire.NewQueue()
	if sameWriter(c.Stdout, c.Stderr) {
		c.stderr = c.stdout
	}
	// Registered before it is sent, as frames may come at once.
	id, err := c.m.add(c)
	if err != nil {
		return err
	}
	c.id = id
	if err := c.m.send(wire.JSON(wire.Start, id, command)); err != nil {
		c.m.remove(id)
		return fmt.Errorf("vm %d: starting %s: %w", c.m.k, c.Args[0], err)
	}
	c.copy(c.Stdout, c.stdout)
	if c.stderr != c.stdout {
		c.copy(c.Stderr, c.stderr)
	}
	// Not among the copies: a reader may have more to give than the command takes.
	go func() {
		if c.Stdin != nil {
			_, _ = io.Copy(stdin{c}, c.Stdin)
		}
		_ = c.m.send(wire.Frame{Kind: wire.Stdin, ID: id})
	}()
	return nil
}

// sameWriter compares two writers whose types may not be comparable.
func sameWriter(a, b io.Writer) bool {
	return a != nil && b != nil && reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}

func (c *Cmd) copy(w io.Writer, q *wire.Queue) {
	if w == nil {
		w = io.Discard
	}
	c.copies.Go(func() {
		if _, err := io.Copy(w, q); err != nil {
			_, _ = io.Copy(io.Discard, q)
		}
	})
}

// stdin sends what is written to it until the command has ended.
type stdin struct{ c *Cmd }

func (s stdin) Write(b []byte) (int, error) {
	select {
	case <-s.c.ended:
		return 0, io.ErrClosedPipe
	default:
		return s.c.m.w.Stream(wire.Stdin, s.c.id).Write(b)
	}
}

// receive takes one of the command's frames; the machine's goroutine calls it.
func (c *Cmd) receive(f wire.Frame) {
	switch f.Kind {
	case wire.Stdout:
		c.stdout.Put(f.Data)
	case wire.Stderr:
		c.stderr.Put(f.Data)
	case wire.Exit:
		var outcome wire.Outcome
		err := f.Into(&outcome)
		c.end(outcome, err)
	}
}

// end records how the command has ended, once.
func (c *Cmd) end(outcome wire.Outcome, err error) {
	c.endOnce.Do(func() {
		c.outcome, c.failure = outcome, err
		c.stdout.Close()
		c.stderr.Close()
		close(c.ended)
	})
}

// Signal sends a signal to the command's process group.
func (c *Cmd) Signal(sig os.Signal) error {
	number, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("rack: %v is not a signal of Linux", sig)
	}
	if c.ended == nil {
		return errors.New("rack: Signal of a Cmd that has not been started")
	}
	select {
	case <-c.ended:
		return os.ErrProcessDone
	default:
		return c.m.send(wire.Frame{Kind: wire.Signal, ID: c.id, Data: []byte{byte(number)}})
	}
}

// Wait waits until the command has ended and its output has been written. Errors:
// *ExitError; ErrDown when its machine went; the context's when that ended first,
// after which the command has been killed.
func (c *Cmd) Wait() error {
	if c.ended == nil {
		return errors.New("rack: Wait for a Cmd that has not been started")
	}
	var late error
	select {
	case <-c.ended:
	case <-c.ctx.Done():
		late = context.Cause(c.ctx)
		_ = c.Signal(syscall.SIGKILL) // it may just have ended
		select {
		case <-c.ended:
		case <-time.After(killDeadline):
			c.m.remove(c.id)
			c.end(wire.Outcome{}, fmt.Errorf("vm %d: no answer %v after %s was to end", c.m.k, killDeadline, c.Args[0]))
		}
	}
	c.copies.Wait()
	switch o := c.outcome; {
	case late != nil:
		return fmt.Errorf("vm %d: %s: %w", c.m.k, strings.Join(c.Args, " "), late)
	case c.failure != nil:
		return c.failure
	case o.Error != "":
		return fmt.Errorf("vm %d: %s", c.m.k, o.Error)
	case o.Code != 0 || o.Signal != 0:
		return &ExitError{Node: c.m.k, Name: c.Args[0], Code: o.Code, Signal: syscall.Signal(o.Signal)}
	}
	return nil
}

// Run starts the command and waits for it.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the command and returns its standard output.
func (c *Cmd) Output() ([]byte, error) {
	var stdout, stderr bytes.Buffer
	c.Stdout = &stdout
	own := c.Stderr == nil
	if own {
		c.Stderr = &stderr
	}
	err := c.Run()
	if exit := (*ExitError)(nil); own && errors.As(err, &exit) {
		exit.Stderr = stderr.Bytes()
	}
	return stdout.Bytes(), err
}

// CombinedOutput runs the command and returns its standard output and error.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	var b bytes.Buffer
	c.Stdout, c.Stderr = &b, &b
	err := c.Run()
	return b.Bytes(), err
}
