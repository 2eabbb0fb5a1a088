package ring

import (
	"cmp"
	"context"
	"errors"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap"
)

// MetError is an error of Connect after the ranks had found each other: over TCP the ring was up.
type MetError struct{ error }

func (e *MetError) Unwrap() error { return e.error }

// Connect takes all steps in order. On an error everything is released. A ring for a diagnosis is
// connected when the ranks have found each other.
func Connect(ctx context.Context, servers []string, index int, o Options) (*Ring, error) {
	r, err := New(servers, index, o)
	if err != nil {
		return nil, err
	}
	ping := func(ctx context.Context) error {
		_, err := r.Ping(ctx, 1)
		return err
	}
	init := func(ctx context.Context) error { return r.Init(ctx, Values{}) }
	rtr := func(ctx context.Context) error { return r.RTR(ctx, Values{}) }
	rts := func(ctx context.Context) error { return r.RTS(ctx, Values{}) }
	met := false
	for i, step := range []func(context.Context) error{r.Open, init, r.Exchange, rtr, r.AwaitNeighbours, rts, ping} {
		if met = i > 2; i == 3 && r.control.Diagnosing() {
			_, _ = rtr(ctx), rts(ctx) // what cannot be done is not there to be looked at
			return r, nil
		}
		if err := step(ctx); err != nil {
			err = r.failure.Settled(cmp.Or(r.Err(), err)) // what failed the ring may have come between two steps
			// Exchange has asked before.
			if was := r.failure.verdict(err); met && !usage.Is(err) && was.Kind != bootstrap.KindCanceled {
				if found := r.host.duplicates(ctx, was); found != was {
					err = found
				}
			}
			if err = errors.Join(err, r.Close()); met {
				err = &MetError{err}
			}
			return nil, err
		}
	}
	idle := &idleWatch{r.table, r.control, r.poll, r.ends, r.stalls, r.Fail}
	links := &linkWatch{&r.membership, r.host, r.devices, r.control.life}
	r.watching.Go(idle.run)
	r.watching.Go(links.run)
	return r, nil
}
