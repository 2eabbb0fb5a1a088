package exit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"ringcli/configs"
	"ringcli/trace"
)

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{Sharedf(Warning, "slow"), 1},
		{errors.New("a rank was lost"), 2},
		{Sharedf(Critical, "wrong"), 2},
		{Usagef("index %d", 9), 3},
		{fmt.Errorf("connect: %w", Usagef("x")), 3},
		{fmt.Errorf("x: %w", configs.ErrInvalid), 3},
		{fmt.Errorf("x: %w", trace.ErrSpec), 3},
		{ErrInterrupted, 130},
		{fmt.Errorf("bench: %w", ErrInterrupted), 130},
		{fmt.Errorf("bench: %w", ErrTerminated), 143},
		{fmt.Errorf("bench: %w", &fs.PathError{Op: "write", Path: "/dev/stdout", Err: unix.EPIPE}), 141},
		{&fs.PathError{Op: "write", Path: "/tmp/fifo", Err: unix.EPIPE}, 2},
		{&fs.PathError{Op: "write", Path: "/dev/stdout", Err: unix.ENOSPC}, 2},
		{&net.OpError{Op: "write", Err: unix.EPIPE}, 2}, // a peer's connection
	} {
		if got := Code(c.err); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
}

func TestWhateverCtrlCBreaksIsAnInterruption(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	broken := errors.New("queue pair in error")
	if got := OrInterrupted(ctx, broken); !errors.Is(got, broken) {
		t.Errorf("before Ctrl-C: %v", got)
	}
	cancel(ErrInterrupted)
	if got := Code(OrInterrupted(ctx, broken)); got != Interrupted {
		t.Errorf("after Ctrl-C: exit code %d", got)
	}
	if got := OrInterrupted(ctx, nil); got != nil {
		t.Errorf("a command that ended well became %v", got)
	}
}

func TestWorse(t *testing.T) {
	order := []int{OK, Warning, Interrupted, Terminated, Usage, Critical, Pipe}
	for i, a := range order {
		for j, b := range order {
			if got, want := Worse(a, b), order[max(i, j)]; got != want {
				t.Errorf("worse(%d, %d) = %d, want %d", a, b, got, want)
			}
		}
	}
}

func TestGraver(t *testing.T) {
	warning, critical, another := Sharedf(Warning, "slow"), errors.New("lost"), errors.New("wrong")
	for _, c := range [][3]error{
		{nil, nil, nil}, {nil, warning, warning}, {warning, nil, warning},
		{warning, critical, critical}, {critical, warning, critical}, {critical, another, critical},
	} {
		if got := Graver(c[0], c[1]); !errors.Is(got, c[2]) {
			t.Errorf("of %v and %v: %v, want %v", c[0], c[1], got, c[2])
		}
	}
}
