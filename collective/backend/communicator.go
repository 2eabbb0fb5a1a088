package backend

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"ringcli/verbs/memory"
)

// communicator is the library's ncclComm_t, which its abort frees as its destruction does.
//
// The vendor's thread alone calls on it, for whoever holds vendor.lock, and has the token
// while it is in the library. Any goroutine aborts it, once: that closes ending, after which
// the thread begins no call, and takes the token for ever, for which it waits until the
// thread has come back. A call that does not come back, as of a library that blocks, is let
// go by the abort alone: then, and only then, the abort runs beside it. Whoever swaps raw
// out frees it: the abort, the thread that destroys it, or the thread that has made it when
// the abort had begun before there was one.
type communicator struct {
	raw    atomic.Uintptr // 0 before it is made and after it is gone
	token  chan struct{}  // has room for one
	ending chan struct{}  // closed when an abort begins; vendor.failure says why
	over   chan struct{}  // closed when it has ended
}

func newCommunicator() communicator {
	return communicator{token: make(chan struct{}, 1), ending: make(chan struct{}), over: make(chan struct{})}
}

// aborting tells whether an abort has begun.
func (c *communicator) aborting() bool {
	select {
	case <-c.ending:
		return true
	default:
		return false
	}
}

// within calls into the library, on the thread, and returns the function's code. Once an
// abort has begun it calls nothing and returns why: a group that is open then ends with the
// thread.
func (v *vendor) within(f func(comm uintptr) uintptr) (int32, error) {
	select {
	case v.token <- struct{}{}:
	case <-v.ending:
		return 0, v.Err()
	}
	defer func() { <-v.token }()
	if v.aborting() { // both were ready
		return 0, v.Err()
	}
	return int32(f(v.raw.Load())), nil
}

// do calls into the library, and waits if that has only begun.
func (v *vendor) do(ctx context.Context, name string, f func(comm uintptr) uintptr) error {
	code, err := v.within(f)
	if err != nil {
		return err
	}
	return v.pending(ctx, name, code)
}

// configMagic and configVersion are of ncclConfig_t as NCCL 2.14 has it, of which later
// libraries take what is there (src/init.cc, parseCommConfig): its size, NCCL_API_MAGIC, the
// version, and whether calls block.
const (
	configMagic   = 0xcafebeef
	configVersion = 21400
	configBytes   = 24
)

// join makes the communicator. A library that can is told not to block.
func (v *vendor) join(ctx context.Context, id []byte) error {
	at := v.page.Addr()
	copy(v.page.Bytes(), id)
	comm, config := at+256, at+512
	before := []uintptr{uintptr(comm), uintptr(v.size)}
	name, fn, after := "ncclCommInitRank", v.lib.commInitRank, []uintptr{uintptr(v.rank)}
	if v.lib.commInitRankConfig != 0 {
		*at64(config) = configBytes
		words := memory.Slice[uint32](config+8, 3)
		words[0], words[1], words[2] = configMagic, configVersion, 0
		name, fn, after = "ncclCommInitRankConfig", v.lib.commInitRankConfig, append(after, uintptr(config))
	}
	args := byValue(before, uintptr(at), idBytes, after)
	return v.await(ctx, name, func() error {
		code, err := v.within(func(uintptr) uintptr {
			code := call(fn, args...)
			v.raw.Store(uintptr(*at64(comm)))
			return code
		})
		if err != nil {
			return err
		}
		if v.aborting() { // which may have found none
			if raw := v.raw.Swap(0); raw != 0 {
				call(v.lib.commAbort, raw)
			}
			return v.Err()
		}
		return v.pending(ctx, name, code)
	})
}

func at64(addr uint64) *uint64 { return &memory.Slice[uint64](addr, 1)[0] }

// destroy ends the communicator, of which an abort is left what cannot be finalized.
func (v *vendor) destroy(ctx context.Context) error {
	if v.lib.commFinalize != 0 { // which a communicator that does not block needs first
		if err := v.do(ctx, "ncclCommFinalize", func(comm uintptr) uintptr { return call(v.lib.commFinalize, comm) }); err != nil {
			return err
		}
	}
	code, err := v.within(func(uintptr) uintptr { return call(v.lib.commDestroy, v.raw.Swap(0)) })
	if err != nil {
		return err
	}
	return v.code("ncclCommDestroy", code)
}

// pollEvery is the pause between two looks at what a library does: short beside the time that
// it takes to make a communicator, and long beside a look.
const pollEvery = 20 * time.Microsecond

// pending makes an error of a code, and waits if the library has only begun.
func (v *vendor) pending(ctx context.Context, name string, code int32) error {
	if code == inProgress {
		name += ", by ncclCommGetAsyncError,"
	}
	for code == inProgress {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		var err error
		if code, err = v.asynchronous(); err != nil {
			return err
		}
		if code == inProgress {
			time.Sleep(pollEvery)
		}
	}
	return v.code(name, code)
}

// asynchronous asks for the communicator's state: in progress, well, or an error of what went
// on meanwhile.
func (v *vendor) asynchronous() (int32, error) {
	at := v.page.Addr() + 1024
	code, err := v.within(func(comm uintptr) uintptr { return call(v.lib.commGetAsyncError, comm, uintptr(at)) })
	if err == nil {
		err = v.code("ncclCommGetAsyncError", code)
	}
	if err != nil {
		return 0, err
	}
	return memory.Slice[int32](at, 1)[0], nil
}

// code makes an error of what a function has returned.
func (v *vendor) code(name string, code int32) error {
	if code == success {
		return nil
	}
	e := &Error{Backend: v.name, Call: name, Code: int(code), Text: stringOf(call(v.lib.getErrorString, uintptr(code)))}
	if v.lib.getLastError != 0 {
		e.Last = stringOf(call(v.lib.getLastError, 0)) // it looks at no communicator (nccl.h), and that may be gone
	}
	return e
}

// How long an abort waits for a call to come back: one that does not block takes microseconds,
// but its thread may wait for a processor. And how long it may take itself: it frees what a
// device uses.
const (
	callPatience  = time.Second
	abortPatience = 5 * time.Second
)

// abort ends what the communicator does, once, and keeps why. It returns when that is over,
// whoever has begun it.
func (v *vendor) abort(why error) {
	v.mu.Lock()
	first := v.failure == nil
	if first && v.closed {
		v.mu.Unlock()
		return
	}
	if first {
		v.failure = fmt.Errorf("%s: aborted: %w", v.name, why)
	}
	v.mu.Unlock()
	if !first {
		<-v.over
		return
	}
	defer close(v.over)
	close(v.ending)
	select {
	case v.token <- struct{}{}:
	case <-time.After(callPatience):
	}
	raw := v.raw.Swap(0)
	if raw == 0 {
		return
	}
	// On a thread of its own, as the communicator's may be within the library.
	other := newThread(v.device)
	defer other.end()
	select {
	case o := <-other.run(func() error { return v.code("ncclCommAbort", int32(call(v.lib.commAbort, raw))) }):
		if o.err == nil {
			return
		}
		v.mu.Lock()
		v.kept = o.err
		v.mu.Unlock()
	case <-time.After(abortPatience):
	}
	v.strand()
}

// strand has what the library may still be at work on left to it.
func (v *vendor) strand() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stuck = true
}
