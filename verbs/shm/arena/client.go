package arena

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/verbs/memory"
)

// ErrGone is the error of asking a process that has ended or has closed its hub.
var ErrGone = errors.New("is gone")

// ErrNoHub is the error of dialling a key that no process listens to.
var ErrNoHub = errors.New("no process listens")

// patience is the deadline of a call whose context has none.
const patience = 10 * time.Second

// bounded gives ctx a deadline if it has none.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, patience)
}

// client is a connection to another hub, and the views that came through it. All
// Peers of one key share it.
type client struct {
	hub   *Hub
	key   Key
	ready chan struct{} // closed when dialling has ended; then conn and why, or err
	conn  *conn
	err   error // why there is no connection
	why   error // why the peer's memory cannot be read in place; nil if it can
	users int   // Peers, and callers that wait for ready; guarded by hub.mu

	gone chan struct{} // closed when the connection has ended

	mu      sync.RWMutex // guards what follows
	views   map[viewKey]*view
	retired []*memory.Block // views that their owner freed, now zeros, oldest first
	reason  error           // why the connection has ended
	bye     bool            // the peer said that its hub closes
	closed  error           // set once the views are unmapped
}

type viewKey struct {
	id       uint64
	writable bool
}

// view is the peer's memory as it lies here.
type view struct {
	done  chan struct{} // closed when the answer has come; then block or err
	block *memory.Block
	err   error
}

// maxRetired is how many freed views stay mapped as zeros: enough that a reader
// that is in the middle of an operation never loses the memory under it, few
// enough that address space does not grow with each buffer a peer ever had.
const maxRetired = 64

func newClient(h *Hub, key Key) *client {
	return &client{
		hub: h, key: key, users: 1,
		ready: make(chan struct{}), gone: make(chan struct{}), views: make(map[viewKey]*view),
	}
}

// dial connects and awaits the other hub's hello.
func (cl *client) dial(ctx context.Context) error {
	sock, err := cl.connect(ctx)
	if err != nil {
		return err
	}
	c, err := newConn(sock)
	var m message
	if err == nil {
		m, err = greet(ctx, c)
	}
	if err != nil {
		_ = sock.Close()
		return fmt.Errorf("dial hub %s: %w", cl.key, err)
	}
	cl.conn, cl.why = c, probeMemory(c, m)
	return nil
}

func (cl *client) connect(ctx context.Context) (*net.UnixConn, error) {
	for {
		sock, err := new(net.Dialer).DialContext(ctx, "unixpacket", cl.key.address().Name)
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
			return nil, fmt.Errorf("dial hub %s: %w there: the process has ended or is in another network namespace; start it and connect again", cl.key, ErrNoHub)
		case err != nil:
			return nil, fmt.Errorf("dial hub %s: its process accepts no connections: %w", cl.key, err)
		}
		return sock.(*net.UnixConn), nil
	}
}

// greet awaits the hello of a listener.
func greet(ctx context.Context, c *conn) (message, error) {
	begun := time.Now()
	stop := context.AfterFunc(ctx, func() { _ = c.sock.SetReadDeadline(time.Unix(1, 0)) })
	m, err := receive(c.sock)
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
func (cl *client) read() {
	for {
		m, err := receive(cl.conn.sock)
		if errors.Is(err, unix.ECONNRESET) {
			continue // it ended with something of ours unread; first what it said, then EOF
		}
		if err != nil {
			cl.end(err)
			return
		}
		switch m.kind {
		case kindView:
			cl.attach(m)
		case kindRefused:
			cl.resolve(viewKey{m.id, m.writable}, nil, errors.New(m.text))
		case kindFreed:
			cl.retire(m.id)
		case kindBye:
			cl.mu.Lock()
			cl.bye = true
			cl.mu.Unlock()
		}
	}
}

// end is what happens once when the connection ends. Views stay: what is mapped
// outlives the process that made it.
func (cl *client) end(err error) {
	cl.hub.mu.Lock()
	if cl.hub.clients[cl.key] == cl {
		delete(cl.hub.clients, cl.key) // the next Dial makes a new connection
	}
	cl.hub.mu.Unlock()

	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.reason == nil {
		switch {
		case cl.bye:
			cl.reason = fmt.Errorf("%s %w: it closed its hub", cl.conn.name(), ErrGone)
		case errors.Is(err, io.EOF):
			cl.reason = fmt.Errorf("%s %w: it ended", cl.conn.name(), ErrGone)
		default:
			cl.reason = fmt.Errorf("%s %w: %w", cl.conn.name(), ErrGone, err)
		}
	}
	for k, v := range cl.views {
		if v.block == nil {
			delete(cl.views, k)
			v.err = cl.reason
			close(v.done)
		}
	}
	close(cl.gone)
	cl.conn.close()
}

// view returns the peer's arena as it lies here, asking for it at first.
func (cl *client) view(ctx context.Context, k viewKey) (addr uint64, length int, err error) {
	cl.mu.RLock()
	v, closed := cl.views[k], cl.closed
	if closed == nil && v != nil && v.block != nil {
		addr, length = v.block.Addr(), v.block.Len()
		cl.mu.RUnlock()
		return addr, length, nil
	}
	cl.mu.RUnlock()

	if v, err = cl.ask(k); err == nil {
		ctx, cancel := bounded(ctx)
		defer cancel()
		begun := time.Now()
		select {
		case <-v.done:
			addr, length, err = cl.answer(v)
		case <-ctx.Done():
			err = fmt.Errorf("awaited its descriptor from %s for %v: %w (is it stopped?)", cl.conn.name(), time.Since(begun).Round(time.Millisecond), context.Cause(ctx))
		}
	}
	if err != nil {
		return 0, 0, fmt.Errorf("map arena %d of %s: %w", k.id, cl.conn.name(), err)
	}
	return addr, length, nil
}

// ask returns the view of k: an earlier one, or one whose answer will come.
func (cl *client) ask(k viewKey) (*view, error) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	v := cl.views[k]
	switch {
	case cl.closed != nil:
		return nil, cl.closed
	case v != nil:
		return v, nil
	case cl.reason != nil:
		return nil, cl.reason
	}
	v = &view{done: make(chan struct{})}
	cl.views[k] = v
	cl.conn.send(message{kind: kindMap, id: k.id, writable: k.writable, fd: -1})
	return v, nil
}

