package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ringcli/configs/codes"
	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/bootstrap/hosts"
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

// greeter accepts callers, makes the left neighbour a connection, and tells the others why not.
type greeter struct {
	own        *node
	life       *lifetime
	neighbours *neighbours
	outcome    *outcome
	changes    *changes
	epochs     *epochs
	prober     *prober
	tally      *tally
	foreign    *foreignPeers
	status     func(asked probe, by net.Addr) status

	listener net.Listener
	callers  oob.Lobby // accepted, no neighbours yet
}

// stranger notes a caller that does not belong here.
func (g *greeter) stranger(conn net.Conn, what string) { g.foreign.saw(conn, g.listener, what) }

// accept takes connections until the listener is closed.
func (g *greeter) accept() {
	g.callers.Serve(g.listener, handshakeTimeout, func(err error) { // out of descriptors, or the peer was gone already
		g.foreign.note(fmt.Sprintf("accept on %s", g.listener.Addr()), err.Error())
	}, g.greet)
}

// greet reads a connection's first frame and answers it. The whole has handshakeTimeout.
func (g *greeter) greet(conn net.Conn) {
	keep, raw := false, conn
	defer func() {
		if !keep {
			_ = raw.Close()
		}
	}()
	if g.own.isExpected(conn.RemoteAddr()) {
		g.tally.noteCaller()
	}
	f, err := oob.ReadGreeting(conn)
	if err != nil {
		// A probe of the port alone is nothing, nor is our own hanging up.
		if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !g.life.over() {
			g.stranger(conn, explain(conn, err, handshakeTimeout))
		}
		return
	}
	if f.Version != oob.Version && f.Type != TypeProbe {
		h, _ := oob.Decode[hello](f) // of another version
		g.disagree(conn, f, h, g.own.verdict(KindMismatch, f.Sender, "rank %d at %s speaks version %d of the bootstrap protocol and %s speaks %d, which must match: install the same ringcli on both",
			f.Sender, conn.RemoteAddr(), f.Version, g.own.name(g.own.rank), oob.Version).Coded(codes.Version))
		return
	}
	if conn, f, err = g.admit(conn, f); err != nil {
		// Who has hung up may be a neighbour that waited for this process while it stood still.
		if !errors.Is(err, io.EOF) && !g.life.over() {
			g.stranger(raw, err.Error())
		}
		return
	}
	switch f.Type {
	case TypeProbe:
		asked, _ := oob.Decode[probe](f) // one of another version asks nothing more
		g.answer(conn, f, TypeState, g.status(asked, conn.RemoteAddr()))
	case TypeHello:
		h, err := oob.Decode[hello](f)
		if err != nil {
			g.stranger(conn, err.Error())
			return
		}
		keep = g.join(conn, f, h)
	default:
		g.stranger(conn, fmt.Sprintf("a %q frame from rank %d without a hello", f.Type, f.Sender))
	}
}

// answer writes one frame to a connection that is no neighbour's yet.
func (g *greeter) answer(conn net.Conn, f *oob.Frame, t oob.Type, payload any) bool {
	back := oob.Call{Sender: g.own.rank, Receiver: f.Sender, Edge: f.Edge}
	err := back.Write(conn, t, payload)
	if err != nil {
		trace.Debug(trace.Bootstrap, "answer", slog.String("type", string(t)), slog.String("error", err.Error()))
	}
	return err == nil
}

// reject tells a caller why it is refused.
func (g *greeter) reject(conn net.Conn, f *oob.Frame, r rejection) {
	r.Text = brief(r.Text)
	g.answer(conn, f, TypeReject, r)
}

