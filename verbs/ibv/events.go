//go:build !nodl

package ibv

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// pollable makes a descriptor of the library's non-blocking and returns a file
// that waits for it in Go's poller. It is a duplicate: the library closes its own.
func pollable(fd int32, name string) (*os.File, syscall.RawConn, error) {
	if err := unix.SetNonblock(int(fd), true); err != nil {
		return nil, nil, fmt.Errorf("%s: make it non-blocking: %w", name, err)
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: duplicate the descriptor: %w", name, err)
	}
	f := os.NewFile(uintptr(own), name)
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, raw, nil
}

// events reads the asynchronous events of a context on a goroutine that ends
// before stop returns.
type events struct {
	ctx   *Context
	file  *os.File
	raw   syscall.RawConn
	tell  func(verbs.AsyncEvent)
	block *memory.Block // a struct ibv_async_event; the goroutine's own
	done  chan struct{}
}

// listen starts to read events. They are read even if nobody wants to be told: a
// completion queue learns of its overrun in no other way.
func (c *Context) listen(tell func(verbs.AsyncEvent)) (*events, error) {
	e := &events{ctx: c, tell: tell, done: make(chan struct{})}
	var err error
	if e.block, err = memory.Alloc(64); err != nil {
		return nil, err
	}
	if e.file, e.raw, err = pollable(at[cContext](c.handle).asyncFD, c.device.Name()+" events"); err != nil {
		_ = e.block.Free()
		return nil, err
	}
	go e.run()
	return e, nil
}

func (e *events) stop() {
	_ = e.file.Close() // wakes the goroutine
	<-e.done
	_ = e.block.Free()
}

func (e *events) run() {
	defer close(e.done)
	for {
		var event verbs.AsyncEvent
		var failure syscall.Errno
		err := e.raw.Read(func(uintptr) bool {
			event, failure = e.next()
			return failure != syscall.EAGAIN && failure != syscall.EINTR
		})
		if err != nil || failure != 0 { // closed, or the device is gone
			if failure != 0 && !errors.Is(err, os.ErrClosed) {
				trace.Debug(trace.Verbs, "asynchronous events end", slog.String("device", e.ctx.device.Name()), slog.String("error", failure.Error()))
			}
			return
		}
		trace.Debug(trace.Verbs, "asynchronous event", slog.String("device", e.ctx.device.Name()), slog.String("event", event.String()))
		if e.tell != nil {
			e.tell(event)
		}
	}
}

// next reads one event, and acknowledges it before anybody hears of it: closing
// the object that it is about waits for that.
func (e *events) next() (verbs.AsyncEvent, syscall.Errno) {
	c := e.ctx
	r, errno := c.lib.errno(c.lib.getAsyncEvent, c.handle, addr(e.block))
	if int32(r) != 0 {
		if errno == 0 {
			errno = syscall.EIO
		}
		return verbs.AsyncEvent{}, errno
	}
	raw := at[cAsyncEvent](addr(e.block))
	event := verbs.AsyncEvent{Type: verbs.EventType(raw.eventType)}
	switch event.Type {
	case verbs.EventCQErr:
		if q := c.queue(at[cCQ](raw.element).cookie); q != nil {
			q.overrun.Store(true)
		}
	case verbs.EventQPFatal, verbs.EventQPReqErr, verbs.EventQPAccessErr, verbs.EventCommEst, verbs.EventSQDrained,
		verbs.EventPathMig, verbs.EventPathMigErr, verbs.EventQPLastWQEReached:
		event.QPN = at[cQP](raw.element).num
	case verbs.EventPortActive, verbs.EventPortErr, verbs.EventLIDChange, verbs.EventPKeyChange, verbs.EventSMChange,
		verbs.EventClientReregister, verbs.EventGIDChange:
		event.Port = int(int32(raw.element))
	}
	call(c.lib.ackAsyncEvent, addr(e.block))
	return event, 0
}
