package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringcli/configs/usage"
)

// patience is for what must take no time at all, on a machine that is busy otherwise.
const patience = time.Minute

// within is a context that lasts so long.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// echo answers "echo" with all that it was told.
type echo struct {
	Rank int    `json:"rank"` // who answers
	Side int    `json:"side"` // of the answerer
	From int    `json:"from"`
	Text string `json:"text"`
}

func answerEcho(rank int) func(context.Context, string, int, int, json.RawMessage) (any, error) {
	return func(_ context.Context, kind string, from, side int, payload json.RawMessage) (any, error) {
		if kind != "echo" {
			return nil, UnknownKind(kind, "echo")
		}
		e := echo{Rank: rank, Side: side, From: from}
		return e, json.Unmarshal(payload, &e.Text)
	}
}

// askEcho asks a neighbour and checks every word of the answer.
func askEcho(ctx context.Context, c *Control, side int, text string) error {
	raw, err := c.Ask(ctx, side, "echo", text)
	if err != nil {
		return err
	}
	var got echo
	if err := json.Unmarshal(raw, &got); err != nil {
		return err
	}
	if want := (echo{Rank: c.own.neighbour(side), Side: 1 - side, From: c.own.rank, Text: text}); got != want {
		return fmt.Errorf("answer %+v: expected %+v", got, want)
	}
	return nil
}

// Every rank asks both its neighbours many things at once. With two ranks both
// are one rank, and with one it is the rank itself.
func TestAsk(t *testing.T) {
	for _, n := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			world := ring(t, n, func(cfg *Config) { cfg.Answer = answerEcho(cfg.Rank) })
			ctx := within(t)
			noErrors(t, each(world, func(c *Control) error {
				var errs [maxServing]error
				var wg sync.WaitGroup
				for i := range errs {
					wg.Go(func() {
						for round := range 20 {
							errs[i] = errors.Join(errs[i], askEcho(ctx, c, i%2, fmt.Sprint(i, " ", round)))
						}
					})
				}
				wg.Wait()
				return errors.Join(errs[:]...)
			}))
			noErrors(t, each(world, func(c *Control) error { return c.Barrier(ctx) }))
		})
	}
}

func TestAnswersThatAreErrors(t *testing.T) {
	t.Parallel()
	world := ring(t, 2, func(cfg *Config) {
		switch cfg.Rank {
		case 0:
			cfg.Answer = func(_ context.Context, kind string, _, _ int, _ json.RawMessage) (any, error) {
				switch kind {
				case "long":
					return strings.Repeat("x", maxPayload), nil
				case "odd":
					return make(chan int), nil
				case "silent":
					return nil, errors.New("")
				case "nothing":
					return nil, nil
				}
				return nil, UnknownKind(kind, "long", "odd")
			}
		case 1: // answers nothing
		}
	})
	ctx := within(t)
	for kind, want := range map[string]string{
		"long": "expected at most", "odd": "unsupported type", "silent": "did not say why", "other": `kind "other": this ringcli answers long, odd`,
	} {
		_, err := world[1].Ask(ctx, left, kind, nil)
		var answered *AnswerError
		if !errors.As(err, &answered) || answered.Rank != 0 || answered.Kind != kind || !strings.Contains(answered.Text, want) {
			t.Errorf("%s: %v: expected rank 0 to answer %q", kind, err, want)
		}
	}
	if raw, err := world[1].Ask(ctx, right, "nothing", nil); err != nil || string(raw) != "null" {
		t.Errorf("%q, %v: expected null", raw, err)
	}
	if _, err := world[0].Ask(ctx, right, "echo", nil); !strings.Contains(textOf(err), "answers no questions") {
		t.Errorf("%v: expected rank 1 to refuse", err)
	}
	if _, err := world[1].Ask(ctx, right, "echo", strings.Repeat("x", maxPayload)); !strings.Contains(textOf(err), "expected at most") {
		t.Errorf("%v: expected the question to be too long", err)
	}
	if _, err := world[1].Ask(ctx, 2, "echo", nil); !errors.Is(err, usage.Err) {
		t.Errorf("%v: expected side 2 to be refused", err)
	}
	if err := world[0].Failure(); err != nil {
		t.Errorf("the ring failed: %v", err)
	}
}

// slow is an Answer that waits for its context, and counts itself.
type slow struct {
	running atomic.Int32
	causes  chan error
}

func (s *slow) answer(ctx context.Context, _ string, _, _ int, _ json.RawMessage) (any, error) {
	s.running.Add(1)
	defer s.running.Add(-1)
	<-ctx.Done()
	s.causes <- context.Cause(ctx)
	return nil, fmt.Errorf("still in INIT: %w", context.Cause(ctx))
}

// when does something once so many answers wait.
func (s *slow) when(running int32, do func()) {
	go func() {
		for deadline := time.Now().Add(patience); s.running.Load() != running && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		do()
	}()
}

