package arena

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Peer is another process, or this one, as seen through a hub. Its methods may be
// called by any goroutine, but for Close while views are in use.
type Peer struct {
	client *client
	closed atomic.Bool
}

// Dial connects to the process that listens to key. Peers of one key
// share a connection and its views, which end with the last of them. Without a
// deadline in ctx it gives up after 10 s. ErrNoHub: nobody listens there.
func (h *Hub) Dial(ctx context.Context, key Key) (*Peer, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	for {
		h.mu.Lock()
		if h.closed {
			h.mu.Unlock()
			return nil, fmt.Errorf("dial hub %s: hub %s is %w", key, h.key, ErrClosed)
		}
		cl := h.clients[key]
		if cl == nil {
			cl = newClient(h, key)
			h.clients[key] = cl
			h.mu.Unlock()
			return h.dial(ctx, cl)
		}
		cl.users++
		h.mu.Unlock()

		p := &Peer{client: cl}
		select {
		case <-cl.ready:
			if cl.err == nil {
				return p, nil
			}
			// The caller that dialled it may have had less time than this one has.
		case <-ctx.Done():
			return nil, errors.Join(p.Close(), fmt.Errorf("dial hub %s: awaited another dialler of it: %w", key, context.Cause(ctx)))
		}
	}
}

// dial connects cl, which only its caller does.
func (h *Hub) dial(ctx context.Context, cl *client) (*Peer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(h.ctx, func() { cancel(fmt.Errorf("hub %s is %w", h.key, ErrClosed)) })
	defer stop()
	err := cl.dial(ctx)

	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil && h.closed {
		_ = cl.conn.sock.Close()
		err = fmt.Errorf("dial hub %s: hub %s is %w", cl.key, h.key, ErrClosed)
	}
	defer close(cl.ready)
	if err != nil {
		delete(h.clients, cl.key)
		cl.err = err
		return nil, err
	}
	h.open[cl] = struct{}{}
	h.running.Go(cl.conn.write)
	h.running.Go(cl.read)
	return &Peer{client: cl}, nil
}

// Close gives the peer back. With the last Peer of its key the connection ends
// and the views that came through it are unmapped. Closing twice is harmless.
func (p *Peer) Close() error {
	if p.closed.Swap(true) {
		return nil
	}
	cl, h := p.client, p.client.hub
	h.mu.Lock()
	cl.users--
	last := cl.users == 0
	if last {
		if h.clients[cl.key] == cl {
			delete(h.clients, cl.key)
		}
		delete(h.open, cl)
	}
	h.mu.Unlock()
	if last && cl.conn != nil {
		return cl.close(fmt.Errorf("the peer is %w", ErrClosed))
	}
	return nil
}

// PID returns the process's number as this process sees it, 0 if it is in another
// PID namespace.
func (p *Peer) PID() int { return p.client.conn.pid }

// Gone is closed when the process has ended, which is noticed at once, or its hub
// or this Peer's connection is closed. Views outlive the process.
func (p *Peer) Gone() <-chan struct{} { return p.client.gone }

// Err says why the peer is gone, nil while it is not.
func (p *Peer) Err() error {
	p.client.mu.RLock()
	defer p.client.mu.RUnlock()
	return p.client.reason
}

// Map returns where the peer's arena id lies in this process, and its length in
// bytes. A view that is not writable faults when written. The first call for an
// arena asks the peer, for 10 s if ctx has no deadline; later ones are quick. The
// view is valid until the last Peer of the key or the hub is closed; when the
// owner frees the arena, zeros take its place, which stay for a while.
func (p *Peer) Map(ctx context.Context, id uint64, writable bool) (addr uint64, length int, err error) {
	if p.closed.Load() {
		return 0, 0, fmt.Errorf("map arena %d: the peer is %w", id, ErrClosed)
	}
	return p.client.view(ctx, viewKey{id, writable})
}
