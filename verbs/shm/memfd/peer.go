package memfd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/verbs/memory"
)

// ErrGone is the error of asking a process that has ended or has closed its hub.
var ErrGone = errors.New("is gone")

// ErrNoHub is the error of dialling a key that no process listens to.
var ErrNoHub = errors.New("no process listens")

// Peer is another process, or this one, as seen through a hub: a connection to its
// hub, and the views that came through it. Its methods may be called by any
// goroutine, but for Close while views are in use.
type Peer struct {
	hub    *Hub
	conn   *conn
	why    error           // why the peer's memory cannot be read in place; nil if it can
	ctx    context.Context // ends with the connection; its cause is the reason
	cancel context.CancelCauseFunc
	recent atomic.Pointer[[]recent] // replaced with mu held, read without

	mu      sync.Mutex // guards what follows
	views   map[viewKey]*view
	held    map[uint64]*view // views that their owner freed, now zeros, and that somebody holds
	retired []*memory.Block  // the same that nobody holds, oldest first
	bye     bool             // the peer said that its hub closes
	closed  bool             // the views are unmapped
}

// Dial connects to the process that listens to key; ctx has a deadline.
// ErrNoHub: nobody listens there.
func (h *Hub) Dial(ctx context.Context, key Key) (*Peer, error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(h.ctx, end)()
	p, err := h.dial(ctx, key)

	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		if p != nil {
			_ = p.conn.sock.Close()
		}
		err = fmt.Errorf("hub %s is %w", h.key, ErrClosed)
	}
	if err != nil {
		return nil, fmt.Errorf("dial hub %s: %w", key, err)
	}
	h.open[p] = struct{}{}
	h.running.Go(p.conn.write)
	h.running.Go(p.read)
	return p, nil
}

// dial connects and awaits the other hub's hello.
func (h *Hub) dial(ctx context.Context, key Key) (*Peer, error) {
	sock, err := connect(ctx, key)
	if err != nil {
		return nil, err
	}
	c, err := newConn(sock)
	var m message
	if err == nil {
		m, err = greet(ctx, c)
	}
	if err != nil {
		_ = sock.Close()
		return nil, err
	}
	p := &Peer{hub: h, conn: c, why: probeMemory(c, m), views: make(map[viewKey]*view), held: make(map[uint64]*view)}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	p.recent.Store(new([]recent))
	return p, nil
}

func connect(ctx context.Context, key Key) (*net.UnixConn, error) {
	for {
		sock, err := new(net.Dialer).DialContext(ctx, "unixpacket", key.address().Name)
		if errors.Is(err, syscall.EAGAIN) { // its queue of diallers is full
			select {
			case <-time.After(5 * time.Millisecond):
				continue
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		switch {
		case errors.Is(err, unix.ECONNREFUSED):
			return nil, fmt.Errorf("%w there: the process has ended or is in another network namespace; start it and connect again", ErrNoHub)
		case err != nil:
			return nil, fmt.Errorf("its process accepts no connections: %w", err)
		}
		return sock.(*net.UnixConn), nil
	}
}

// greet awaits the hello of a listener.
func greet(ctx context.Context, c *conn) (message, error) {
	begun := time.Now()
	stop := context.AfterFunc(ctx, func() { _ = c.sock.SetReadDeadline(time.Unix(1, 0)) })
	m, err := receive(c.sock)
	defer discard(m) // a hello has no descriptor
	if !stop() {
		return m, fmt.Errorf("awaited the greeting of %s for %v: %w (is it stopped?)", c.name(), time.Since(begun).Round(time.Millisecond), context.Cause(ctx))
	}
	switch {
	case err != nil:
		return m, fmt.Errorf("await the greeting of %s: %w", c.name(), err)
	case m.kind == kindRefused:
		return m, fmt.Errorf("refused: %s", m.text)
	case m.kind != kindHello:
		return m, fmt.Errorf("%s greets with a message of kind %d, want %d; run one version on all ranks", c.name(), m.kind, kindHello)
	}
	return m, nil
}

// read is the goroutine that takes what the peer says, until the end.
func (p *Peer) read() {
	for {
		m, err := receive(p.conn.sock)
		if errors.Is(err, unix.ECONNRESET) {
			continue // it ended with something of ours unread; first what it said, then EOF
		}
		if err != nil {
			p.end(err)
			p.hub.OnChange()
			return
		}
		switch m.kind {
		case kindView:
			p.attach(m)
		case kindRefused:
			p.resolve(viewKey{m.id, m.writable}, nil, errors.New(m.text))
		case kindFreed:
			p.retire(m.id)
		case kindBye:
			p.mu.Lock()
			p.bye = true
			p.mu.Unlock()
		}
		p.hub.OnChange()
	}
}

// end is what happens once when the connection ends. Views stay: what is mapped
// outlives the process that made it.
func (p *Peer) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.bye:
		err = fmt.Errorf("%s %w: it closed its hub", p.conn.name(), ErrGone)
	case errors.Is(err, io.EOF):
		err = fmt.Errorf("%s %w: it ended", p.conn.name(), ErrGone)
	default:
		err = fmt.Errorf("%s %w: %w", p.conn.name(), ErrGone, err)
	}
	p.hangUp(err)
}

