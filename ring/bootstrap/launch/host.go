package launch

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/bootstrap/oob"
)

// member is a rank as rank 0 knows it.
type member struct {
	*oob.Conn // nil until it has been welcomed
	who       string
	got       bool // its data of this round is there
	sum       []byte
}

// host is rank 0.
type host struct {
	meeting
	listener net.Listener
	end      context.CancelFunc // of the server
	running  sync.WaitGroup

	mu      sync.Mutex // guards the following
	members map[int]*member
	closed  bool
	failure error
	changed chan struct{} // has room for one: something above has changed
}

// listen takes the first of the ports that is free.
func (m meeting) listen(ctx context.Context) (Launcher, error) {
	var err error
	for i := range candidates {
		var listener net.Listener
		if m.port+i > 65535 {
			break
		}
		if listener, err = new(net.ListenConfig).Listen(ctx, "tcp", ":"+strconv.Itoa(m.port+i)); err == nil {
			h := &host{meeting: m, listener: listener, members: make(map[int]*member), changed: make(chan struct{}, 1)}
			s := oob.Server{
				Protocol: protocol, Hello: oob.Hello{Name: "rank 0"}, Greeting: greeting{m.job, m.port, m.size, m.token != nil}, Token: m.token,
				Admit: h.admit, Handle: h.hear, Refused: func(net.Addr, error) {}, // a stranger, or one that looks elsewhere
			}
			var life context.Context
			life, h.end = context.WithCancel(context.WithoutCancel(ctx))
			h.running.Go(func() { _ = s.Serve(life, listener) }) // until Close
			return h, nil
		}
	}
	return nil, usage.Codedf(codes.PortTaken, "rank 0 of %d listens for the others: TCP port %d and those after it, %d in all, are not free (%v): expected one that is; another --master-port", m.size, m.port, candidates, err)
}

// admit lets a rank in, unless it is none that is awaited.
func (h *host) admit(_ net.Addr, who oob.Hello) (leave func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.members[who.Rank]
	switch {
	case who.Rank < 1 || who.Rank >= h.size:
		return nil, usage.Codedf(codes.List, "%s: expected 1 to %d of a rank that calls", who.Name, h.size-1)
	case first != nil:
		return nil, usage.Codedf(codes.List, "%s is here, and %s comes: expected one; each rank needs its own --index", first.who, who.Name)
	case h.closed:
		return nil, usage.Codedf(codes.List, "all ranks were there, and rank 0 has gone on")
	}
	m := &member{who: who.Name}
	h.members[who.Rank] = m
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if m.Conn == nil { // it has not heard that it is welcome
			delete(h.members, who.Rank)
		}
	}, nil
}

// hear reads what a rank says until it is gone.
func (h *host) hear(c *oob.Conn) error {
	h.mu.Lock()
	m := h.members[c.Peer.Rank]
	m.Conn = c
	failure := h.failure // before this one could be told
	h.mu.Unlock()
	if failure != nil {
		return failure
	}
	for {
		var data []byte
		_, read, err := c.Next(c.Context())
		if err == nil {
			err = read(&data)
		}
		h.mu.Lock()
		switch {
		case err != nil && !h.closed && h.failure == nil:
			h.failure = fmt.Errorf("%s has hung up before all ranks were there: it has ended", m.who)
		case err == nil:
			m.sum, m.got = data, true
		}
		h.mu.Unlock()
		h.change()
		if err != nil {
			return nil
		}
	}
}

func (h *host) change() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// away are those that have not called yet. h.mu is held.
func (h *host) away() (ranks []int) {
	for r := 1; r < h.size; r++ {
		if h.members[r] == nil {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// without says who is missing where something ends the wait for them: rank 0's own deadline,
// or a rank that has hung up, as one whose deadline comes first does. h.mu is held.
func (h *host) without(missing []int, err error) error {
	if len(missing) == 0 {
		return err
	}
	came := ""
	for r := 1; r < h.size; r++ {
		if m := h.members[r]; m != nil && len(came) < 200 {
			came += ", " + m.who
		}
	}
	return fmt.Errorf("rank 0 of %d at TCP port %d: awaited %s; came: rank 0%s: %w", h.size, h.listener.Addr().(*net.TCPAddr).Port, calls.Ranks(missing), came, err)
}

// absent are those without data of this round. h.mu is held.
func (h *host) absent() (ranks []int) {
	for r := 1; r < h.size; r++ {
		if m := h.members[r]; m == nil || !m.got {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// tell says something to all that are here. h.mu is held.
func (h *host) tell(say func(*oob.Conn)) {
	for _, m := range h.members {
		if m.Conn != nil {
			say(m.Conn)
		}
	}
}

func (h *host) AllGather(ctx context.Context, own []byte) ([][]byte, error) {
	tick := time.NewTicker(notice)
	defer tick.Stop()
	for {
		h.mu.Lock()
		missing, err := h.absent(), h.failure
		switch {
		case err == nil && len(missing) == 0:
			all := make([][]byte, h.size)
			all[0] = own
			for r, m := range h.members {
				all[r], m.sum, m.got = m.sum, nil, false
			}
			h.tell(func(c *oob.Conn) { _ = c.Send(kindAll, all) }) // of who does not read hear hears
			h.mu.Unlock()
			return all, nil
		case err != nil:
			err = h.without(h.away(), err)
		case ctx.Err() != nil:
			err = h.without(missing, context.Cause(ctx))
		}
		if err != nil {
			h.failure = err
			h.tell(func(c *oob.Conn) { c.Fail(err) })
			h.mu.Unlock()
			return nil, err
		}
		h.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-h.changed:
		case <-tick.C:
			h.mu.Lock()
			awaits := h.absent()
			h.tell(func(c *oob.Conn) { c.Note(awaits) })
			h.mu.Unlock()
		}
	}
}

func (h *host) Barrier(ctx context.Context) error {
	_, err := h.AllGather(ctx, nil)
	return err
}

// Close lets go of those that are here, which have heard all that they waited for.
func (h *host) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.end()
	h.running.Wait()
	return nil
}
