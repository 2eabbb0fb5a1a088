package memfd

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Key names a hub on a host: 16 bytes, a GID.
type Key [16]byte

// String returns the key in hexadecimal.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// address is the hub's abstract socket address: '@' stands for the zero byte that
// keeps it out of the file system.
func (k Key) address() *net.UnixAddr {
	return &net.UnixAddr{Net: "unixpacket", Name: "@ringcli-shm-" + k.String()}
}

// ErrClosed is the error of using a hub or a peer that this process has closed.
var ErrClosed = errors.New("closed")

// Hub hands out the arenas of this process to others, and dials them. Its methods
// may be called by any goroutine.
type Hub struct {
	// OnChange is called when a view has come or was refused, and when a Peer is gone.
	// It must not wait. It may be set before the first Dial.
	OnChange func()

	key      Key
	listener *net.UnixListener
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	running  sync.WaitGroup // goroutines; Add under mu, while not closed

	mu     sync.Mutex // guards what follows
	closed bool
	served map[*conn]struct{} // processes that dialled this one
	open   map[*Peer]struct{} // dialled, until closed
}

// Listen makes a hub that others reach by key. The key must be this hub's alone.
func Listen(key Key) (*Hub, error) {
	listener, err := net.ListenUnix("unixpacket", key.address())
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("listen for processes of this host: key %s is taken by another hub; use a random key", key)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for processes of this host at key %s: %w; %s", key, err, advice(err))
	}
	h := &Hub{
		OnChange: func() {}, key: key, listener: listener,
		served: make(map[*conn]struct{}), open: make(map[*Peer]struct{}),
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.running.Go(h.accept)
	return h, nil
}

// Close ends the hub's connections and the views that came through them, and
// waits for its goroutines. Peers learn at once that it is gone. Closing twice is
// harmless.
func (h *Hub) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		h.running.Wait()
		return nil
	}
	h.closed = true
	served, open := h.served, h.open
	h.served, h.open = nil, nil
	h.mu.Unlock()

	h.cancel()
	err := h.listener.Close()
	for c := range served {
		c.send(message{kind: kindBye, fd: -1})
		c.close()
	}
	for p := range open {
		err = errors.Join(err, p.close(fmt.Errorf("hub %s is %w", h.key, ErrClosed)))
	}
	h.running.Wait()
	return err
}

func (h *Hub) accept() {
	for {
		sock, err := h.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files: others may close some
			select {
			case <-time.After(10 * time.Millisecond):
			case <-h.ctx.Done():
			}
			continue
		}
		h.admit(sock)
	}
}

// admit serves a process that has dialled, or tells it why not.
func (h *Hub) admit(sock *net.UnixConn) {
	c, err := newConn(sock)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		_ = sock.Close()
		return
	}
	h.running.Go(c.write)
	if err != nil {
		c.send(message{kind: kindRefused, text: err.Error(), fd: -1})
		c.close()
		return
	}
	h.served[c] = struct{}{}
	h.running.Go(func() {
		serve(c)
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.served, c)
	})
	c.send(hello())
}

// serve answers a process that has dialled, until the connection ends.
func serve(c *conn) {
	defer func() {
		c.close()
		for _, a := range arenas() {
			a.forget(c)
		}
	}()
	for {
		m, err := receive(c.sock)
		if err != nil || m.kind != kindMap {
			discard(m)
			return
		}
		err = errFreed(m.id)
		for _, a := range arenas() {
			if a.id == m.id {
				err = a.hand(c, m.writable)
			}
		}
		if err != nil {
			c.send(message{kind: kindRefused, writable: m.writable, id: m.id, text: err.Error(), fd: -1})
		}
	}
}
