package verbstest

import (
	"math/rand/v2"
	"testing"

	"ringcli/verbs"
	"ringcli/verbs/memory"
)

const (
	rightsAll = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

	maskInit = verbs.AttrState | verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrAccess
	maskRTR  = verbs.AttrState | verbs.AttrAV | verbs.AttrPathMTU | verbs.AttrDestQPN | verbs.AttrRQPSN |
		verbs.AttrMaxDestRDAtomic | verbs.AttrMinRNRTimer
	maskRTS = verbs.AttrState | verbs.AttrTimeout | verbs.AttrRetryCnt | verbs.AttrRNRRetry | verbs.AttrSQPSN |
		verbs.AttrMaxRDAtomic
)

// config says what connect builds. Tests edit the defaults.
type config struct {
	Cap      verbs.QPCap
	CQE      int
	SharedCQ bool // one queue for sends and receives
	SigAll   bool
	Memory   uint64       // bytes of each side's region
	Access   verbs.Access // of each side's region
	StopAt   verbs.QPState
	A, B     verbs.QPAttr // A.SQPSN = B.RQPSN and so on, unless edited
}

// side is an opened context with a protection domain and one registered buffer.
type side struct {
	Endpoint
	name string
	port verbs.PortAttr
	gid  verbs.GIDEntry
	dev  verbs.DeviceAttr
	pd   verbs.PD
	ch   verbs.CompChannel
	buf  *memory.Block
	mr   verbs.MR
}

// end is a queue pair with its completion queues.
type end struct {
	*side
	qp         verbs.QP
	send, recv *queue
	attr       verbs.QPAttr // what it was, or is to be, connected with
}

// pair is two queue pairs that speak with each other.
type pair struct {
	*rig
	a, b *end
}

// rig is all that one test has open.
type rig struct {
	t      *testing.T
	h      Harness
	a, b   *side
	queues []*queue
}

// open opens both contexts. Everything made from a rig is closed when its test
// ends, youngest first, and must close without an error.
func open(t *testing.T, h Harness, memoryBytes uint64, access verbs.Access) *rig {
	t.Helper()
	a, b := h.Open(t)
	r := &rig{t: t, h: h}
	r.a, r.b = r.side("a", a, memoryBytes, access), r.side("b", b, memoryBytes, access)
	return r
}

func (r *rig) side(name string, ep Endpoint, memoryBytes uint64, access verbs.Access) *side {
	r.t.Helper()
	if ep.Port == 0 {
		ep.Port = 1
	}
	s := &side{Endpoint: ep, name: name}
	r.closes(name+"'s context", ep.Context)
	var err error
	s.dev, err = ep.Context.QueryDevice()
	r.ok(err, "query the device")
	s.port, err = ep.Context.QueryPort(ep.Port)
	r.ok(err, "query the port")
	s.gid, err = ep.Context.QueryGID(ep.Port, ep.GIDIndex)
	r.ok(err, "query the GID")
	s.pd, err = ep.Context.AllocPD()
	r.ok(err, "allocate a PD")
	r.closes(name+"'s PD", s.pd)
	s.ch, err = ep.Context.CreateCompChannel()
	r.ok(err, "create a completion channel")
	r.closes(name+"'s channel", s.ch)
	s.buf, s.mr = r.region(s.pd, memoryBytes, access)
	return s
}

// region registers fresh memory.
func (r *rig) region(pd verbs.PD, n uint64, access verbs.Access) (*memory.Block, verbs.MR) {
	r.t.Helper()
	buf, err := memory.Alloc(n)
	r.ok(err, "allocate memory")
	r.t.Cleanup(func() { _ = buf.Free() })
	mr, err := pd.RegMR(buf.Addr(), n, access)
	r.ok(err, "register %d bytes with %s", n, access)
	r.closes("a region", mr)
	return buf, mr
}

func (r *rig) closes(what string, c interface{ Close() error }) {
	r.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			r.t.Errorf("close %s: %v", what, err)
		}
	})
}

func (r *rig) ok(err error, format string, args ...any) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf(format+": %v", append(args, err)...)
	}
}

// connect opens both contexts and connects one pair of queue pairs.
func connect(t *testing.T, h Harness, edit ...func(*config)) *pair {
	t.Helper()
	c := newConfig(t, h, edit)
	r := open(t, h, c.Memory, c.Access)
	return r.connect(r.a, r.b, edit...)
}

