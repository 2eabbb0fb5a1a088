package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/bootstrap/oob"
	"ringcli/ring/bootstrap/seal"
	"ringcli/trace"
)

// hello is the payload of a dialler's first frame.
type hello struct {
	identity
	Size   int      `json:"size"`
	Digest string   `json:"digest"`
	List   []string `json:"list,omitempty"`
	Group  Group    `json:"group"`
	After  uint32   `json:"after,omitempty"` // epoch of the last ring of this process
}

// rejection is the payload of a reject frame.
type rejection struct {
	Verdict
	Group  *Group `json:"group,omitempty"` // of KindRegrouped
	Retry  bool   `json:"retry"`           // not now, but perhaps later
	Itself bool   `json:"itself"`          // the caller has reached itself
	// Token is what is wrong with the caller's, if it is that.
	Token oob.TokenTrouble `json:"token,omitempty"`
}

// maxHelloList is the longest list, in bytes, that a hello spells out, so that a mismatch
// can be shown entry by entry. Longer ones are compared by digest alone.
const maxHelloList = 16 << 10

func (c *Control) hello() hello {
	h := hello{identity: c.self, Size: c.size, Digest: c.digest, Group: c.group, After: c.cfg.History.Last()}
	bytes := 0
	for _, n := range c.cfg.List {
		h.List = append(h.List, n.String())
		if bytes += len(`"",`) + len(n.String()); bytes > maxHelloList {
			h.List = nil
			break
		}
	}
	return h
}

// accept takes connections until the listener is closed.
func (c *Control) accept() {
	c.callers.Serve(c.listener, handshakeTimeout, func(err error) { // out of descriptors, or the peer was gone already
		c.strangers.note(fmt.Sprintf("accept on %s", c.listener.Addr()), err.Error())
	}, c.greet)
}

// greet reads a connection's first frame and answers it. The whole has handshakeTimeout.
func (c *Control) greet(conn net.Conn) {
	keep, raw := false, conn
	defer func() {
		if !keep {
			_ = raw.Close()
		}
	}()
	if c.isExpected(conn.RemoteAddr()) {
		c.mu.Lock()
		c.came++
		c.mu.Unlock()
	}
	f, err := oob.ReadGreeting(conn)
	if err != nil {
		// A probe of the port alone is nothing, nor is our own hanging up.
		if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && c.life.Err() == nil {
			c.stranger(conn, explain(conn, err, handshakeTimeout))
		}
		return
	}
	if f.Version != oob.Version && f.Type != TypeProbe {
		h, _ := oob.Decode[hello](f) // of another version
		c.disagree(conn, f, h, c.verdict(KindMismatch, f.Sender, "rank %d at %s speaks version %d of the bootstrap protocol and %s speaks %d, which must match: install the same ringcli on both",
			f.Sender, conn.RemoteAddr(), f.Version, c.name(c.rank), oob.Version).Coded(codes.Version))
		return
	}
	if conn, f, err = c.admit(conn, f); err != nil {
		// Who has hung up may be a neighbour that waited for this process while it stood still.
		if !errors.Is(err, io.EOF) && c.life.Err() == nil {
			c.stranger(raw, err.Error())
		}
		return
	}
	switch f.Type {
	case TypeProbe:
		asked, _ := oob.Decode[probe](f) // one of another version asks nothing more
		c.answer(conn, f, TypeState, c.status(asked, conn.RemoteAddr()))
	case TypeHello:
		h, err := oob.Decode[hello](f)
		if err != nil {
			c.stranger(conn, err.Error())
			return
		}
		keep = c.join(conn, f, h)
	default:
		c.stranger(conn, fmt.Sprintf("a %q frame from rank %d without a hello", f.Type, f.Sender))
	}
}

// stranger notes somebody who does not belong here. Bring-up goes on.
func (c *Control) stranger(conn net.Conn, what string) {
	from := conn.RemoteAddr().String()
	at := fmt.Sprintf("stranger at %s on port %s", from, c.listener.Addr())
	what = brief(what)
	host, _, _ := net.SplitHostPort(from)
	c.strangers.note(at, strings.ReplaceAll(what, from, host)) // of all ports of a host, one kind
	c.mu.Lock()
	defer c.mu.Unlock()
	const most = 4
	again := slices.IndexFunc(c.remarks, func(r string) bool { return strings.HasSuffix(r, ": "+what) })
	if again >= 0 {
		c.remarks = slices.Delete(c.remarks, again, again+1)
	}
	if c.remarks = append(c.remarks, at+": "+what); len(c.remarks) > most {
		c.remarks = c.remarks[1:]
	}
}

