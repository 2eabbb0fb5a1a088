package transport

import (
	"context"
	"sync/atomic"
)

// Future is an operation that will have ended: a write, a read, or the arrival of a
// notifying write. It is safe for concurrent use.
type Future struct {
	t       *Transport
	state   atomic.Uint32
	err     error                         // valid once state is resolved
	length  int                           // likewise
	channel atomic.Pointer[chan struct{}] // nil until somebody wants it
	ctx     context.Context               // that ends it: watch
	unwatch func() bool                   // ends the watch of the context; set before it can be resolved
}

// States of a future.
const (
	pending  = iota
	claimed  // somebody is about to resolve it
	resolved // err and length are valid
)

// over is the channel of all futures that are resolved.
var over = func() *chan struct{} {
	c := make(chan struct{})
	close(c)
	return &c
}()

// resolve ends the future, unless it has ended. It reports whether it did.
func (f *Future) resolve(length int, err error) bool {
	if !f.state.CompareAndSwap(pending, claimed) {
		return false
	}
	f.length, f.err = length, err
	f.state.Store(resolved)
	if c := f.channel.Swap(over); c != nil {
		close(*c)
	}
	if f.unwatch != nil {
		f.unwatch()
	}
	f.t.loop.completed(f)
	return true
}

func (f *Future) isResolved() bool { return f.state.Load() == resolved }

// Done is closed once the operation has ended.
func (f *Future) Done() <-chan struct{} {
	c, fresh := f.done()
	if fresh {
		f.t.adapter.kick() // nobody may come to poll
	}
	return c
}

// done is Done for who polls, or sees another poll: the goroutine need not take over. fresh tells
// that nobody has asked before.
func (f *Future) done() (c <-chan struct{}, fresh bool) {
	if f.channel.Load() == nil {
		made := make(chan struct{})
		fresh = f.channel.CompareAndSwap(nil, &made)
	}
	return *f.channel.Load(), fresh
}

// Err is nil after success, ErrInProgress before Done.
func (f *Future) Err() error {
	if !f.isResolved() {
		return ErrInProgress
	}
	return f.err
}

// Len is how many bytes were moved: of a write that was waited for, those of its last
// request. 0 before Done.
func (f *Future) Len() int {
	if !f.isResolved() {
		return 0
	}
	return f.length
}

// Wait waits for the end and returns Err. A context that ends first ends the waiting
// alone: the operation goes on.
func (f *Future) Wait(ctx context.Context) error {
	if f.isResolved() {
		return f.err
	}
	return f.t.adapter.wait(ctx, f)
}

// Cancel resolves the future with ErrCanceled, unless it is resolved. A write or read that
// waits here is not made. One that is under way cannot be called back: the memory stays
// in use until the device is done with it. A future of WaitForWrite leaves its turn to the next.
func (f *Future) Cancel() { f.t.cancel(f, failed(ErrCanceled, "canceled here")) }

// watch has a context end the future, on a goroutine that may come late. It is called before
// anybody else knows the future.
func (f *Future) watch(ctx context.Context, what string) {
	f.ctx = ctx
	if ctx.Done() != nil {
		f.unwatch = context.AfterFunc(ctx, func() { f.t.cancel(f, ended(ctx, what)) })
	}
}

// WaitAll waits for all futures and returns the first error in their order.
func WaitAll(ctx context.Context, futures ...*Future) error {
	var first error
	for _, f := range futures {
		if err := f.Wait(ctx); err != nil && first == nil {
			first = err
		}
	}
	return first
}
