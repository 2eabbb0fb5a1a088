package bootstrap

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// A wait says for whom, since when, and what the rank does at which the waits end; given
// up, it is told once.
func TestWaits(t *testing.T) {
	t.Parallel()
	var waits Waits
	world := ring(t, 4, func(cfg *Config) {
		if cfg.Rank == 0 {
			cfg.Waits = &waits
		}
	})
	world[2].SetActivity("idle at its prompt")
	if w, ok := waits.Now(); ok {
		t.Fatalf("%s: expected that nobody is awaited", w)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	go func() {
		defer cancel(interrupted)
		var why string
		for deadline := time.Now().Add(patience); !strings.Contains(why, "idle") && time.Now().Before(deadline); {
			if w, ok := waits.Now(); ok && w.String() == "rank 2 ("+world[0].own.cfg.List[2].String()+") to run tea" {
				why = w.Why(ctx)
			}
		}
		if !strings.HasPrefix(why, "up, idle at its prompt for ") {
			t.Errorf("%q: expected that rank 2 is idle", why)
		}
	}()
	errs := each(world, func(c *Control) error {
		if c.own.rank == 2 {
			return interrupted
		}
		_, err := c.Gather(ctx, Purpose{What: "gather", Do: "run tea"}, nil)
		return err
	})
	for rank, err := range errs {
		if !errors.Is(err, interrupted) {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	if w, ok := waits.GivenUp(); !ok || !strings.HasSuffix(w.String(), "to run tea") || time.Since(w.Since) < 0 {
		t.Errorf("%v, %v was given up", w, ok)
	}
	if _, ok := waits.GivenUp(); ok {
		t.Error("it is told twice")
	}
	world[0].Note("go on", []int{1, 3}, time.Now())
	if w, ok := waits.Now(); !ok || w.String() != "ranks 1, 3 to go on" {
		t.Errorf("%v, %v: expected what was noted", w, ok)
	}
}