// answer writes one frame to a connection that is no neighbour's yet.
func (c *Control) answer(conn net.Conn, f *oob.Frame, t oob.Type, payload any) bool {
	back := oob.Call{Sender: c.rank, Receiver: f.Sender, Edge: f.Edge}
	err := back.Write(conn, t, payload)
	if err != nil {
		trace.Debug(trace.Bootstrap, "answer", slog.String("type", string(t)), slog.String("error", err.Error()))
	}
	return err == nil
}

// reject tells a caller why it is refused.
func (c *Control) reject(conn net.Conn, f *oob.Frame, r rejection) {
	r.Text = brief(r.Text)
	c.answer(conn, f, TypeReject, r)
}

// disagree refuses a caller of another version or with another list. It fails this rank
// only if it is the left neighbour: has a token, or listens where that one is expected and
// says there that it has called. Any other may be of a ring that is none of ours, or mean
// harm: it hears no more of the list than hosts on it may.
func (c *Control) disagree(conn net.Conn, f *oob.Frame, h hello, v *Verdict) {
	_, known := conn.(*seal.Conn)
	if known || c.isExpected(conn.RemoteAddr()) && c.cfg.Token == nil && c.isCalledBy(h.Instance) {
		if v.Code == codes.List && h.Digest != c.digest {
			c.decide(v, f.Sender, h.Digest)
		}
		c.refuse(conn, f, v)
		return
	}
	told := *v
	if !c.isListed(conn.RemoteAddr()) {
		told.Text = fmt.Sprintf("%s is in a ring with another list, or of another version", c.name(c.rank))
	}
	c.reject(conn, f, rejection{Verdict: told})
	c.stranger(conn, v.Text)
}

// mostAsked bounds the ranks that are asked which of two lists they have.
const mostAsked = 16

// decide asks other ranks, until one has answered and for a second at most, whether they have
// this rank's list or the caller's. The verdict is then of the one whose list none of them has.
func (c *Control) decide(v *Verdict, caller int, digest string) {
	ctx, cancel := awake(c.life, probeTimeout)
	defer cancel()
	var mu sync.Mutex
	have := map[string][]int{} // ranks, by the digest of their list
	var asked sync.WaitGroup
	var answered atomic.Bool // by one of them
	for k := 1; k < min(c.size, mostAsked); k++ {
		rank := (c.rank + k) % c.size
		if rank == caller {
			continue
		}
		asked.Go(func() {
			for !answered.Load() { // ranks come up at about the same time
				for _, d := range []string{c.digest, digest} {
					s, err := c.probe(ctx, rank, c.at(rank), probe{Digest: d})
					if err != nil {
						break
					}
					answered.Store(true)
					if s.Same && s.Rank == rank {
						mu.Lock()
						have[d] = append(have[d], rank)
						mu.Unlock()
						return
					}
				}
				select {
				case <-time.After(probeTimeout / 10):
				case <-ctx.Done():
					return
				}
			}
		})
	}
	asked.Wait()
	wrong, right, with := caller, c.rank, have[c.digest]
	if len(with) == 0 {
		wrong, right, with = c.rank, caller, have[digest]
	}
	if len(with) == 0 || len(have) > 1 || caller >= c.size {
		return
	}
	v.Rank, v.Edge = wrong, Direction{}
	v.Evidence = append(v.Evidence, fmt.Sprintf("%s have the list of rank %d, and not that of rank %d", calls.Ranks(with), right, wrong))
}

// isCalledBy asks the left neighbour, where the list has it, whether it is who has called.
func (c *Control) isCalledBy(instance string) bool {
	if instance == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(c.life, probeTimeout)
	defer cancel()
	rank := c.neighbour(left)
	s, _ := c.probe(ctx, rank, c.at(rank), probe{Instance: instance})
	return s != nil && s.Itself // with an error, it is of another version
}

