package ring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"ringcli/ring/polling"
	"ringcli/ring/steps"
	"ringcli/trace"
)

// bringUp is the flight recorder's span of a step.
var bringUp = trace.NewKind(trace.Ring, trace.BringUpName, "$step")

// step is what has the polling token to itself for a while: a step of the bring-up, or
// what comes between two of them.
type step struct {
	r       *Ring
	name    string
	holder  polling.Holder // as which it has the token
	limit   time.Duration  // its deadline; 0 where it keeps deadlines of its own
	refused error          // it takes other values than it was given
	check   func() error   // tells whether it may be taken, once it has the token
}

// stepTo is the step to a state.
func stepTo(r *Ring, to State, v Values) *step {
	s := between(r, steps.Names[to], func() error { return r.table.mayStep(to, v.Sides()) })
	s.refused, s.limit = v.Check(steps.Names[to]), r.Timeout()
	switch {
	case to == StateOpened: // which has deadlines of its own
		s.limit = 0
	case to == StateExchanged && r.opts.Patience > 0:
		s.limit = r.opts.Patience
	}
	return s
}

// between is what leads to no state, with deadlines of its own.
func between(r *Ring, name string, check func() error) *step {
	return &step{r: r, name: name, holder: polling.Holder{Kind: polling.Stepping, Step: name}, check: check}
}

// take does what the step is for. Without Options.ByHand an error fails the ring.
func (s *step) take(ctx context.Context, do func(context.Context, Token) error) error {
	if s.refused != nil {
		return s.refused
	}
	r := s.r
	ctx, cancel := r.control.whileAlive(ctx)
	defer cancel()
	t, err := r.poll.take(ctx, s.holder)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	defer t.Release()
	if err := s.check(); err != nil {
		return err
	}
	start := time.Now()
	defer bringUp.Span(trace.Now(), trace.Intern(s.name), 0, 0, 0)
	if r.control.boot != nil {
		r.control.boot.SetState(s.name)
	}
	within := ctx
	if s.limit > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, s.limit)
		defer cancel()
	}
	err = do(within, t)
	if failure := r.Err(); failure != nil {
		err = failure // of the ring, meanwhile: the step's own follows from it
	}
	if err != nil {
		err = s.failed(ctx, err)
	}
	if r.control.boot != nil {
		r.control.boot.SetState(r.State().String())
	}
	if err == nil {
		trace.Debug(trace.Ring, "step done", slog.String("step", s.name), slog.Duration("took", time.Since(start)))
	}
	return err
}

// failed makes a step's error the ring's. What another rank found out stays as it was
// said; a cancelled step is no verdict on anybody: the neighbours will hear a goodbye. By
// hand only a verdict fails the ring.
func (s *step) failed(ctx context.Context, err error) error {
	r := s.r
	if v, ok := errors.AsType[*Verdict](err); ok {
		r.table.fail(v)
		return v
	}
	if _, ok := errors.AsType[*DisagreementError](err); !ok { // which names the operation
		err = fmt.Errorf("%s: %w", s.name, err)
	}
	switch {
	case r.opts.ByHand:
	case errors.Is(ctx.Err(), context.Canceled):
		r.table.fail(err)
	default:
		r.Fail(err)
		return r.failure.Settled(err) // what it suspects of a neighbour may be seen better by another rank
	}
	return err
}