// disagree refuses a caller of another version or with another list. It fails this rank
// only if it is the left neighbour: has a token, or listens where that one is expected and
// says there that it has called. Any other may be of a ring that is none of ours, or mean
// harm: it hears no more of the list than hosts on it may.
func (g *greeter) disagree(conn net.Conn, f *oob.Frame, h hello, v *Verdict) {
	_, known := conn.(*seal.Conn)
	if known || g.own.isExpected(conn.RemoteAddr()) && g.own.cfg.Token == nil && g.isCalledBy(h.Instance) {
		if v.Code == codes.List && h.Digest != g.own.digest {
			g.decide(v, f.Sender, h.Digest)
		}
		g.refuse(conn, f, v)
		return
	}
	told := *v
	if !g.own.isListed(conn.RemoteAddr()) {
		told.Text = fmt.Sprintf("%s is in a ring with another list, or of another version", g.own.name(g.own.rank))
	}
	g.reject(conn, f, rejection{Verdict: told})
	g.stranger(conn, v.Text)
}

// mostAsked bounds the ranks that are asked which of two lists they have.
const mostAsked = 16

// decide asks other ranks, until one has answered and for a second at most, whether they have
// this rank's list or the caller's. The verdict is then of the one whose list none of them has.
func (g *greeter) decide(v *Verdict, caller int, digest string) {
	ctx, cancel := awake(g.life.ctx, probeTimeout)
	defer cancel()
	var mu sync.Mutex
	have := map[string][]int{} // ranks, by the digest of their list
	var asked sync.WaitGroup
	var answered atomic.Bool // by one of them
	for k := 1; k < min(g.own.size, mostAsked); k++ {
		rank := (g.own.rank + k) % g.own.size
		if rank == caller {
			continue
		}
		asked.Go(func() {
			for !answered.Load() { // ranks come up at about the same time
				for _, d := range []string{g.own.digest, digest} {
					s, err := g.prober.probe(ctx, rank, g.own.at(rank), probe{Digest: d})
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
	wrong, right, with := caller, g.own.rank, have[g.own.digest]
	if len(with) == 0 {
		wrong, right, with = g.own.rank, caller, have[digest]
	}
	if len(with) == 0 || len(have) > 1 || caller >= g.own.size {
		return
	}
	v.Rank, v.Edge = wrong, Direction{}
	v.Evidence = append(v.Evidence, fmt.Sprintf("%s have the list of rank %d, and not that of rank %d", calls.Ranks(with), right, wrong))
}

// isCalledBy asks the left neighbour, where the list has it, whether it is who has called.
func (g *greeter) isCalledBy(instance string) bool {
	if instance == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(g.life.ctx, probeTimeout)
	defer cancel()
	rank := g.own.neighbour(left)
	s, _ := g.prober.probe(ctx, rank, g.own.at(rank), probe{Instance: instance})
	return s != nil && s.Itself // with an error, it is of another version
}

// refuse sends a verdict to a caller who was told other things than this rank,
// and fails this rank too while its ring is still coming up. A ring that runs is
// not for a newcomer to break.
func (g *greeter) refuse(conn net.Conn, f *oob.Frame, v *Verdict) {
	g.reject(conn, f, rejection{Verdict: *v})
	if !g.outcome.failForming(v) {
		trace.Warn(trace.Bootstrap, "refused", slog.String("why", v.Text))
	}
}

// join makes the caller the left connection, or says why not. It reports whether it
// kept the connection.
func (g *greeter) join(conn net.Conn, f *oob.Frame, h hello) bool {
	if h.Instance == g.own.self.Instance && g.own.size > 1 {
		v := g.own.verdict(KindMismatch, g.own.rank,
			"entry %d of the list (%s) leads to this node itself, which was given index %d: check this node's --index, and that no two entries lead to one address and port",
			f.Receiver, g.own.cfg.List[min(max(f.Receiver, 0), g.own.size-1)], g.own.rank).Coded(codes.List)
		g.reject(conn, f, rejection{Verdict: *v, Itself: true})
		return false // the dialler is this Control and takes it from here
	}
	if g.regroup(conn, f, h) {
		return false
	}
	if v := g.compareLists(conn, f, h); v != nil {
		g.disagree(conn, f, h, v)
		return false
	}
	if v := g.compareRanks(conn, f, h); v != nil {
		g.refuse(conn, f, v)
		return false
	}
	g.awaitEnd(h.Instance)
	kept, stale, busy, v := g.replace(conn, f, h)
	switch {
	case kept:
		return true
	case stale:
		g.epochs.stale.Add(1)
		text := fmt.Sprintf("a hello of rank %d (%s) from a ring that is over: expected one of a new epoch; connect anew", f.Sender, h.identity)
		g.stranger(conn, text)
		g.reject(conn, f, rejection{Retry: true, Verdict: *g.own.verdict(KindMismatch, f.Sender, "%s", text)})
	case v != nil:
		g.refuse(conn, f, v)
	case busy != "":
		g.reject(conn, f, rejection{Retry: true, Verdict: *g.own.verdict(KindMismatch, g.own.rank, "%s %s", g.own.name(g.own.rank), busy)})
	}
	return false
}

// replace makes the caller the left connection in the place of the one that there may be,
// unless it comes from an earlier ring, this rank is busy, or a verdict is against it.
func (g *greeter) replace(conn net.Conn, f *oob.Frame, h hello) (kept, stale bool, busy string, v *Verdict) {
	g.neighbours.mu.Lock()
	defer g.neighbours.mu.Unlock()
	old, phase := g.neighbours.at(left), g.outcome.phase()
	switch failure := phase.failure; {
	case g.own.cfg.History.knows(h.Instance):
		stale = true
	case failure != nil && failure.Kind == KindLost && failure.Rank == f.Sender:
		busy = "ends, since it has lost the process that the caller replaces"
	case failure != nil && !phase.sealed && !phase.leaving:
		v = failure // bring-up has failed: the caller is to know why
	case phase.over():
		busy = "is ending"
	case phase.sealed || old != nil && old.state().used:
		busy = fmt.Sprintf("is in a ring with another rank %d (%s)", old.peer, old.who)
	case old.here() && !old.state().ended && old.who.Instance != h.Instance:
		v = g.twins(f.Sender, old.who, old.conn.RemoteAddr(), h.identity, conn.RemoteAddr())
	case g.callers.Leave(conn) && g.answer(conn, f, TypeWelcome, g.own.self):
		if old != nil { // the neighbour dialled again: its first connection is dead
			g.neighbours.drop(old)
			old.finish()
		}
		kept = g.neighbours.add(left, conn, h.identity)
	}
	return kept, stale, busy, v
}

// awaitEnd waits, while the ring comes up, for the end of the left neighbour's connection if
// another process calls as that neighbour: it may replace one that has just died. A host that
// has started anew refuses the next heartbeat.
func (g *greeter) awaitEnd(instance string) {
	ctx, cancel := awake(g.life.ring, handshakeTimeout/2) // the caller waits for as long as that twice
	defer cancel()
	g.changes.until(ctx, func() bool {
		old, phase := g.neighbours.at(left), g.outcome.phase()
		if !old.here() || phase.sealed || phase.leaving || old.who.Instance == instance {
			return true
		}
		state := old.state()
		return state.ended || state.used
	})
}

func (g *greeter) twins(rank int, a identity, aAddr net.Addr, b identity, bAddr net.Addr) *Verdict {
	return g.own.verdict(KindMismatch, rank, "two nodes have index %d: %s (%s) and %s (%s); give every node its own --index", rank, aAddr, a, bAddr, b).Coded(codes.List)
}

// compareLists checks the list that a caller was given against this rank's. Which of the two is
// wrong is not known.
func (g *greeter) compareLists(conn net.Conn, f *oob.Frame, h hello) *Verdict {
	caller, own := h.caller(conn, f), g.own.name(g.own.rank)
	if g.own.listensOnAll() {
		own += ", which listens on all addresses of its node,"
	}
	differ := func(format string, args ...any) *Verdict {
		v := g.own.verdict(KindMismatch, -1, format+": give all nodes the same --list", args...).Coded(codes.List)
		v.Edge = Direction{From: f.Sender, To: g.own.rank, Both: true}
		return v
	}
	switch {
	case h.Size != g.own.size:
		return differ("%s has a list of %d nodes and %s one of %d", caller, h.Size, own, g.own.size)
	case h.Digest == g.own.digest:
		return nil
	}
	for i, e := range h.List {
		if here := g.own.cfg.List[min(i, g.own.size-1)].String(); e != here {
			return differ("%s has another list than %s: entry %d is %s there and %s here", caller, own, i, e, here)
		}
	}
	return differ("%s has another list than %s", caller, own)
}

// compareRanks checks a caller's index against this rank's.
func (g *greeter) compareRanks(conn net.Conn, f *oob.Frame, h hello) *Verdict {
	caller, own, expected := h.caller(conn, f), g.own.name(g.own.rank), g.own.neighbour(left)
	switch {
	case f.Sender == g.own.rank && h.Instance != g.own.self.Instance:
		return g.twins(g.own.rank, g.own.self, g.listener.Addr(), h.identity, conn.RemoteAddr())
	case f.Receiver != g.own.rank:
		return g.own.verdict(KindMismatch, f.Sender, "%s wants rank %d, but %s answers: check entry %d of the list, and each node's --index", caller, f.Receiver, own, f.Receiver).Coded(codes.List)
	case f.Sender != expected || f.Edge != f.Sender:
		return g.own.verdict(KindMismatch, f.Sender, "%s calls %s on edge %d: expected rank %d on edge %d", caller, own, f.Edge, expected, expected).Coded(codes.List)
	}
	return nil
}

// caller says who has sent a hello.
func (h *hello) caller(conn net.Conn, f *oob.Frame) string {
	return fmt.Sprintf("rank %d at %s (%s)", f.Sender, conn.RemoteAddr(), h.identity)
}

// admit has a caller prove that it has the token, where this rank has one, and returns
// the connection with the first frame of what it came for. The error is for the trace: the
// caller has been told what it may know.
func (g *greeter) admit(conn net.Conn, f *oob.Frame) (net.Conn, *oob.Frame, error) {
	sealed, first, err := oob.Admit(conn, g.own.cfg.Token, f)
	if why, ok := errors.AsType[oob.TokenTrouble](err); ok {
		g.reject(conn, f, rejection{Verdict: Verdict{Kind: KindMismatch, Code: codes.Token, Rank: -1, By: g.own.rank, Text: why.Error()}, Token: why})
		err = why.Told(g.own.name(g.own.rank), fmt.Sprintf("who calls as rank %d", f.Sender), sameToken)
	}
	return sealed, first, err
}

// regroup deals with a caller of the same whole list whose ring goes on without other
// nodes than this one's, and reports whether it was one.
func (g *greeter) regroup(conn net.Conn, f *oob.Frame, h hello) bool {
	own := g.own.group
	if h.Group.Whole != own.Whole || slices.Equal(h.Group.Without, own.Without) {
		return false
	}
	phase := g.outcome.phase()
	theirs, here := hosts.Names(g.own.cfg.Whole, h.Group.Without), hosts.Names(g.own.cfg.Whole, own.Without)
	told := func(retry bool, group *Group, format string, args ...any) {
		g.reject(conn, f, rejection{Retry: retry, Group: group, Verdict: *g.own.verdict(KindRegrouped, -1, format, args...)})
	}
	node := g.own.cfg.List[g.own.rank]
	switch {
	case h.Group.Decision > own.Decision && g.own.cfg.Follows && (g.own.cfg.Token != nil || isOfThisHost(conn)):
		told(true, nil, "%s joins the ring without %s now: call again", node, theirs)
		g.outcome.regroup(&h.Group)
	case h.Group.Decision < own.Decision:
		// Who was in a ring before learns that this one goes on; who is new may be awaited
		// the next time.
		told(h.After == 0, &own, "%s is in a ring, or waits for one, without %s", node, here)
	case phase.sealed || phase.over():
		told(true, nil, "%s is in a ring without %s", node, here)
	default:
		g.disagree(conn, f, h, g.own.verdict(KindMismatch, f.Sender, "%s (%s) reconnects without %s, and %s without %s: give all nodes the same --without",
			conn.RemoteAddr(), h.identity, theirs, node, here))
	}
	return true
}

// isOfThisHost tells whether a caller may decide who is in the ring without having proved
// that it has the token: a user of this host may.
func isOfThisHost(conn net.Conn) bool {
	return oob.AddrPort(conn.RemoteAddr()).Addr().IsLoopback()
}