// refuse sends a verdict to a caller who was told other things than this rank,
// and fails this rank too while its ring is still coming up. A ring that runs is
// not for a newcomer to break.
func (c *Control) refuse(conn net.Conn, f *oob.Frame, v *Verdict) {
	c.reject(conn, f, rejection{Verdict: *v})
	c.mu.Lock()
	sealed := c.sealed
	first := !sealed && c.fail(v, nil)
	c.mu.Unlock()
	if sealed {
		trace.Warn(trace.Bootstrap, "refused", slog.String("why", v.Text))
	}
	c.report(v, first)
}

// join makes the caller the left connection, or says why not. It reports whether it
// kept the connection.
func (c *Control) join(conn net.Conn, f *oob.Frame, h hello) bool {
	if h.Instance == c.self.Instance && c.size > 1 {
		v := c.verdict(KindMismatch, c.rank,
			"entry %d of the list (%s) leads to this node itself, which was given index %d: check this node's --index, and that no two entries lead to one address and port",
			f.Receiver, c.cfg.List[min(max(f.Receiver, 0), c.size-1)], c.rank).Coded(codes.List)
		c.reject(conn, f, rejection{Verdict: *v, Itself: true})
		return false // the dialler is this Control and takes it from here
	}
	if c.regroup(conn, f, h) {
		return false
	}
	if v := c.compareLists(conn, f, h); v != nil {
		c.disagree(conn, f, h, v)
		return false
	}
	if v := c.compareRanks(conn, f, h); v != nil {
		c.refuse(conn, f, v)
		return false
	}
	c.mu.Lock()
	c.awaitEnd(h.Instance)
	old := c.connections[left]
	var v *Verdict
	busy, stale := "", false
	switch {
	case c.cfg.History.knows(h.Instance):
		stale = true
	case c.failure != nil && c.failure.Kind == KindLost && c.failure.Rank == f.Sender:
		busy = "ends, since it has lost the process that the caller replaces"
	case c.failure != nil && !c.sealed && !c.leaving:
		v = c.failure // bring-up has failed: the caller is to know why
	case c.leaving || c.failure != nil:
		busy = "is ending"
	case c.sealed || old != nil && old.used:
		busy = fmt.Sprintf("is in a ring with another rank %d (%s)", old.peer, old.who)
	case old != nil && old.goodbye.IsZero() && old.who.Instance != h.Instance:
		v = c.twins(f.Sender, old.who, old.conn.RemoteAddr(), h.identity, conn.RemoteAddr())
	}
	if busy == "" && v == nil && !stale && c.callers.Leave(conn) && c.answer(conn, f, TypeWelcome, c.self) {
		if old != nil { // the neighbour dialled again: its first connection is dead
			c.connections[left] = nil
			old.finish()
		}
		c.addConnection(left, conn, h.identity)
		c.mu.Unlock()
		return true
	}
	c.mu.Unlock()
	switch {
	case stale:
		c.stale.Add(1)
		text := fmt.Sprintf("a hello of rank %d (%s) from a ring that is over: expected one of a new epoch; connect anew", f.Sender, h.identity)
		c.stranger(conn, text)
		c.reject(conn, f, rejection{Retry: true, Verdict: *c.verdict(KindMismatch, f.Sender, "%s", text)})
	case v != nil:
		c.refuse(conn, f, v)
	case busy != "":
		c.reject(conn, f, rejection{Retry: true, Verdict: *c.verdict(KindMismatch, c.rank, "%s %s", c.name(c.rank), busy)})
	}
	return false
}

// awaitEnd waits, while the ring comes up, for the end of the left neighbour's connection if
// another process calls as that neighbour: it may replace one that has just died. A host that
// has started anew refuses the next heartbeat. It needs the lock, which it releases meanwhile.
func (c *Control) awaitEnd(instance string) {
	ctx, cancel := awake(c.live, handshakeTimeout/2) // the caller waits for as long as that twice
	defer cancel()
	for {
		old, changed := c.connections[left], c.changed
		if old == nil || old.ended || old.used || c.sealed || c.leaving || !old.goodbye.IsZero() || old.who.Instance == instance || ctx.Err() != nil {
			return
		}
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		c.mu.Lock()
	}
}

