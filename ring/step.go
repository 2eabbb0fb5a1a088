package ring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"ringcli/trace"
)

// bringUp is the flight recorder's span of a step.
var bringUp = trace.NewKind(trace.Ring, trace.BringUpName, "$step")

// step runs one step within its deadline.
func (r *Ring) step(ctx context.Context, to State, v Values, do func(context.Context, Token) error) error {
	return r.untimedStep(ctx, to, v, func(ctx context.Context, t Token) error {
		limit := r.opts.Timeout
		if to == StateExchanged && r.opts.Patience > 0 {
			limit = r.opts.Patience
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return do(ctx, t)
	})
}

// untimedStep is step for what keeps its own deadlines.
func (r *Ring) untimedStep(ctx context.Context, to State, v Values, do func(context.Context, Token) error) error {
	if err := v.check(steps[to]); err != nil {
		return err
	}
	return r.attempt(ctx, steps[to], func() error { return r.mayStep(to, v.sides()) }, do)
}

// attempt has the token while it does something that check allows. Without
// Options.ByHand an error fails the ring.
func (r *Ring) attempt(ctx context.Context, name string, check func() error, do func(context.Context, Token) error) error {
	return r.attemptAs(ctx, holder{kind: stepping, step: name}, name, check, do)
}

// attemptAs is attempt for another holder of the token.
func (r *Ring) attemptAs(ctx context.Context, h holder, name string, check func() error, do func(context.Context, Token) error) error {
	ctx, cancel := r.whileAlive(ctx)
	defer cancel()
	t, err := r.takeToken(ctx, h)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer t.Release()
	if err := check(); err != nil {
		return err
	}
	start := time.Now()
	defer bringUp.Span(trace.Now(), trace.Intern(name), 0, 0, 0)
	if r.control != nil {
		r.control.SetState(name)
	}
	err = do(ctx, t)
	if failure := r.Err(); failure != nil {
		err = failure // of the ring, meanwhile: the step's own follows from it
	}
	if err != nil {
		err = r.stepFailed(ctx, name, err)
	}
	if r.control != nil {
		r.control.SetState(r.State().String())
	}
	if err == nil {
		trace.Debug(trace.Ring, "step done", slog.String("step", name), slog.Duration("took", time.Since(start)))
	}
	return err
}

// stepFailed makes a step's error the ring's. What another rank found out stays
// as it was said; a cancelled step is no verdict on anybody: the neighbours will
// hear a goodbye. By hand only a verdict fails the ring.
func (r *Ring) stepFailed(ctx context.Context, step string, err error) error {
	var v *Verdict
	if errors.As(err, &v) {
		r.setFailed(v)
		return v
	}
	err = fmt.Errorf("%s: %w", step, err)
	switch {
	case r.opts.ByHand:
	case errors.Is(ctx.Err(), context.Canceled):
		r.setFailed(err)
	default:
		r.Fail(err)
	}
	return err
}
