package launch

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/bootstrap/seal"
)

// member is a rank as rank 0 knows it.
type member struct {
	*line
	who string
	got bool // its data of this round is there
	sum []byte
}

// host is rank 0.
type host struct {
	meeting
	listener net.Listener
	running  sync.WaitGroup

	mu      sync.Mutex // guards the following
	members map[int]*member
	closed  bool
	failure error
	changed chan struct{} // has room for one: something above has changed
}

func (h *host) Rank() int { return 0 }
func (h *host) Size() int { return h.size }

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
			h.running.Go(h.accept)
			return h, nil
		}
	}
	return nil, usage.Codedf(codes.PortTaken, "rank 0 of %d listens for the others: TCP port %d and those after it, %d in all, are not free (%v): expected one that is; another --master-port", m.size, m.port, candidates, err)
}

func (h *host) accept() {
	for {
		conn, err := h.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors: some are given back soon
			time.Sleep(pause)
			continue
		}
		h.running.Go(func() { h.greet(conn) })
	}
}

// greet lets a rank in, and hears what it says until it is gone.
func (h *host) greet(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	l := newLine(conn)
	g := greeting{Magic: magic, Version: version, Job: h.job, Port: h.port, Size: h.size, Nonce: nonce(), Token: h.token != nil}
	var who hello
	_ = l.SetDeadline(time.Now().Add(patience)) // fails on a closed one only
	if l.say(g) != nil || l.hear(&who, maxHello) != nil {
		return // a stranger, or one that looks elsewhere
	}
	shake := h.handshake(who.Rank, who.Nonce, g.Nonce)
	w := word{At: addrOf(conn.LocalAddr())}
	if h.token != nil {
		if subtle.ConstantTimeCompare(who.Proof, h.token.Proof(shake, seal.Dialler)) != 1 {
			_ = l.say(word{Error: "this rank has another token: give all ranks the same --token-file or RINGCLI_TOKEN"})
			return
		}
		w.Proof = h.token.Proof(shake, seal.Listener)
	}
	m := &member{line: l, who: fmt.Sprintf("rank %d (host %s, pid %d)", who.Rank, who.Host, who.PID)}
	if h.token != nil {
		sealed, err := h.token.Seal(conn, shake, seal.Listener, seal.Dialler)
		if err != nil {
			return
		}
		m.line = newLine(sealed)
	}
	if why := h.enter(who.Rank, m, func() error { return l.say(w) }); why != "" {
		_ = l.say(word{Error: why})
		return
	}
	_ = conn.SetDeadline(time.Time{})
	for {
		var said word
		err := m.hear(&said, maxText)
		h.mu.Lock()
		switch {
		case err != nil && !h.closed && h.failure == nil:
			h.failure = fmt.Errorf("%s has hung up before all ranks were there: it has ended", m.who)
		case err == nil:
			m.sum, m.got = said.Data, true
		}
		h.mu.Unlock()
		h.change()
		if err != nil {
			return
		}
	}
}

// enter takes a rank in, which hears so before anything else, or returns why not.
func (h *host) enter(rank int, m *member, welcome func() error) (why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if rank < 1 || rank >= h.size {
		return fmt.Sprintf("%s: expected 1 to %d of a rank that calls", m.who, h.size-1)
	}
	if first := h.members[rank]; first != nil {
		return fmt.Sprintf("%s is here, and %s comes: expected one; each rank needs its own --index", first.who, m.who)
	}
	if h.closed {
		return "all ranks were there, and rank 0 has gone on"
	}
	if err := welcome(); err != nil {
		return err.Error()
	}
	h.members[rank] = m
	return ""
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
func (h *host) tell(w word) {
	for _, m := range h.members {
		_ = m.SetWriteDeadline(time.Now().Add(patience)) // of who does not read its reader hears
		_ = m.say(w)
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
			h.tell(word{All: all})
			h.mu.Unlock()
			return all, nil
		case err != nil:
			err = h.without(h.away(), err)
		case ctx.Err() != nil:
			err = h.without(missing, context.Cause(ctx))
		}
		if err != nil {
			h.tell(word{Error: err.Error(), Usage: usage.Is(err)})
			h.mu.Unlock()
			return nil, err
		}
		h.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-h.changed:
		case <-tick.C:
			h.mu.Lock()
			h.tell(word{Awaits: h.absent()})
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
	for _, m := range h.members {
		_ = m.Close() // what it was told is on its way
	}
	h.mu.Unlock()
	err := h.listener.Close()
	h.running.Wait()
	return err
}