func newConfig(t testing.TB, h Harness, edit []func(*config)) *config {
	psn := [2]uint32{rand.Uint32() >> 8, rand.Uint32() >> 8}
	t.Logf("first PSNs: a %#06x, b %#06x", psn[0], psn[1])
	attr := verbs.QPAttr{
		Access: rightsAll, MaxRDAtomic: 4, MaxDestRDAtomic: 4, PortNum: 1,
		MinRNRTimer: 1, Timeout: h.Timeout, RetryCnt: 6, RNRRetry: 7,
	}
	if h.Impaired {
		attr.RetryCnt = 7
	}
	c := &config{
		Cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 4, MaxRecvSGE: 4},
		CQE: 256, Memory: 1 << 20, Access: rightsAll, StopAt: verbs.StateRTS, A: attr, B: attr,
	}
	c.A.SQPSN, c.B.RQPSN = psn[0], psn[0]
	c.B.SQPSN, c.A.RQPSN = psn[1], psn[1]
	for _, e := range edit {
		e(c)
	}
	return c
}

// connect makes a pair of queue pairs between two sides, which may be one side.
func (r *rig) connect(a, b *side, edit ...func(*config)) *pair {
	r.t.Helper()
	c := newConfig(r.t, r.h, edit)
	l := &pair{rig: r, a: r.end(a, c, c.A), b: r.end(b, c, c.B)}
	l.address(l.a, l.b)
	l.address(l.b, l.a)
	l.up(l.a, c.StopAt)
	l.up(l.b, c.StopAt)
	return l
}

// end creates a queue pair in RESET.
func (r *rig) end(s *side, c *config, attr verbs.QPAttr) *end {
	r.t.Helper()
	e := &end{side: s, attr: attr}
	e.send = r.queue(s, s.name+"'s send queue", c.CQE)
	e.recv = e.send
	if !c.SharedCQ {
		e.recv = r.queue(s, s.name+"'s receive queue", c.CQE)
	}
	e.qp = r.newQP(e, c.Cap, c.SigAll)
	return e
}

func (r *rig) newQP(e *end, limits verbs.QPCap, sigAll bool) verbs.QP {
	r.t.Helper()
	limits.MaxSendSGE = min(limits.MaxSendSGE, e.dev.MaxSGE)
	limits.MaxRecvSGE = min(limits.MaxRecvSGE, e.dev.MaxSGE)
	if e.dev.MaxInline > 0 { // else the device does not say
		limits.MaxInlineData = min(limits.MaxInlineData, e.dev.MaxInline)
	}
	qp, err := e.pd.CreateQP(verbs.QPInitAttr{
		SendCQ: e.send.cq, RecvCQ: e.recv.cq, Type: verbs.RC, SigAll: sigAll, Cap: limits,
	})
	r.ok(err, "create %s's queue pair", e.name)
	r.closes(e.name+"'s queue pair", qp)
	return qp
}

// address fills in what e must know of its peer and was not set by the test.
func (r *rig) address(e, peer *end) {
	r.t.Helper()
	// Asked again: a socket may have been bound when the queue pair was created.
	gid, err := peer.Context.QueryGID(peer.Port, peer.GIDIndex)
	r.ok(err, "query %s's GID", peer.name)
	if e.attr.PathMTU == 0 {
		e.attr.PathMTU = min(e.port.ActiveMTU, peer.port.ActiveMTU, verbs.MTU1024)
	}
	if e.attr.DestQPN == 0 {
		e.attr.DestQPN = peer.qp.Num()
	}
	e.attr.PortNum = e.Port
	e.attr.AH = verbs.AHAttr{
		IsGlobal: true, PortNum: e.Port, DLID: peer.port.LID,
		GRH: verbs.GlobalRoute{DGID: gid.GID, SGIDIndex: e.GIDIndex, HopLimit: 1},
		UDP: verbs.UDPPeer{Port: gid.UDPPort, LowIPIDs: peer.dev.UDPSocket},
	}
}

// up takes a queue pair from RESET to a state, step by step.
func (r *rig) up(e *end, to verbs.QPState) {
	r.t.Helper()
	for _, step := range []struct {
		state verbs.QPState
		mask  verbs.AttrMask
	}{{verbs.StateInit, maskInit}, {verbs.StateRTR, maskRTR}, {verbs.StateRTS, maskRTS}} {
		if step.state > to {
			return
		}
		r.modify(e, step.state, step.mask)
	}
}

func (r *rig) modify(e *end, to verbs.QPState, mask verbs.AttrMask) {
	r.t.Helper()
	attr := e.attr
	attr.State = to
	r.ok(e.qp.Modify(attr, mask|verbs.AttrState), "modify %s's queue pair to %s", e.name, to)
}

// state reads a queue pair's state.
func (e *end) state(t testing.TB) verbs.QPState {
	t.Helper()
	attr, _, err := e.qp.Query()
	if err != nil {
		t.Fatalf("query %s's queue pair: %v", e.name, err)
	}
	return attr.State
}

// mtus are the path MTUs that both ports can do.
func (r *rig) mtus() (all []verbs.MTU) {
	for m := verbs.MTU256; m <= min(r.a.port.ActiveMTU, r.b.port.ActiveMTU); m++ {
		all = append(all, m)
	}
	return all
}

// mtu is the pair's path MTU in bytes.
func (l *pair) mtu() int { return l.a.attr.PathMTU.Bytes() }