// hangUp ends the connection, for that reason if it is the first, and what waits for
// an answer. The lock is held.
func (p *Peer) hangUp(reason error) {
	p.cancel(reason)
	p.conn.close()
	for k, v := range p.views {
		if v.block == nil {
			delete(p.views, k)
			v.err = p.Err()
			close(v.done)
		}
	}
}

// Close ends the connection and unmaps the views that came through it. Closing
// twice is harmless.
func (p *Peer) Close() error {
	p.hub.mu.Lock()
	delete(p.hub.open, p)
	p.hub.mu.Unlock()
	return p.close(fmt.Errorf("the peer is %w", ErrClosed))
}

// close ends the connection, for that reason, and unmaps the views.
func (p *Peer) close(reason error) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	p.conn.send(message{kind: kindBye, fd: -1})
	p.hangUp(reason)
	for _, v := range p.views {
		p.retired = append(p.retired, v.block)
	}
	for _, v := range p.held {
		p.retired = append(p.retired, v.block)
	}
	clear(p.views)
	clear(p.held)
	for _, b := range p.retired {
		err = errors.Join(err, b.Free())
	}
	p.retired = nil
	return err
}

// Gone reports whether the process has ended, which is noticed at once, or its hub
// or this Peer is closed. Views outlive the process.
func (p *Peer) Gone() bool { return p.ctx.Err() != nil }

// Err says why the peer is gone, nil while it is not.
func (p *Peer) Err() error { return context.Cause(p.ctx) }

// probe is a word of this process by which a peer tries whether it can read this
// process's memory, and whether the PID it sees is this process's.
var probe = []uint64{rand.Uint64() | 1}

func hello() message {
	return message{kind: kindHello, length: memory.Addr(probe), value: probe[0], fd: -1}
}

// probeMemory says why the memory of the process that greeted with m cannot be
// read in place, nil if it can.
func probeMemory(c *conn, m message) error {
	if c.pid == 0 {
		return errors.New("it is in another PID namespace")
	}
	var word [1]uint64
	if err := readMemory(c.pid, memory.AsBytes(word[:]), m.length); err != nil {
		return fmt.Errorf("process_vm_readv: %w (kernel.yama.ptrace_scope or a container may forbid it)", err)
	}
	if word[0] != m.value {
		return errors.New("its PID here is another process's")
	}
	return nil
}

// CanReadMemory says whether ReadMemory works; it was tried when the peer was
// dialled. Yama and containers often forbid it.
func (p *Peer) CanReadMemory() bool { return p.why == nil }

// ReadMemory copies the peer's bytes at addr, in whatever memory they lie, into
// dst (process_vm_readv(2)). It needs nothing of the peer: it may be stopped.
// What dst holds after an error is not defined.
func (p *Peer) ReadMemory(dst []byte, addr uint64) error {
	if p.why != nil {
		return fmt.Errorf("read %d bytes of %s: %w", len(dst), p.conn.name(), p.why)
	}
	err := readMemory(p.conn.pid, dst, addr)
	// Only while the connection stands is the PID surely the peer's; numbers are
	// not used again so soon that one could be in the time of a copy.
	if p.Gone() {
		err = p.Err()
	}
	if err != nil {
		return fmt.Errorf("read %d bytes at %#x of %s: %w", len(dst), addr, p.conn.name(), err)
	}
	return nil
}

func readMemory(pid int, dst []byte, addr uint64) error {
	for len(dst) > 0 { // the kernel copies up to 2 GiB at a time, and up to a hole
		local := [1]unix.Iovec{{Base: &dst[0], Len: uint64(len(dst))}}
		remote := [1]unix.RemoteIovec{{Base: uintptr(addr), Len: len(dst)}}
		n, err := unix.ProcessVMReadv(pid, local[:], remote[:], 0)
		if err != nil {
			return err
		}
		if n == 0 {
			return unix.EFAULT
		}
		dst, addr = dst[n:], addr+uint64(n)
	}
	return nil
}
