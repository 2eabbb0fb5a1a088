package session

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/render"
	"ringcli/configs"
	"ringcli/ring"
)

// newTurns are those of a session without a ring.
func newTurns(t *testing.T) *Turns {
	t.Helper()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	configs.AddFlags(flags, "timeout", "output")
	cfg, err := configs.Load(flags, "")
	if err != nil {
		t.Fatal(err)
	}
	s := New(nil, io.Discard, io.Discard, nil, nil)
	s.Config, s.Out = cfg, render.New(io.Discard, render.Table)
	return &Turns{Base: s}
}

// busy checks who has the ring.
func (t *Turns) busy(test *testing.T, with string) {
	test.Helper()
	_, err := t.Try(t.Base.Fork(), "rtr")
	if b, ok := errors.AsType[*BusyError](err); !ok || b.Holder != with {
		test.Errorf("rtr: %v: expected the ring to be busy with %s", err, with)
	}
}

// Commands have the ring in the order in which they have asked, whenever they come to wait;
// one that gives its place up never has it, and the others do.
func TestTurnsKeepTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(t)
		first, err := turns.Try(turns.Base.Fork(), "first")
		if err != nil {
			t.Fatal(err)
		}
		var line []*Turn
		for range 5 {
			line = append(line, turns.Reserve("other"))
		}
		var order []int
		took := make(chan int)
		for i := len(line) - 1; i >= 0; i-- {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			if i == 1 || i == 4 {
				cancel()
			}
			go func() {
				defer cancel()
				err := line[i].Take(ctx, turns.Base.ForJob())
				if err == nil {
					took <- i
				} else if i == 0 || i == 2 {
					t.Errorf("turn %d: %v", i, err)
				}
				line[i].Leave()
			}()
			synctest.Wait()
		}
		if !line[3].GiveUp() || first.GiveUp() || !line[3].Waits() || first.Waits() {
			t.Error("a turn that has come was given up, or one that waits was not")
		}
		turns.busy(t, "first")
		first.Leave()
		for range 2 {
			order = append(order, <-took)
		}
		if order[0] != 0 || order[1] != 2 {
			t.Errorf("order %v: expected 0 and 2", order)
		}
		synctest.Wait()
		line[3].Leave() // which has no place any more
		again, err := turns.Try(turns.Base.Fork(), "again")
		if err != nil {
			t.Fatal(err)
		}
		again.Leave()
		again.Leave() // harmless
	})
}

// What a command makes of the ring is the next one's.
func TestATurnHandsTheRingOn(t *testing.T) {
	turns := newTurns(t)
	s := turns.Base.Fork()
	first, err := turns.Try(s, "connect")
	if err != nil {
		t.Fatal(err)
	}
	next, job := turns.Reserve("all-reduce"), turns.Base.ForJob()
	s.Ring = &ring.Ring{}
	first.Keep()
	first.Leave()
	if err := next.Take(t.Context(), job); err != nil || job.Ring != s.Ring {
		t.Errorf("%v: the ring is not that of the command before", err)
	}
	next.Leave()
}
