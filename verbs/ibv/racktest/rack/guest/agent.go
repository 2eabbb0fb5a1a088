//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/verbs/ibv/racktest/rack/wire"
)

// agent runs the commands that arrive at its port. serve's goroutine alone reads
// the port; each command has a goroutine that waits for it.
type agent struct {
	port io.Reader
	w    *wire.Writer

	mu   sync.Mutex // guards jobs
	jobs map[uint32]*job
}

// job is a command that runs, in a process group of its own.
type job struct {
	group int // 0 until it has started
	stdin *wire.Queue
}

func newAgent(port io.ReadWriter) *agent {
	return &agent{port: port, w: wire.NewWriter(port), jobs: map[uint32]*job{}}
}

// serve handles frames until the port fails.
func (a *agent) serve() error {
	for {
		f, err := wire.Read(a.port)
		if err != nil {
			return err
		}
		if err := a.handle(f); err != nil {
			return err
		}
	}
}

func (a *agent) handle(f wire.Frame) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	j := a.jobs[f.ID]
	switch f.Kind {
	case wire.Start:
		var c wire.Command
		if err := f.Into(&c); err != nil {
			return err
		}
		if j != nil || len(c.Args) == 0 {
			return fmt.Errorf("command %d: %q: its id is in use, or it has no name", f.ID, c.Args)
		}
		j = &job{stdin: wire.NewQueue()}
		a.jobs[f.ID] = j
		cmd, err := a.start(f.ID, c, j)
		go func() {
			a.finish(f.ID, j, cmd, err)
		}()
	case wire.Stdin:
		switch {
		case j == nil: // it has ended, while this was on its way
		case len(f.Data) == 0:
			j.stdin.Close()
		default:
			j.stdin.Put(f.Data)
		}
	case wire.Signal:
		if j != nil && j.group != 0 && len(f.Data) == 1 {
			_ = syscall.Kill(-j.group, syscall.Signal(f.Data[0])) // gone: its exit is on the way
		}
	default:
		return fmt.Errorf("a %v frame is not for a guest", f.Kind)
	}
	return nil
}

func (a *agent) start(id uint32, c wire.Command, j *job) (*exec.Cmd, error) {
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env = append(os.Environ(), c.Env...)
	if info, err := os.Stat(c.Dir); err == nil && info.IsDir() {
		cmd.Dir = c.Dir
	}
	cmd.Stdout = a.w.Stream(wire.Stdout, id)
	cmd.Stderr = a.w.Stream(wire.Stderr, id)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	j.group = cmd.Process.Pid
	go func() {
		_, _ = io.Copy(stdin, j.stdin) // a command may leave its input unread
		_ = stdin.Close()
	}()
	return cmd, nil
}

// drainDeadline is for the output of a command that has ended: its group is ended
// with it, so only what left the group can still hold the pipes open.
const drainDeadline = 2 * time.Second

func (a *agent) finish(id uint32, j *job, cmd *exec.Cmd, err error) {
	var outcome wire.Outcome
	if err != nil {
		outcome = wire.Outcome{Code: -1, Error: err.Error()}
	} else {
		outcome = wait(cmd, j.group)
	}
	j.stdin.Close()
	a.mu.Lock()
	delete(a.jobs, id)
	a.mu.Unlock()
	_ = a.w.Write(wire.JSON(wire.Exit, id, outcome)) // a port that fails ends serve
}

// wait waits for the command and then ends what it has left in its group, as a
// command is over when its outcome is told.
func wait(cmd *exec.Cmd, group int) wire.Outcome {
	// WNOWAIT: the leader stays a zombie, its number not reused, until the group
	// has been ended and Wait below collects it.
	for errors.Is(unix.Waitid(unix.P_PID, group, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	_ = syscall.Kill(-group, syscall.SIGKILL)
	cmd.WaitDelay = drainDeadline
	err := cmd.Wait()
	state := cmd.ProcessState
	if state == nil {
		return wire.Outcome{Code: -1, Error: err.Error()}
	}
	status := state.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return wire.Outcome{Code: -1, Signal: int(status.Signal())}
	}
	outcome := wire.Outcome{Code: status.ExitStatus()}
	if err != nil && !errors.As(err, new(*exec.ExitError)) && !errors.Is(err, exec.ErrWaitDelay) {
		outcome.Error = err.Error()
	}
	return outcome
}