func (cl *client) answer(v *view) (addr uint64, length int, err error) {
	cl.mu.RLock()
	defer cl.mu.RUnlock()
	if v.err != nil {
		return 0, 0, v.err
	}
	return v.block.Addr(), v.block.Len(), nil
}

// attach maps what the peer has sent a descriptor of.
func (cl *client) attach(m message) {
	block, err := mapView(m)
	if m.fd >= 0 {
		_ = unix.Close(m.fd)
	}
	cl.resolve(viewKey{m.id, m.writable}, block, err)
}

func mapView(m message) (*memory.Block, error) {
	if m.fd < 0 {
		return nil, errors.New("its descriptor did not come through: this process has as many open files as it may; close files or raise the limit (ulimit -n)")
	}
	// A file that can shrink or is too short would kill a process that reads beyond its end.
	seals, err := unix.FcntlInt(uintptr(m.fd), unix.F_GET_SEALS, 0)
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 {
		return nil, errors.New("its descriptor is not sealed against shrinking; run one version on all ranks")
	}
	var stat unix.Stat_t
	if err := unix.Fstat(m.fd, &stat); err != nil {
		return nil, fmt.Errorf("fstat: %w", err)
	}
	if size, ok := memory.RoundUp(m.length); !ok || uint64(stat.Size) < size {
		return nil, fmt.Errorf("its file has %d bytes, want at least %d; run one version on all ranks", stat.Size, m.length)
	}
	block, err := memory.MapFile(m.fd, m.length, m.writable)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, advice(err))
	}
	return block, nil
}

// resolve gives the callers that wait for k its view, or the reason why there is none.
func (cl *client) resolve(k viewKey, block *memory.Block, err error) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	v := cl.views[k]
	if v == nil || v.block != nil { // nobody asked, or the client is closed
		_ = block.Free()
		return
	}
	if v.block, v.err = block, err; err != nil {
		delete(cl.views, k)
	}
	close(v.done)
}

// retire takes the views of an arena that its owner has freed. A process that
// still reads them reads zeros.
func (cl *client) retire(id uint64) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	for _, k := range []viewKey{{id, false}, {id, true}} {
		v := cl.views[k]
		if v == nil || v.block == nil {
			continue // its refusal is on the way
		}
		delete(cl.views, k)
		// Where the kernel refuses, the peer's memory stays until the client closes.
		_ = v.block.Blank()
		cl.retired = append(cl.retired, v.block)
	}
	for len(cl.retired) > maxRetired {
		_ = cl.retired[0].Free()
		cl.retired = cl.retired[1:]
	}
}

// close ends the connection, for that reason, and unmaps the views.
func (cl *client) close(reason error) error {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.closed != nil {
		return nil
	}
	cl.conn.send(message{kind: kindBye, fd: -1})
	cl.conn.close()
	cl.closed = reason
	if cl.reason == nil {
		cl.reason = reason
	}
	var err error
	for k, v := range cl.views {
		delete(cl.views, k)
		if v.block == nil {
			v.err = reason
			close(v.done)
			continue
		}
		err = errors.Join(err, v.block.Free())
	}
	for _, b := range cl.retired {
		err = errors.Join(err, b.Free())
	}
	cl.retired = nil
	return err
}
