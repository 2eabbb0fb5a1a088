//go:build !nodl

package ibv

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ebitengine/purego"

	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// pollBatch is how many completions one call of ibv_poll_cq takes at most: those
// of a burst, in memory of less than a page.
const pollBatch = 64

// cq is a completion queue (struct ibv_cq).
type cq struct {
	ctx     *Context
	channel *channel
	handle  uintptr
	cookie  uintptr
	size    int
	users   int         // queue pairs; each counts once a side; guarded by ctx.mu
	overrun atomic.Bool // set by the device's event

	mu     sync.Mutex // guards polling and arming, and all below
	closed bool       // changes with ctx.mu held, too
	block  *memory.Block
	wc     []cWC
	poll   [3]uintptr // arguments of poll_cq and req_notify_cq
	notify [2]uintptr
}

func (c *Context) CreateCQ(cqe int, ch verbs.CompChannel) (verbs.CQ, error) {
	if cqe < 1 || cqe > c.limits.MaxCQE {
		return nil, fmt.Errorf("create completion queue of %d: %w: expected 1 to %d", cqe, verbs.ErrInvalid, c.limits.MaxCQE)
	}
	q := &cq{ctx: c}
	var channelHandle uintptr
	if ch != nil {
		h, ok := ch.(*channel)
		if !ok || h.ctx != c {
			return nil, fmt.Errorf("create completion queue: %w: the completion channel is of another context", verbs.ErrInvalid)
		}
		q.channel, channelHandle = h, h.handle
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.live(); err != nil {
		return nil, err
	}
	if q.channel != nil && q.channel.closed.Load() {
		return nil, fmt.Errorf("create completion queue: completion channel: %w", verbs.ErrClosed)
	}
	block, err := memory.Alloc(pollBatch * uint64(wcSize))
	if err != nil {
		return nil, fmt.Errorf("create completion queue: %w", err)
	}
	q.block, q.wc = block, memory.Slice[cWC](block.Addr(), pollBatch)
	q.cookie = c.lastCookie.Add(1)
	c.queues.Store(q.cookie, q)
	handle, errno := c.lib.errno(c.lib.createCQ, c.handle, uintptr(cqe), q.cookie, channelHandle, 0)
	if handle == 0 {
		c.queues.Delete(q.cookie)
		_ = block.Free()
		return nil, failed(errno, "create completion queue of %d on %s (ibv_create_cq)", cqe, c.device.Name())
	}
	q.handle, q.size = handle, int(at[cCQ](handle).cqe)
	q.poll = [3]uintptr{handle, 0, addr(block)}
	q.notify = [2]uintptr{handle, 0}
	c.children++
	if q.channel != nil {
		q.channel.users++
	}
	return q, nil
}

// queue finds a queue by its cookie; nil once it is closed.
func (c *Context) queue(cookie uintptr) *cq {
	found, _ := c.queues.Load(cookie)
	q, _ := found.(*cq)
	return q
}

func (q *cq) Poll(wc []verbs.Completion) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0, fmt.Errorf("poll completion queue: %w", verbs.ErrClosed)
	}
	want := min(len(wc), pollBatch)
	if want == 0 {
		return 0, nil
	}
	q.poll[1] = uintptr(want)
	r, _, _ := purego.SyscallN(q.ctx.ops.pollCQ, q.poll[:]...)
	n := int(int32(r))
	switch {
	case n < 0:
		return 0, fmt.Errorf("poll completion queue: %w: ibv_poll_cq returned %d, which is no errno", verbs.ErrInvalid, n)
	case n == 0 && q.overrun.Load():
		return 0, fmt.Errorf("completion queue of %d: %w; create it larger or poll more often", q.size, verbs.ErrOverrun)
	}
	for i := range n {
		from, to := &q.wc[i], &wc[i]
		*to = verbs.Completion{ID: from.id, Status: verbs.Status(from.status), QPN: from.qpNum, VendorErr: from.vendorErr}
		if from.status != 0 { // nothing else is valid then (ibv_poll_cq(3))
			continue
		}
		to.Opcode, to.ByteLen = verbs.WCOpcode(from.opcode), from.byteLen
		if to.Flags = verbs.WCFlags(from.flags) & verbs.WCWithImm; to.Flags != 0 {
			to.Imm = bits.ReverseBytes32(from.imm)
		}
	}
	return n, nil
}

func (q *cq) ReqNotify(solicitedOnly bool) error {
	if q.channel == nil {
		return fmt.Errorf("arm completion queue: %w: it was created without a completion channel", verbs.ErrInvalid)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return fmt.Errorf("arm completion queue: %w", verbs.ErrClosed)
	}
	q.notify[1] = 0
	if solicitedOnly {
		q.notify[1] = 1
	}
	r, _, _ := purego.SyscallN(q.ctx.ops.reqNotifyCQ, q.notify[:]...)
	if e := result(r); e != 0 {
		return failed(e, "arm completion queue (ibv_req_notify_cq)")
	}
	return nil
}

func (q *cq) Close() error {
	c := q.ctx
	c.mu.Lock()
	defer c.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return nil
	case q.users > 0:
		return fmt.Errorf("close completion queue: %w: %d queue pairs use it", verbs.ErrBusy, q.users)
	}
	// From here on no event finds the queue; one that was read before is
	// acknowledged by its reader, which the library waits for.
	c.queues.Delete(q.cookie)
	if e := destroyed(call(c.lib.destroyCQ, q.handle)); e != 0 {
		return failed(e, "close completion queue (ibv_destroy_cq)")
	}
	q.closed = true
	c.children--
	if q.channel != nil {
		q.channel.users--
	}
	return q.block.Free()
}

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
