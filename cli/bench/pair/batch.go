package pair

import (
	"context"
	"time"

	"ringcli/cli/timing"
	"ringcli/verbs"
)

// Streams is a batch of a bandwidth test: warm messages that are not measured, and n that
// are, which took so long.
func (e *End) Streams(ctx context.Context, op verbs.Opcode, bytes uint32, warm, n int) (took time.Duration, err error) {
	if e.role == bystander {
		return 0, nil
	}
	if warm > 0 {
		if _, err := e.stream(ctx, op, bytes, warm); err != nil {
			return 0, err
		}
	}
	if n > 0 {
		took, err = e.stream(ctx, op, bytes, n)
	}
	return took, err
}

// Bounces is a batch of a latency test, likewise: w gets half of each round trip, of READ all
// of it. The first is not measured: it is as long as one end begins later than the other.
func (e *End) Bounces(ctx context.Context, op verbs.Opcode, bytes uint32, warm, n int, w *timing.Stopwatch) error {
	if e.role == bystander {
		return nil
	}
	if err := e.bounce(ctx, op, bytes, warm+1, nil); err != nil || n == 0 {
		return err
	}
	return e.bounce(ctx, op, bytes, n, w)
}

// stream sends n messages with a window of them in flight and returns how long
// it took until the last was acknowledged. A last message tells the passive side
// that it is over.
func (e *End) stream(ctx context.Context, op verbs.Opcode, bytes uint32, n int) (time.Duration, error) {
	if e.role == passive {
		if op == verbs.OpSend {
			return 0, e.receive(ctx, n+1)
		}
		return 0, e.rest(ctx)
	}
	begun := time.Now()
	for posted := 0; posted < n || e.inFlight > 0; {
		if room := min(e.Window-e.inFlight, n-posted); room > 0 {
			if err := e.send(op, bytes, room); err != nil {
				return 0, err
			}
			posted += room
		}
		if err := e.progress(ctx); err != nil {
			return 0, err
		}
	}
	took := time.Since(begun)
	if err := e.send(verbs.OpSend, 0, 1); err != nil {
		return 0, err
	}
	return took, e.drain(ctx)
}

// bounce measures latency: n messages to and fro, each side sending when it has
// received, a WRITE with immediate data so that its arrival makes a completion.
// A READ is a round trip by itself. times may be nil.
func (e *End) bounce(ctx context.Context, op verbs.Opcode, bytes uint32, n int, times *timing.Stopwatch) error {
	if op == verbs.OpRead {
		return e.fetch(ctx, bytes, n, times)
	}
	if op == verbs.OpWrite {
		op = verbs.OpWriteImm
	}
	for range n {
		if e.role == passive {
			if err := e.receive(ctx, 1); err != nil {
				return err
			}
		}
		begun := time.Now()
		if err := e.send(op, bytes, 1); err != nil {
			return err
		}
		if e.role == passive {
			continue
		}
		if err := e.receive(ctx, 1); err != nil {
			return err
		}
		if times != nil {
			times.Add(time.Since(begun) / 2)
		}
	}
	return e.drain(ctx)
}

// fetch measures the latency of READ.
func (e *End) fetch(ctx context.Context, bytes uint32, n int, times *timing.Stopwatch) error {
	if e.role == passive {
		return e.receive(ctx, 1)
	}
	for range n {
		begun := time.Now()
		if err := e.send(verbs.OpRead, bytes, 1); err != nil {
			return err
		}
		if err := e.drain(ctx); err != nil {
			return err
		}
		if times != nil {
			times.Add(time.Since(begun))
		}
	}
	if err := e.send(verbs.OpSend, 0, 1); err != nil {
		return err
	}
	return e.drain(ctx)
}