func (c *Control) twins(rank int, a identity, aAddr net.Addr, b identity, bAddr net.Addr) *Verdict {
	return c.verdict(KindMismatch, rank, "two nodes have index %d: %s (%s) and %s (%s); give every node its own --index", rank, aAddr, a, bAddr, b).Coded(codes.List)
}

// compareLists checks the list that a caller was given against this rank's. Which of the two is
// wrong is not known.
func (c *Control) compareLists(conn net.Conn, f *oob.Frame, h hello) *Verdict {
	caller, own := h.caller(conn, f), c.name(c.rank)
	if c.listensOnAll() {
		own += ", which listens on all addresses of its node,"
	}
	differ := func(format string, args ...any) *Verdict {
		v := c.verdict(KindMismatch, -1, format+": give all nodes the same --list", args...).Coded(codes.List)
		v.Edge = Direction{From: f.Sender, To: c.rank, Both: true}
		return v
	}
	switch {
	case h.Size != c.size:
		return differ("%s has a list of %d nodes and %s one of %d", caller, h.Size, own, c.size)
	case h.Digest == c.digest:
		return nil
	}
	for i, e := range h.List {
		if here := c.cfg.List[min(i, c.size-1)].String(); e != here {
			return differ("%s has another list than %s: entry %d is %s there and %s here", caller, own, i, e, here)
		}
	}
	return differ("%s has another list than %s", caller, own)
}

// compareRanks checks a caller's index against this rank's.
func (c *Control) compareRanks(conn net.Conn, f *oob.Frame, h hello) *Verdict {
	caller, own, expected := h.caller(conn, f), c.name(c.rank), c.neighbour(left)
	switch {
	case f.Sender == c.rank && h.Instance != c.self.Instance:
		return c.twins(c.rank, c.self, c.listener.Addr(), h.identity, conn.RemoteAddr())
	case f.Receiver != c.rank:
		return c.verdict(KindMismatch, f.Sender, "%s wants rank %d, but %s answers: check entry %d of the list, and each node's --index", caller, f.Receiver, own, f.Receiver).Coded(codes.List)
	case f.Sender != expected || f.Edge != f.Sender:
		return c.verdict(KindMismatch, f.Sender, "%s calls %s on edge %d: expected rank %d on edge %d", caller, own, f.Edge, expected, expected).Coded(codes.List)
	}
	return nil
}

// caller says who has sent a hello.
func (h *hello) caller(conn net.Conn, f *oob.Frame) string {
	return fmt.Sprintf("rank %d at %s (%s)", f.Sender, conn.RemoteAddr(), h.identity)
}

// ask sends one frame and reads the answer, within the time of a handshake, which comes
// first where there is a token. The conversation goes on over the connection that it
// returns. An answer of another version comes with an error.
func (c *Control) ask(ctx context.Context, conn net.Conn, t oob.Type, receiver, edge int, payload any) (net.Conn, *oob.Frame, error) {
	deadline := time.Now().Add(handshakeTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	_ = conn.SetDeadline(deadline) // fails on a closed connection only, as the write will
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	start, call := time.Now(), oob.Call{For: t, Sender: c.rank, Receiver: receiver, Edge: edge}
	asked, err := c.unlock(conn, call)
	if err == nil {
		err = call.Write(asked, t, payload)
	}
	var f *oob.Frame
	if err == nil {
		f, err = oob.ReadGreeting(asked)
	}
	switch {
	case ctx.Err() != nil && err != nil:
		if short, ok := errors.AsType[*oob.ShortError](err); ok { // which says how far it came
			return nil, nil, short
		}
		return nil, nil, ctx.Err()
	case errors.Is(err, usage.Err):
		return nil, nil, err
	case err != nil:
		other := errors.Is(err, oob.ErrNotFrame)
		return nil, nil, &strangerError{explain(conn, err, time.Since(start).Round(10*time.Millisecond)), other}
	case f.Version != oob.Version && f.Type != TypeReject:
		return asked, f, versionError(f.Version)
	}
	if f.Type == TypeReject && c.cfg.Token == nil {
		if r, err := oob.Decode[rejection](f); err == nil && r.Token != "" {
			return nil, nil, c.troubleAt(receiver, r.Token)
		}
	}
	return asked, f, nil
}

func versionError(version int) error {
	return fmt.Errorf("speaks version %d of the bootstrap protocol, expected %d, which must match: install the same ringcli on both", version, oob.Version)
}
