package launch

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"ringcli/configs/usage"
)

// hydraControl is set by MPICH's Hydra alone, whose processes have no use for it; inKeeping is
// its value in a rank that has a keeper.
const hydraControl, inKeeping = "HYDI_CONTROL_FD", "kept"

// isKept is written by Keep, before anything else runs.
var isKept bool

// keptLine and keptPipe are the descriptors that a keeper passes on: Hydra's, and a pipe that
// ends with the keeper.
const keptLine, keptPipe = 3, 4

// keptLonger is how long a rank outlives its keeper at most: nobody else would end one that
// hangs.
const keptLonger = 20 * time.Second

// Keep runs this program again, waits for it, and returns its exit code, where Hydra has
// started this process; kept is false where it has not. Hydra kills a host's ranks by SIGKILL
// in the moment in which one of them is killed, before they can say who that was. It kills
// this process then: the rank is another, whose context, parent's child, has the cause gone
// from then on, and whose own death is an exit code to Hydra. variables are those that the
// rank gets besides the environment.
func Keep(parent context.Context, gone error, variables ...string) (ctx context.Context, code int, kept bool, err error) {
	switch os.Getenv(hydraControl) {
	case "":
		return parent, 0, false, nil
	case inKeeping:
		isKept = true
		if err := os.Unsetenv(hydraControl); err != nil { // the rank's children have no keeper
			return parent, 0, false, err
		}
		return underKeeper(parent, gone), 0, false, nil
	}
	if os.Getenv("PMI_FD") == "" {
		return parent, 0, false, nil
	}
	code, err = keep(variables)
	return parent, code, err == nil, err
}

// IsKept tells whether this process is a rank that has a keeper.
func IsKept() bool { return isKept }

func underKeeper(parent context.Context, gone error) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	syscall.CloseOnExec(keptPipe)
	pipe := os.NewFile(keptPipe, "the keeper's pipe")
	go func() {
		_, _ = pipe.Read(make([]byte, 1)) // ends with the keeper: nothing is ever written
		cancel(gone)
		time.Sleep(keptLonger)
		os.Exit(128 + int(syscall.SIGKILL))
	}()
	return ctx
}

func keep(variables []string) (code int, err error) {
	fd, err := variable("PMI_FD", 3)
	if err != nil {
		return 0, err
	}
	syscall.CloseOnExec(fd) // else the rank would have it twice
	line := os.NewFile(uintptr(fd), "PMI_FD")
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	pipe, held, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer func() { _ = held.Close() }() // the rank has ended by then
	rank := exec.Command(self, os.Args[1:]...)
	rank.Args[0] = os.Args[0]
	rank.Env = slices.Concat(os.Environ(), variables, []string{hydraControl + "=" + inKeeping, fmt.Sprintf("PMI_FD=%d", keptLine)})
	rank.Stdin, rank.Stdout, rank.Stderr = os.Stdin, os.Stdout, os.Stderr
	rank.ExtraFiles = []*os.File{keptLine - 3: line, keptPipe - 3: pipe}
	rank.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Hydra kills by group
	caught := make(chan os.Signal, 8)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(caught)
	if err := rank.Start(); err != nil {
		return 0, usage.Errorf("the rank cannot be started (PMI_FD is %d): %w", fd, err)
	}
	_ = pipe.Close()
	_ = line.Close() // Hydra hears when the rank's is closed
	over := make(chan struct{})
	defer close(over)
	go func() {
		for {
			select {
			case sig := <-caught:
				_ = rank.Process.Signal(sig) // it may have ended
			case <-over:
				return
			}
		}
	}()
	_ = rank.Wait() // how it has ended is its state
	if status, ok := rank.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		who := os.Getenv("PMI_RANK")
		if n, err := strconv.Atoi(who); err == nil {
			_, _ = fmt.Fprintf(os.Stderr, "ringcli: rank %d, process %d, was killed by signal %d (%s)\n", n, rank.Process.Pid, status.Signal(), status.Signal())
		}
		return 128 + int(status.Signal()), nil
	}
	return rank.ProcessState.ExitCode(), nil
}