// until waits for a condition.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in %s", what, patience)
		}
	}
}

// slowPair is two ranks, of which rank 1 answers only in the end.
func slowPair(t testing.TB, change func(*Config)) ([]*Control, *slow) {
	s := &slow{causes: make(chan error, 4*maxServing)}
	return ring(t, 2, func(cfg *Config) {
		if cfg.Rank == 1 {
			cfg.Answer = s.answer
		} else {
			cfg.Answer = answerEcho(0)
		}
		if change != nil {
			change(cfg)
		}
	}), s
}

// hurried says that it ends sooner than it does.
type hurried struct {
	context.Context
	deadline time.Time
}

func (h hurried) Deadline() (time.Time, bool) { return h.deadline, true }

// The answerer's time ends before the asker's, and it can say what it waited for.
func TestAskUntilTheDeadline(t *testing.T) {
	t.Parallel()
	const given = time.Second
	left := make(chan time.Duration, 1)
	world, s := slowPair(t, func(cfg *Config) {
		slow := cfg.Answer
		cfg.Answer = func(ctx context.Context, kind string, from, side int, payload json.RawMessage) (any, error) {
			if deadline, ok := ctx.Deadline(); ok {
				left <- time.Until(deadline)
			}
			return slow(ctx, kind, from, side, payload)
		}
	})
	_, err := world[0].Ask(hurried{within(t), time.Now().Add(given)}, right, "await", nil)
	var answered *AnswerError
	if !errors.As(err, &answered) || !strings.Contains(err.Error(), "still in INIT: context deadline exceeded") {
		t.Errorf("%v: expected the answerer's reason", err)
	}
	if cause := <-s.causes; cause == nil {
		t.Error("the answer ended by nothing")
	}
	if had := <-left; had > given*7/8 {
		t.Errorf("the answerer had %s of %s", had, given)
	}
}

// An asker that gives up ends the answer, and its connection goes on.
func TestAskCancelled(t *testing.T) {
	t.Parallel()
	world, s := slowPair(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	s.when(1, cancel)
	_, err := world[0].Ask(ctx, right, "await", nil)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "rank 1 (") {
		t.Errorf("%v: expected to be cancelled", err)
	}
	if cause := <-s.causes; !errors.Is(cause, context.Canceled) {
		t.Errorf("the answer ended by %v", cause)
	}
	if err := askEcho(within(t), world[1], left, "on"); err != nil {
		t.Error(err)
	}
	until(t, "the questions to be forgotten", func() bool {
		world[0].asks.mu.Lock()
		defer world[0].asks.mu.Unlock()
		return len(world[0].asks.asked) == 0
	})
}

