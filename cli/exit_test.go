package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"ringcli/configs"
	"ringcli/trace"
)

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{sharedError(ExitWarning, "slow"), 1},
		{errors.New("a rank was lost"), 2},
		{sharedError(ExitCritical, "wrong"), 2},
		{usageError("index %d", 9), 3},
		{fmt.Errorf("connect: %w", usageError("x")), 3},
		{fmt.Errorf("x: %w", configs.ErrInvalid), 3},
		{fmt.Errorf("x: %w", trace.ErrSpec), 3},
		{errInterrupted, 130},
		{fmt.Errorf("bench: %w", errInterrupted), 130},
	} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
}

func TestWhateverCtrlCBreaksIsAnInterruption(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	broken := errors.New("queue pair in error")
	if got := interrupted(ctx, broken); !errors.Is(got, broken) {
		t.Errorf("before Ctrl-C: %v", got)
	}
	cancel(errInterrupted)
	if got := ExitCode(interrupted(ctx, broken)); got != ExitInterrupted {
		t.Errorf("after Ctrl-C: exit code %d", got)
	}
	if got := interrupted(ctx, nil); got != nil {
		t.Errorf("a command that ended well became %v", got)
	}
}

func TestWorse(t *testing.T) {
	order := []int{ExitOK, ExitWarning, ExitInterrupted, ExitUsage, ExitCritical}
	for i, a := range order {
		for j, b := range order {
			if got, want := worse(a, b), order[max(i, j)]; got != want {
				t.Errorf("worse(%d, %d) = %d, want %d", a, b, got, want)
			}
		}
	}
}
