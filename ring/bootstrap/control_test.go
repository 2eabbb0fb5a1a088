package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ringcli/configs/usage"
)

func TestExchange(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 8} {
		t.Run(fmt.Sprint(n), func(t *testing.T) { ring(t, n, nil) })
	}
}

func TestExchangeInAnyOrder(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 2, 3, 0}, {2, 0, 3, 1}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			t.Parallel()
			nodes := freshNodes(t, len(order))
			ctx := within(t)
			errs := make(chan error, len(order))
			for _, rank := range order {
				c := openRank(t, configFor(t, nodes, rank))
				go func() { errs <- exchange(ctx, c) }()
				time.Sleep(150 * time.Millisecond)
			}
			for range order {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A node that is stopped and started again before the exchange is no harm.
func TestRestartBeforeExchange(t *testing.T) {
	t.Parallel()
	for _, stopped := range []int{1, 2} { // rank 0 dials the one, and is dialled by the other
		t.Run(fmt.Sprintf("rank %d", stopped), func(t *testing.T) {
			t.Parallel()
			nodes := freshNodes(t, 3)
			ctx := within(t)
			var ends []chan error
			start := func(rank int) *Control {
				c, end := openRank(t, configFor(t, nodes, rank)), make(chan error, 1)
				ends = append(ends, end)
				go func() { end <- exchange(ctx, c) }()
				return c
			}
			zero, side := start(0), map[int]int{1: right, 2: left}[stopped]
			// sees waits for what rank 0 knows of a neighbour.
			sees := func(what string, side int, holds func(l *connection) bool) {
				until(t, what, func() bool {
					return holds(zero.neighbours.at(side))
				})
			}
			here := (*connection).here
			first := start(stopped)
			sees("the first is there", side, here)
			until(t, "the first sees rank 0", func() bool {
				return first.neighbours.at(1-side) != nil
			})
			// Its connection outlives its goodbye for a while.
			first.Goodbye()
			sees("its goodbye is heard", side, func(l *connection) bool { return !here(l) })
			start(3 - stopped)
			sees("the other is there", 1-side, here)
			if err := first.greeter.listener.Close(); err != nil {
				t.Fatal(err)
			}
			start(stopped)
			if stopped == 2 { // who dials anew needs not wait for the end of the old connection
				sees("the second is there", side, here)
			}
			_ = first.Close() // the listener is
			for i, end := range ends {
				if err := <-end; i == 1 && !errors.Is(err, ErrClosed) || i != 1 && err != nil {
					t.Errorf("rank %d: %v", []int{0, stopped, 3 - stopped, stopped}[i], err)
				}
			}
		})
	}
}

// missedDeadline is what is said after 5 s, some of which may be over when the wait begins.
var missedDeadline = regexp.MustCompile(`timed out after [345](\.\d+)?s waiting for rank `)

func TestMissingRank(t *testing.T) {
	t.Parallel()
	nodes := freshNodes(t, 4)
	var world []*Control
	for _, rank := range []int{0, 1, 3} {
		world = append(world, openRank(t, configFor(t, nodes, rank)))
	}
	const timeout = 5 * time.Second
	start := time.Now()
	errs := each(world, func(c *Control) error {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		return exchange(ctx, c)
	})
	if took := time.Since(start); took > timeout+handshakeTimeout {
		t.Errorf("it took %s: expected the deadline, %s, to hold", took, timeout)
	}
	for i, err := range errs {
		text := textOf(err)
		if !strings.Contains(text, fmt.Sprintf("rank 2 (%s) is not running (connection refused)", nodes[2])) {
			t.Errorf("rank %d does not say that rank 2 is missing: %s", world[i].own.rank, text)
		}
		if !missedDeadline.MatchString(text) {
			t.Errorf("rank %d does not say the deadline: %s", world[i].own.rank, text)
		}
		if !strings.Contains(text, " are up and wait for it") || errors.Is(err, usage.Err) {
			t.Errorf("rank %d does not say who is up: %s", world[i].own.rank, text)
		}
	}
	var late *TimeoutError
	if !errors.As(errors.Join(errs...), &late) || len(late.Peers) != 3 {
		t.Errorf("no rank has a TimeoutError of 3 peers: %v", errs)
	}
}

func TestGatherBroadcastBarrier(t *testing.T) {
	for _, n := range []int{1, 2, 4} {
		world := ring(t, n, nil)
		ctx := within(t)
		noErrors(t, each(world, func(c *Control) error {
			for round := range 20 {
				parts, err := c.GatherAll(ctx, fmt.Appendf(nil, "%d of %d", round, c.own.rank))
				if err != nil {
					return err
				}
				for r, p := range parts {
					if want := fmt.Sprintf("%d of %d", round, r); string(p) != want {
						return fmt.Errorf("part %d is %q, expected %q", r, p, want)
					}
				}
				if b, err := c.Broadcast(ctx, fmt.Append(nil, "from ", c.own.rank)); err != nil || string(b) != "from 0" {
					return fmt.Errorf("broadcast gave %q, %w", b, err)
				}
				if err := c.Barrier(ctx); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

// The largest parts of all ranks at once must not fill the ring's sockets.
func TestGatherLarge(t *testing.T) {
	world := ring(t, 4, nil)
	ctx := within(t)
	noErrors(t, each(world, func(c *Control) error {
		parts, err := c.GatherAll(ctx, make([]byte, MaxPart))
		for r, p := range parts {
			if len(p) != MaxPart {
				return fmt.Errorf("part %d has %d bytes", r, len(p))
			}
		}
		return err
	}))
	if _, err := world[0].GatherAll(ctx, make([]byte, MaxPart+1)); err == nil {
		t.Error("a part beyond MaxPart was taken")
	}
}

func TestBarrierWaitsForAll(t *testing.T) {
	world := ring(t, 3, nil)
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	errs := each(world[:2], func(c *Control) error { return c.Barrier(short) })
	for _, err := range errs {
		if !strings.Contains(textOf(err), "waiting for rank 2 to join barrier") {
			t.Errorf("%v: expected the missing rank's name", err)
		}
	}
	// Those who gave up are still in step.
	ctx := within(t)
	noErrors(t, each(world[2:], func(c *Control) error { return c.Barrier(ctx) }))
	noErrors(t, each(world, func(c *Control) error { return c.Barrier(ctx) }))
}

// Ranks of a block whose parts go together do not wait for one of them that comes late, and it
// alone is awaited; a caller may write to what it gave as soon as it has the others'.
func TestGatherOfBlocks(t *testing.T) {
	t.Parallel()
	const n, late = 18, 5 // blocks of 4, and one of 2
	world := ring(t, n, nil)
	ctx := within(t)
	for round := range 30 {
		noErrors(t, each(world, func(c *Control) error {
			own := fmt.Appendf(nil, "%d of %d", round, c.own.rank)
			all, err := c.GatherAll(ctx, own)
			clear(own)
			for r, p := range all {
				if want := fmt.Sprintf("%d of %d", round, r); r != c.own.rank && string(p) != want {
					return fmt.Errorf("part %d is %q, expected %q", r, p, want)
				}
			}
			return err
		}))
	}
	short, cancel := context.WithTimeout(t.Context(), 4*time.Second) // in which the others' parts come, on a busy machine
	defer cancel()
	for rank, err := range each(world, func(c *Control) error {
		if c.own.rank == late {
			return nil
		}
		return c.Barrier(short)
	}) {
		if e, ok := errors.AsType[*TimeoutError](err); rank != late && (!ok || !slices.Equal(e.From, []int{late})) {
			t.Errorf("rank %d: %v: expected that rank %d alone is awaited", rank, err, late)
		}
	}
	noErrors(t, []error{world[late].Barrier(ctx)})
	noErrors(t, each(world, func(c *Control) error { return c.Barrier(ctx) }))
}

func TestOperationsThatDiffer(t *testing.T) {
	world := ring(t, 3, nil)
	ctx := within(t)
	errs := each(world, func(c *Control) error {
		if c.own.rank == 1 {
			_, err := c.GatherAll(ctx, nil)
			return err
		}
		return c.Barrier(ctx)
	})
	for r, err := range errs {
		if text := textOf(err); !strings.Contains(text, "gather") || !strings.Contains(text, "barrier") {
			t.Errorf("rank %d: %s: expected both operations", r, text)
		}
	}
}

// An operation has a purpose; who is behind can learn what others wait for, and
// each of those that differ hears both purposes.
func TestGatherFor(t *testing.T) {
	world := ring(t, 3, nil)
	ctx := within(t)
	if kind, by, ok := world[1].Ahead(); ok {
		t.Errorf("%v of rank %d: expected that nobody is ahead", kind, by)
	}
	results := make(chan error, 2)
	for _, rank := range []int{0, 2} {
		go func() {
			parts, err := world[rank].Gather(ctx, Purpose{What: "tea", Call: 7}, []byte{byte(rank)})
			if err == nil && (len(parts) != 3 || parts[1][0] != 1) {
				err = fmt.Errorf("gathered %v", parts)
			}
			results <- err
		}()
	}
	for {
		kind, by, ok := world[1].Ahead()
		if ok && kind == (Purpose{What: "tea", Call: 7}) && by != 1 {
			break
		}
		if ok || ctx.Err() != nil {
			t.Fatalf("%v of rank %d, %v: expected tea", kind, by, ok)
		}
		time.Sleep(time.Millisecond)
	}
	_, err := world[1].Gather(ctx, Purpose{What: "tea", Call: 7}, []byte{1})
	noErrors(t, []error{err, <-results, <-results})
	if kind, by, ok := world[1].Ahead(); ok {
		t.Errorf("%v of rank %d: expected that nobody is ahead any more", kind, by)
	}

	purposes := []string{"tea", "coffee", "tea"}
	for i, err := range each(world, func(c *Control) error { _, err := c.Gather(ctx, Purpose{What: purposes[c.own.rank]}, nil); return err }) {
		if text := textOf(err); !strings.Contains(text, "rank 1 is to join coffee") && !strings.Contains(text, "rank 1 to join coffee") || !strings.Contains(text, "to join tea") {
			t.Errorf("rank %d: %s: expected both purposes", i, text)
		}
	}
}

func TestCloseInAnyState(t *testing.T) {
	nodes := freshNodes(t, 2)
	c := openRank(t, configFor(t, nodes, 0))
	done := make(chan error, 1)
	go func() { done <- exchange(t.Context(), c) }()
	time.Sleep(50 * time.Millisecond)
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("%v: expected ErrClosed", err)
	}
	if err := c.Barrier(t.Context()); err == nil {
		t.Error("a barrier on a closed ring")
	}
}

func TestCancel(t *testing.T) {
	c := openRank(t, configFor(t, freshNodes(t, 2), 0))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if err := exchange(ctx, c); !errors.Is(err, context.Canceled) { // there is no other end
		t.Errorf("%v: expected to be cancelled", err)
	}
}
