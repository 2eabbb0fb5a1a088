//go:build !nodl

package ibv

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// Context is an open RDMA device (struct ibv_context).
type Context struct {
	lib    *library
	device device
	handle uintptr // struct ibv_context
	ops    *cOps
	limits verbs.DeviceAttr
	events *events

	mu       sync.Mutex    // guards the tree of objects: their children, users and closing
	children int           // protection domains, completion queues and channels
	closed   atomic.Bool   // changes with mu held
	scratch  *memory.Block // for queries and creation, with mu held

	// queues are the completion queues by their cookie, which events bring back.
	// A cookie is used once, so that an event of a queue that was closed finds none.
	queues     sync.Map // of *cq
	lastCookie atomic.Uintptr
}

// open opens a device of the library's list.
func (l *library) open(d device, dev uintptr, o verbs.OpenOptions) (*Context, error) {
	transport := at[cDevice](dev).transport
	handle, errno := l.errno(l.openDevice, dev)
	if handle == 0 {
		return nil, opening(d, errno)
	}
	c := &Context{lib: l, device: d, handle: handle, ops: &at[cContext](handle).ops}
	var err error
	if c.scratch, err = memory.Alloc(uint64(os.Getpagesize())); err == nil {
		if c.limits, err = c.queryDevice(transport); err == nil {
			c.events, err = c.listen(o.OnEvent)
		}
	}
	if err != nil {
		_ = c.scratch.Free()
		call(l.closeDevice, handle)
		return nil, err
	}
	return c, nil
}

// opening is the error of a device that could not be opened, to which callers add its
// name. libibverbs looks for the device's file elsewhere if it may not open it, and
// returns what came of that: ENOENT. So the file is asked itself.
func opening(d device, errno syscall.Errno) error {
	hint := "is it still there (ringcli devices)?"
	if node := d.node(); node != "" {
		if err := unix.Access(node, unix.R_OK|unix.W_OK); err != nil {
			return fmt.Errorf("%s: %w: this user must be able to read and write it (ls -l; in a container: --device=/dev/infiniband)", node, err)
		}
	}
	if errno == syscall.EMFILE || errno == syscall.ENFILE {
		hint = "raise the limit of open files (ulimit -n)"
	}
	return fmt.Errorf("%w; %s", failed(errno, "ibv_open_device"), hint)
}

// live returns an error once the context is closed.
func (c *Context) live() error {
	if c.closed.Load() {
		return fmt.Errorf("device %s: %w", c.device.Name(), verbs.ErrClosed)
	}
	return nil
}

// zeroed is the scratch memory, cleared, as a T. The lock is held.
func zeroed[T any](b *memory.Block) *T {
	clear(b.Bytes())
	return at[T](uintptr(b.Addr()))
}

// addr is an address as C takes it.
func addr(b *memory.Block) uintptr { return uintptr(b.Addr()) }

func (c *Context) Device() verbs.Device { return c.device }

// QueryDevice implements verbs.Context. A device's attributes don't change while
// it is open.
func (c *Context) QueryDevice() (verbs.DeviceAttr, error) { return c.limits, c.live() }

func (c *Context) queryDevice(transport int32) (verbs.DeviceAttr, error) {
	a := zeroed[cDeviceAttr](c.scratch)
	if e := result(call(c.lib.queryDevice, c.handle, addr(c.scratch))); e != 0 {
		return verbs.DeviceAttr{}, failed(e, "query the device (ibv_query_device)")
	}
	return verbs.DeviceAttr{
		FirmwareVersion: unix.ByteSliceToString(a.fwVer[:]), Transport: transportName(transport),
		NodeGUID: bits.ReverseBytes64(a.nodeGUID), SysImageGUID: bits.ReverseBytes64(a.sysImageGUID),
		MaxMRSize: a.maxMRSize, PageSizeCap: a.pageSizeCap, VendorID: a.vendorID, VendorPartID: a.vendorPartID, HWVersion: a.hwVer,
		CapFlags: a.deviceCapFlags, MaxQP: int(a.maxQP), MaxQPWR: int(a.maxQPWR), MaxSGE: int(a.maxSGE), MaxSGERD: int(a.maxSGERD),
		MaxCQ: int(a.maxCQ), MaxCQE: int(a.maxCQE), MaxMR: int(a.maxMR), MaxPD: int(a.maxPD),
		MaxQPRDAtomic: int(a.maxQPRDAtom), MaxEERDAtomic: int(a.maxEERDAtom), MaxResRDAtomic: int(a.maxResRDAtom),
		MaxQPInitRDAtomic: int(a.maxQPInitRDAtom), MaxEEInitRDAtomic: int(a.maxEEInitRDAtom), AtomicCap: verbs.AtomicCap(a.atomicCap),
		MaxEE: int(a.maxEE), MaxRDD: int(a.maxRDD), MaxMW: int(a.maxMW), MaxRawIPv6QP: int(a.maxRawIPv6QP),
		MaxRawEthyQP: int(a.maxRawEthyQP), MaxMcastGrp: int(a.maxMcastGrp), MaxMcastQPAttach: int(a.maxMcastQPAttach),
		MaxTotalMcastQPAttach: int(a.maxTotalMcastQPAttach), MaxAH: int(a.maxAH), MaxFMR: int(a.maxFMR),
		MaxMapPerFMR: int(a.maxMapPerFMR), MaxSRQ: int(a.maxSRQ), MaxSRQWR: int(a.maxSRQWR), MaxSRQSGE: int(a.maxSRQSGE),
		MaxPKeys: int(a.maxPKeys), LocalCAAckDelay: int(a.localCAAckDelay), PhysPorts: int(a.physPortCnt),
	}, nil
}

// transportName names enum ibv_transport_type as ibv_devinfo does.
func transportName(t int32) string {
	names := map[int32]string{0: "InfiniBand", 1: "iWARP", 4: "unspecified"}
	return fmt.Sprintf("%s (%d)", cmp.Or(names[t], "invalid transport"), t)
}

// hasPort returns an error for a port that the device does not have.
func (c *Context) hasPort(port int) error {
	if port < 1 || port > c.limits.PhysPorts {
		return fmt.Errorf("port %d of %s: %w: expected 1 to %d", port, c.device.Name(), verbs.ErrInvalid, c.limits.PhysPorts)
	}
	return nil
}

func (c *Context) AllocPD() (verbs.PD, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.live(); err != nil {
		return nil, err
	}
	handle, errno := c.lib.errno(c.lib.allocPD, c.handle)
	if handle == 0 {
		return nil, failed(errno, "allocate a protection domain on %s (ibv_alloc_pd)", c.device.Name())
	}
	c.children++
	return &pd{ctx: c, handle: handle}, nil
}

func (c *Context) Close() error {
	c.mu.Lock()
	if c.closed.Load() {
		c.mu.Unlock()
		return nil
	}
	if n := c.children; n > 0 {
		c.mu.Unlock()
		return fmt.Errorf("close %s: %w: %d protection domains, completion queues and channels are open", c.device.Name(), verbs.ErrBusy, n)
	}
	c.closed.Store(true)
	// A call that gets the lock from here on finds the context closed. OnEvent may be
	// waiting for it, and is itself waited for.
	c.mu.Unlock()
	c.events.stop()
	_ = c.scratch.Free()
	if e := result(call(c.lib.closeDevice, c.handle)); e != 0 {
		return failed(e, "close %s (ibv_close_device)", c.device.Name())
	}
	return nil
}

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
