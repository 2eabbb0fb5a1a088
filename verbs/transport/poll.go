package transport

import (
	"context"
	"runtime"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/cpu"
)

const (
	// spins are empty looks before the first yield, where the device says nothing.
	spins = 64
	// patience is how long one who waits polls since anything last completed; then it is
	// left to the goroutine, which sleeps: longer than pauses within a running transfer.
	patience = 10 * time.Millisecond
	// looksPerClock: the clock and the context are looked at every so many looks.
	looksPerClock = 32
)

// wait waits for a future: polls for all if nobody else does.
func (a *adapter) wait(ctx context.Context, f *Future) error {
	select {
	case a.token <- struct{}{}:
	default: // somebody polls for all
		done, _ := f.done()
		select {
		case a.token <- struct{}{}:
		case <-done:
			return f.err
		case <-ctx.Done():
			return result(f, ended(ctx, "wait for a transfer"))
		}
	}
	tired, err := a.pollFor(ctx, f)
	<-a.token
	if tired {
		select {
		case <-f.Done():
		case <-ctx.Done():
			err = ended(ctx, "wait for a transfer")
		}
	}
	return result(f, err)
}

// result is a future's own, if it has one by now.
func result(f *Future, err error) error {
	if f.isResolved() {
		return f.err
	}
	return err
}

// pollFor polls until the future is resolved or the context has ended, or until nothing
// has completed for long: tired. It needs the token.
func (a *adapter) pollFor(ctx context.Context, f *Future) (tired bool, err error) {
	most := a.Attr.MaxSpins
	if most == 0 {
		most = spins
	}
	a.polled.Add(1)
	var begun time.Time
	spin := cpu.NewSpin(most, false, nil)
	for looks := 1; ; looks++ {
		if f.isResolved() {
			return false, nil
		}
		if a.poll() {
			spin.Reset()
			begun = time.Time{}
			continue
		}
		if looks%looksPerClock == 0 {
			a.polled.Add(1)
			switch now := time.Now(); {
			case ctx.Err() != nil:
				return false, ended(ctx, "wait for a transfer")
			case begun.IsZero():
				begun = now
			case now.Sub(begun) > patience:
				a.flush()
				return true, nil
			}
		}
		if yields := spin.Next(); yields > 0 {
			if runtime.Gosched(); yields%8 == 0 {
				spin.Yield()
			}
		}
	}
}

// poll takes what has completed, and reports whether there was anything. It needs the token.
func (a *adapter) poll() (any bool) {
	for _, q := range *a.shared.Load() {
		n, err := q.Poll(a.wc[:])
		if err != nil {
			for _, t := range a.everybody() {
				t.fail(failed(ErrInternal, "poll %s: %w", a.Name(), err))
			}
		}
		for i := range n {
			a.dispatch(&a.wc[i])
		}
		any = any || n > 0
	}
	return any
}

// flush has a device in software send what it owes: nobody may poll for a while.
func (a *adapter) flush() {
	if queues := *a.shared.Load(); len(queues) > 0 {
		_, _ = queues[0].Poll(nil) // an error comes again
	}
}

// dispatch gives a completion to its transport.
func (a *adapter) dispatch(wc *verbs.Completion) {
	number := wc.ID >> (idLifeBits + 1)
	if a.last == nil || a.last.pair.number != number {
		found, ok := a.transports.Load(number)
		if !ok {
			return // closed
		}
		a.last = found.(*Transport)
	}
	a.last.completion(wc)
}
