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

// link is a connection to another hub, and the views that came through it. All
// Peers of one key share it.
type link struct {
	hub   *Hub
	key   Key
	ready chan struct{} // closed when dialling has ended; then conn and why, or err
	conn  *conn
	err   error // why there is no connection
	why   error // why the peer's memory cannot be read in place; nil if it can
	users int   // Peers, and who waits for ready; guarded by hub.mu

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
// that is in the middle of an operation never loses the ground it stands on, few
// enough that address space does not grow with each buffer a peer ever had.
const maxRetired = 64

func newLink(h *Hub, key Key) *link {
	return &link{
		hub: h, key: key, users: 1,
		ready: make(chan struct{}), gone: make(chan struct{}), views: make(map[viewKey]*view),
	}
}

// dial connects and awaits the other hub's hello.
func (l *link) dial(ctx context.Context) error {
	sock, err := l.connect(ctx)
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
		return fmt.Errorf("dial hub %s: %w", l.key, err)
	}
	l.conn, l.why = c, probeMemory(c, m)
	return nil
}

func (l *link) connect(ctx context.Context) (*net.UnixConn, error) {
	for {
		sock, err := new(net.Dialer).DialContext(ctx, "unixpacket", l.key.address().Name)
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
			return nil, fmt.Errorf("dial hub %s: %w there: the process has ended or is in another network namespace; start it and connect again", l.key, ErrNoHub)
		case err != nil:
			return nil, fmt.Errorf("dial hub %s: its process accepts no connections: %w", l.key, err)
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
func (l *link) read() {
	for {
		m, err := receive(l.conn.sock)
		if errors.Is(err, unix.ECONNRESET) {
			continue // it ended with something of ours unread; first what it said, then EOF
		}
		if err != nil {
			l.end(err)
			return
		}
		switch m.kind {
		case kindView:
			l.attach(m)
		case kindRefused:
			l.settle(viewKey{m.id, m.writable}, nil, errors.New(m.text))
		case kindFreed:
			l.retire(m.id)
		case kindBye:
			l.mu.Lock()
			l.bye = true
			l.mu.Unlock()
		}
	}
}

// end is what happens once when the connection ends. Views stay: what is mapped
// outlives the process that made it.
func (l *link) end(err error) {
	l.hub.mu.Lock()
	if l.hub.links[l.key] == l {
		delete(l.hub.links, l.key) // whoever dials next dials anew
	}
	l.hub.mu.Unlock()

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason == nil {
		switch {
		case l.bye:
			l.reason = fmt.Errorf("%s %w: it closed its hub", l.conn.name(), ErrGone)
		case errors.Is(err, io.EOF):
			l.reason = fmt.Errorf("%s %w: it ended", l.conn.name(), ErrGone)
		default:
			l.reason = fmt.Errorf("%s %w: %w", l.conn.name(), ErrGone, err)
		}
	}
	for k, v := range l.views {
		if v.block == nil {
			delete(l.views, k)
			v.err = l.reason
			close(v.done)
		}
	}
	close(l.gone)
	l.conn.close()
}

// view returns the peer's arena as it lies here, asking for it at first.
func (l *link) view(ctx context.Context, k viewKey) (addr uint64, length int, err error) {
	l.mu.RLock()
	v, closed := l.views[k], l.closed
	if closed == nil && v != nil && v.block != nil {
		addr, length = v.block.Addr(), v.block.Len()
		l.mu.RUnlock()
		return addr, length, nil
	}
	l.mu.RUnlock()

	if v, err = l.ask(k); err == nil {
		ctx, cancel := bounded(ctx)
		defer cancel()
		begun := time.Now()
		select {
		case <-v.done:
			addr, length, err = l.answer(v)
		case <-ctx.Done():
			err = fmt.Errorf("awaited its descriptor from %s for %v: %w (is it stopped?)", l.conn.name(), time.Since(begun).Round(time.Millisecond), context.Cause(ctx))
		}
	}
	if err != nil {
		return 0, 0, fmt.Errorf("map arena %d of %s: %w", k.id, l.conn.name(), err)
	}
	return addr, length, nil
}

// ask returns the view of k: an earlier one, or one whose answer will come.
func (l *link) ask(k viewKey) (*view, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.views[k]
	switch {
	case l.closed != nil:
		return nil, l.closed
	case v != nil:
		return v, nil
	case l.reason != nil:
		return nil, l.reason
	}
	v = &view{done: make(chan struct{})}
	l.views[k] = v
	l.conn.send(message{kind: kindMap, id: k.id, writable: k.writable, fd: -1})
	return v, nil
}

func (l *link) answer(v *view) (addr uint64, length int, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if v.err != nil {
		return 0, 0, v.err
	}
	return v.block.Addr(), v.block.Len(), nil
}

// attach maps what the peer has sent a descriptor of.
func (l *link) attach(m message) {
	block, err := mapView(m)
	if m.fd >= 0 {
		_ = unix.Close(m.fd)
	}
	l.settle(viewKey{m.id, m.writable}, block, err)
}

func mapView(m message) (*memory.Block, error) {
	if m.fd < 0 {
		return nil, errors.New("its descriptor did not come through: this process has as many open files as it may; close files or raise the limit (ulimit -n)")
	}
	// A file that can shrink or is too short would kill who reads beyond its end.
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

// settle gives those who wait for k its view, or the reason why there is none.
func (l *link) settle(k viewKey, block *memory.Block, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.views[k]
	if v == nil || v.block != nil { // nobody asked, or the link is closed
		_ = block.Free()
		return
	}
	if v.block, v.err = block, err; err != nil {
		delete(l.views, k)
	}
	close(v.done)
}

// retire takes the views of an arena that its owner has freed. Who still reads
// them reads zeros.
func (l *link) retire(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range []viewKey{{id, false}, {id, true}} {
		v := l.views[k]
		if v == nil || v.block == nil {
			continue // its refusal is on the way
		}
		delete(l.views, k)
		// Where the kernel refuses, the peer's memory stays until the link closes.
		_ = v.block.Blank()
		l.retired = append(l.retired, v.block)
	}
	for len(l.retired) > maxRetired {
		_ = l.retired[0].Free()
		l.retired = l.retired[1:]
	}
}

// close ends the connection, for that reason, and unmaps the views.
func (l *link) close(reason error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return nil
	}
	l.conn.send(message{kind: kindBye, fd: -1})
	l.conn.close()
	l.closed = reason
	if l.reason == nil {
		l.reason = reason
	}
	var err error
	for k, v := range l.views {
		delete(l.views, k)
		if v.block == nil {
			v.err = reason
			close(v.done)
			continue
		}
		err = errors.Join(err, v.block.Free())
	}
	for _, b := range l.retired {
		err = errors.Join(err, b.Free())
	}
	l.retired = nil
	return err
}
