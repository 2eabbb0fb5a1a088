package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// news is what a rank publishes in a round, to be told apart at both sides.
func news(rank, side, round int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`"%d to %d, round %d"`, rank, side, round))
}

func publish(ctx context.Context, c *Control, round int) (fromLeft, fromRight string, err error) {
	l, r, err := c.Exchange(ctx, news(c.own.rank, left, round), news(c.own.rank, right, round))
	return string(l), string(r), err
}

// A rank that exchanges again is not held up by neighbours that do not, and they
// find the newest when they do.
func TestExchangeAgain(t *testing.T) {
	for _, n := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			world := ring(t, n, func(cfg *Config) { cfg.Answer = answerEcho(cfg.Rank) })
			ctx := within(t)
			for round := 1; round <= 3; round++ { // rank 0 alone
				if _, _, err := publish(ctx, world[0], round); err != nil {
					t.Fatal(err)
				}
			}
			// A question comes after what was published before it.
			for _, side := range []int{left, right} {
				if err := askEcho(ctx, world[0], side, "there?"); err != nil {
					t.Fatal(err)
				}
			}
			if _, fromRight, err := publish(ctx, world[n-1], 9); err != nil || n > 1 && fromRight != string(news(0, left, 3)) {
				t.Errorf("the left neighbour has %s, %v: expected round 3", fromRight, err)
			}
			if fromLeft, _, err := publish(ctx, world[1%n], 9); err != nil || n > 1 && fromLeft != string(news(0, right, 3)) {
				t.Errorf("the right neighbour has %s, %v: expected round 3", fromLeft, err)
			}
			// All at once, and the ring still works.
			noErrors(t, each(world, func(c *Control) error {
				for round := range 20 {
					if _, _, err := publish(ctx, c, round); err != nil {
						return err
					}
				}
				for _, side := range []int{left, right} {
					if err := askEcho(ctx, c, side, "done"); err != nil {
						return err
					}
				}
				return c.Barrier(ctx)
			}))
			noErrors(t, each(world, func(c *Control) error {
				fromLeft, fromRight, err := publish(ctx, c, 20)
				if err != nil {
					return err
				}
				for _, round := range []int{19, 20} {
					wantLeft, wantRight := string(news(c.own.neighbour(left), right, round)), string(news(c.own.neighbour(right), left, round))
					if fromLeft == wantLeft {
						fromLeft = ""
					}
					if fromRight == wantRight {
						fromRight = ""
					}
				}
				if fromLeft+fromRight != "" {
					return fmt.Errorf("%s and %s are neither of round 19 nor of 20", fromLeft, fromRight)
				}
				return nil
			}))
		})
	}
}

// An operator's exchange whose time passes can be repeated when the others are
// there.
func TestExchangeByHand(t *testing.T) {
	t.Parallel()
	nodes := freshNodes(t, 3)
	open := func(rank int) *Control {
		cfg := configFor(t, nodes, rank)
		cfg.ByHand = true
		return openRank(t, cfg)
	}
	world := []*Control{open(0), open(1)}
	for range 2 {
		noErrors(t, each(world, func(c *Control) error {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			var late *TimeoutError
			if err := exchange(ctx, c); !errors.As(err, &late) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "rank 2 ("+nodes[2].String()+") is not running (connection refused)") {
				return fmt.Errorf("%w: expected that rank 2 is missing", err)
			}
			return nil
		}))
	}
	world = append(world, open(2))
	ctx := within(t)
	noErrors(t, each(world, func(c *Control) error { return exchange(ctx, c) }))
	noErrors(t, each(world, func(c *Control) error { return c.Barrier(ctx) }))
}

func TestExchangeAgainAfterTheEnd(t *testing.T) {
	t.Parallel()
	world := ring(t, 3, nil)
	if err := world[2].Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := publish(t.Context(), world[2], 1); !errors.Is(err, ErrClosed) {
		t.Errorf("%v: expected ErrClosed", err)
	}
	until(t, "the verdict", func() bool { return world[0].Failed() && world[1].Failed() })
	if _, _, err := publish(t.Context(), world[0], 1); !errors.As(err, new(*Verdict)) {
		t.Errorf("%v: expected the verdict", err)
	}
}