// A neighbour refuses what is too much, and answers again once it has room.
func TestAskTooMuch(t *testing.T) {
	t.Parallel()
	world, s := slowPair(t, nil)
	ctx, cancel := context.WithCancel(within(t))
	var wg sync.WaitGroup
	for range maxServing {
		wg.Go(func() {
			if _, err := world[0].Ask(ctx, right, "await", nil); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	until(t, "the questions", func() bool { return s.running.Load() == maxServing })
	_, err := world[0].Ask(ctx, right, "await", nil)
	var answered *AnswerError
	if !errors.As(err, &answered) || !strings.Contains(err.Error(), "busy with 16 other questions") {
		t.Errorf("%v: expected to be refused", err)
	}
	// The other edge has room of its own.
	other, cancelOther := context.WithCancel(ctx)
	s.when(maxServing+1, cancelOther)
	if _, err := world[0].Ask(other, left, "await", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the other edge: %v", err)
	}
	cancel()
	wg.Wait()
	until(t, "room", func() bool { return s.running.Load() == 0 })
	again, cancelAgain := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancelAgain()
	if _, err := world[0].Ask(again, right, "await", nil); strings.Contains(textOf(err), "busy") {
		t.Error(err)
	}
}

// A neighbour that dies ends the questions put to it and those it put.
func TestAskALostNeighbour(t *testing.T) {
	t.Parallel()
	for _, dies := range []int{0, 1} {
		var k cutter
		world, s := slowPair(t, func(cfg *Config) {
			if cfg.Rank == dies {
				k.install(cfg)
			}
		})
		ctx := within(t)
		s.when(1, k.cut)
		_, err := world[0].Ask(ctx, right, "await", nil)
		var v *Verdict
		want := KindLost
		if dies == 0 { // it lives here, and so sees
			want = KindEdge
		}
		if !errors.As(err, &v) || v.Kind != want || v.Confidence != Certain {
			t.Errorf("%v: expected %s for certain", err, want)
		}
		if cause := <-s.causes; !errors.As(cause, &v) {
			t.Errorf("the answer ended by %v", cause)
		}
		if _, err := world[0].Ask(ctx, right, "await", nil); !errors.As(err, &v) {
			t.Errorf("%v: expected the verdict again", err)
		}
	}
}

func TestAskEndsWithTheVerdict(t *testing.T) {
	t.Parallel()
	world, s := slowPair(t, nil)
	s.when(1, func() { world[1].Fail(&Verdict{Kind: KindFailed, Rank: 1, By: 1, Text: "no memory"}) })
	_, err := world[0].Ask(within(t), right, "await", nil)
	var v *Verdict
	if !errors.As(err, &v) || v.Text != "no memory" {
		t.Errorf("%v: expected the verdict", err)
	}
	if cause := <-s.causes; !errors.As(cause, &v) {
		t.Errorf("the answer ended by %v", cause)
	}
}

// A neighbour that leaves, and an asker that closes.
func TestAskEndsWithTheControl(t *testing.T) {
	t.Parallel()
	for closes := range 2 {
		world, s := slowPair(t, nil)
		s.when(1, func() { _ = world[closes].Close() }) // again at the end, where errors count
		_, err := world[0].Ask(within(t), right, "await", nil)
		var v *Verdict
		if closes == 0 && !errors.Is(err, ErrClosed) || closes == 1 && (!errors.As(err, &v) || v.Kind != KindLeft || v.Rank != 1) {
			t.Errorf("rank %d closes: %v", closes, err)
		}
		if cause := <-s.causes; cause == nil {
			t.Error("the answer did not end")
		}
		if _, err := world[0].Ask(within(t), right, "await", nil); err == nil {
			t.Error("there is nobody to ask any more")
		}
	}
}

func TestAskBeforeExchange(t *testing.T) {
	t.Parallel()
	c := openRank(t, configFor(t, freshNodes(t, 2), 0))
	if _, err := c.Ask(t.Context(), right, "echo", nil); !strings.Contains(textOf(err), "exchange first") {
		t.Errorf("%v: expected to be told to exchange first", err)
	}
}

// Questions in all directions, answered soon, late or never, asked with patience
// and without, while the ring comes to an end in each of the ways that it can.
func TestAskStorm(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"", "fail", "close"} {
		world := ring(t, 3, func(cfg *Config) {
			cfg.Answer = func(ctx context.Context, kind string, from, side int, payload json.RawMessage) (any, error) {
				select {
				case <-time.After(time.Duration(rand.IntN(3)) * time.Millisecond):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				return answerEcho(cfg.Rank)(ctx, kind, from, side, payload)
			}
		})
		var answers atomic.Int32
		storm := each(world, func(c *Control) error {
			var errs [2 * maxServing]error
			var wg sync.WaitGroup
			for i := range errs {
				wg.Go(func() {
					for round := range 30 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.IntN(4))*time.Millisecond+time.Duration(i%2)*patience)
						err := askEcho(ctx, c, round%2, fmt.Sprint(i, round))
						cancel()
						var answered *AnswerError
						var v *Verdict
						switch {
						case err == nil:
							answers.Add(1)
						case errors.Is(err, context.DeadlineExceeded) && i%2 == 0:
						case errors.As(err, &answered) && (i%2 == 0 || strings.Contains(answered.Text, "busy")):
						case end != "" && (errors.As(err, &v) || errors.Is(err, ErrClosed) || errors.As(err, &answered)):
						default:
							errs[i] = errors.Join(errs[i], err)
						}
						if i == 1 && round == 15 && c.own.rank == 1 {
							switch end {
							case "fail":
								c.Fail(&Verdict{Kind: KindFailed, Rank: 1, By: 1, Text: "enough"})
							case "close":
								errs[i] = errors.Join(errs[i], c.Close())
							}
						}
					}
				})
			}
			wg.Wait()
			return errors.Join(errs[:]...)
		})
		noErrors(t, storm)
		if answers.Load() == 0 {
			t.Errorf("%q: nothing was answered", end)
		}
		if end == "" {
			noErrors(t, each(world, func(c *Control) error { return c.Barrier(within(t)) }))
		}
	}
}

// A neighbour that asks and does not read is given up before its answers fill the memory.
func TestAskAndNotRead(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"clock", "echo"} {
		c := openRank(t, configFor(t, freshNodes(t, 3), 0))
		near, far := net.Pipe() // nothing is written before it is read
		c.neighbours.mu.Lock()
		c.neighbours.add(left, near, identity{Instance: "x", Host: "far", PID: 5})
		l := c.neighbours.at(left)
		c.neighbours.mu.Unlock()
		q := question{Kind: kind}
		var v *Verdict
		var err error
		for q.ID = 1; err == nil && q.ID < 2*maxUnread/512; q.ID++ {
			if kind == "clock" {
				q.Clock = new(reading) // which goes into the answer
			}
			err = c.asks.serve(l, q)
		}
		if !errors.As(err, &v) || v.Rank != l.peer || !strings.Contains(v.Text, "asks and does not read: 16 MiB") {
			t.Errorf("%s: %v after %d questions: expected to give it up", kind, err, q.ID)
		}
		until(t, "the verdict", c.Failed)
		_ = far.Close()
	}
}
