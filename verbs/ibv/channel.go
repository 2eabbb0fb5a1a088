//go:build !nodl

package ibv

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// channel is a completion channel (struct ibv_comp_channel).
type channel struct {
	ctx    *Context
	handle uintptr
	users  int         // completion queues; guarded by ctx.mu
	closed atomic.Bool // changes with ctx.mu held; nothing is read after
	file   *os.File
	raw    syscall.RawConn

	waiting sync.Mutex // held while waiting: the file has one deadline

	mu    sync.Mutex    // guards reading an event
	block *memory.Block // {struct ibv_cq *, void *cq_context}
}

// CreateCompChannel implements verbs.Context.
func (c *Context) CreateCompChannel() (verbs.CompChannel, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.live(); err != nil {
		return nil, err
	}
	block, err := memory.Alloc(16)
	if err != nil {
		return nil, fmt.Errorf("create completion channel: %w", err)
	}
	handle, errno := c.lib.errno(c.lib.createCompChannel, c.handle)
	if handle == 0 {
		_ = block.Free()
		return nil, failed(errno, "create completion channel on %s (ibv_create_comp_channel)", c.device.Name())
	}
	h := &channel{ctx: c, handle: handle, block: block}
	h.file, h.raw, err = pollable(at[cCompChannel](handle).fd, "completion channel")
	if err != nil {
		call(c.lib.destroyCompChannel, handle)
		_ = block.Free()
		return nil, fmt.Errorf("create completion channel on %s: %w", c.device.Name(), err)
	}
	c.children++
	return h, nil
}

// take reads an event that is there, and acknowledges it. A queue that was closed
// meanwhile has none. ok tells whether there was one.
func (h *channel) take() (q *cq, ok bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed.Load() {
		return nil, false, fmt.Errorf("wait for a completion event: %w", verbs.ErrClosed)
	}
	l := h.ctx.lib
	event := memory.Slice[uintptr](h.block.Addr(), 2)
	r, errno := l.errno(l.getCQEvent, h.handle, addr(h.block), addr(h.block)+8)
	if int32(r) != 0 {
		if errno == syscall.EAGAIN || errno == syscall.EINTR {
			return nil, false, nil
		}
		return nil, false, failed(errno, "wait for a completion event (ibv_get_cq_event)")
	}
	call(l.ackCQEvents, event[0], 1)
	return h.ctx.queue(event[1]), true, nil
}

// GetEvent implements verbs.CompChannel.
func (h *channel) GetEvent(timeout time.Duration) (verbs.CQ, error) {
	deadline := time.Now().Add(timeout)
	h.waiting.Lock()
	defer h.waiting.Unlock()
	for {
		var q *cq
		var ok bool
		var err error
		if q, ok, err = h.take(); !ok && err == nil {
			if err = h.file.SetReadDeadline(deadline); err == nil {
				wait := h.raw.Read(func(uintptr) bool {
					q, ok, err = h.take()
					return ok || err != nil
				})
				if err == nil {
					err = wait
				}
			}
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, verbs.ErrTimeout
		case err != nil && h.closed.Load(): // the poller's own error is not os.ErrClosed
			return nil, fmt.Errorf("wait for a completion event: %w", verbs.ErrClosed)
		case err != nil:
			return nil, err
		case q != nil:
			return q, nil
		}
	}
}

// Close implements verbs.CompChannel. Closing twice is harmless.
func (h *channel) Close() error {
	c := h.ctx
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case h.closed.Load():
		return nil
	case h.users > 0:
		return fmt.Errorf("close completion channel: %w: %d completion queues use it", verbs.ErrBusy, h.users)
	}
	h.closed.Store(true)
	// Close wakes a goroutine that waits, and waits for one that reads in the poller,
	// which may want h.mu: so it is taken only then, for reads outside the poller.
	_ = h.file.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	c.children--
	_ = h.block.Free()
	if e := destroyed(call(c.lib.destroyCompChannel, h.handle)); e != 0 {
		return failed(e, "close completion channel (ibv_destroy_comp_channel)")
	}
	return nil
}
