package bootstrap

import (
	"cmp"
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/bootstrap/seal"
	"ringcli/trace"
)

// Config says who this node is and how it reaches the others.
type Config struct {
	List []hosts.Node
	Rank int
	// Names are what people call the hosts, where the list has addresses; nil is none.
	Names map[hosts.Node]string
	// Whole is the list that all nodes were given, and Without its entries that List is
	// without, by the leader's decision of that number; nil means List.
	Whole    []hosts.Node
	Without  []int
	Decision uint64
	// Follows has a leader that has decided later end the bring-up, with a Verdict that
	// says who is in the ring now.
	Follows bool
	// Diagnosing tells the other ranks that this one asks for the control ring alone.
	Diagnosing bool
	// Addrs are the list's addresses, an invalid one of an entry whose name has none yet:
	// SetAddrs comes before Exchange then.
	Addrs []netip.AddrPort
	// Bind is where to listen; an unspecified address means all.
	Bind netip.AddrPort
	// Death is how long it may take until a host or a network that is down is told, 0 means
	// 1.5 s; Silence is how long a neighbour may say nothing whose host answers, 0 means 5 s:
	// it is stopped or stuck. Neither counts while Moved of it goes on.
	Death, Silence time.Duration
	// ByHand is for steps that an operator takes: an Exchange whose deadline
	// passes can be repeated, and does not end the ring.
	ByHand bool
	// Moved counts whatever moves between this rank and a neighbour besides TCP; nil counts
	// nothing.
	Moved func(rank int) uint64
	// OnFailure is called once, with the first verdict, from a goroutine of the
	// Control or of whoever calls Fail. It must not call Close.
	OnFailure func(*Verdict)
	// Review, if set, is asked about the verdict that this rank has on a ring that did not come
	// up, before the others are told, and returns it, or one that says more.
	Review func(context.Context, *Verdict) *Verdict
	// Answer answers the questions that a neighbour put with Ask; from is its
	// rank and side (0 left, 1 right) is this rank's side of the edge. What it
	// returns goes back as JSON, an error as *AnswerError. Each call runs on a
	// goroutine of the Control, at most 16 for each connection at a time, and may
	// wait: its context ends with the asker's deadline, when the asker gives up,
	// when the ring fails, with the connection and with Close, which waits for it. It is
	// not called before Exchange, and must not call Close. nil refuses all.
	Answer func(ctx context.Context, kind string, from, side int, payload json.RawMessage) (any, error)
	// History is what the process remembers of earlier rings; nil is nothing.
	History *History
	// Token, if set, is what every rank of the ring must have, too.
	Token *seal.Token
	// Waits, if set, are told what this rank waits for.
	Waits *Waits
	// Clock and Sample replace trace.Clock and trace.AddClockSample, for tests in
	// which several ranks share a process.
	Clock  func() int64
	Sample func(peer int, at, offset, rtt int64)
	// Listen and Dial replace net's, for tests that stall or cut connections.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

// The neighbours, seen from a rank.
const (
	left  = 0 // dials this rank
	right = 1 // dialled by this rank
)

const (
	// handshakeTimeout is how long a connection may take for its first frame.
	// A live node answers within a round trip; a busy one within a time slice.
	handshakeTimeout = 3 * time.Second
	// dialTimeout is how long a call may take: one SYN may be lost.
	dialTimeout = 2 * time.Second
	// dialPause bounds the pause between two dials: short enough that the last
	// node to start is found at once, long enough not to load it.
	dialPauseMin, dialPauseMax = 20 * time.Millisecond, 250 * time.Millisecond
	// maxBeat bounds the pause between two signs of life, however long Death is: the
	// neighbour's may be shorter.
	maxBeat = 250 * time.Millisecond
	// clockPause is the pause between two comparisons of clocks.
	clockPause = time.Second
	// goodbyeGrace is how long what is under way may take to end after a
	// neighbour's goodbye, before the ring counts as broken.
	goodbyeGrace = time.Second
	// linger is how long Goodbye waits for the neighbours' goodbyes, flush how
	// long Close lets the last frames take.
	linger, flush = 250 * time.Millisecond, 500 * time.Millisecond
)

// A peer that vanishes with its host is noticed by the kernel in 35 s.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 4}

// shortest is the segment size that every path takes (RFC 9293, section 3.7.1), and
// shortSegments has a caller and whom it calls send none longer: where the MTU of a path
// shrinks, the control ring is to tell so.
const shortest = 536

func shortSegments(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, shortest) // without, long ones do
	})
}

// withDefaults sets what the caller has left out.
func (cfg Config) withDefaults() Config {
	if cfg.Whole == nil {
		cfg.Whole = cfg.List
	}
	if cfg.History == nil {
		cfg.History = &History{}
	}
	cfg.Death, cfg.Silence = cmp.Or(cfg.Death, 1500*time.Millisecond), cmp.Or(cfg.Silence, 5*time.Second)
	if cfg.Clock == nil {
		cfg.Clock = trace.Clock
	}
	if cfg.Sample == nil {
		cfg.Sample = trace.AddClockSample
	}
	if cfg.Listen == nil {
		lc := net.ListenConfig{KeepAliveConfig: keepAlive}
		cfg.Listen = lc.Listen
	}
	if cfg.Dial == nil {
		// Go sets TCP_NODELAY on its own.
		d := net.Dialer{Timeout: dialTimeout, KeepAliveConfig: keepAlive, Control: shortSegments}
		cfg.Dial = d.DialContext
	}
	return cfg
}
