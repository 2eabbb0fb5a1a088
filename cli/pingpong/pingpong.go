// Package pingpong speaks the protocol of rdma-core's ibv_rc_pingpong, over any
// provider: two ends tell each other over TCP of their queue pairs, then send one
// message there and back, again and again.
package pingpong

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"ringcli/cli/endpoint"
	"ringcli/configs/usage"
	"ringcli/verbs"
	"ringcli/verbs/route"
)

// The stock tool's defaults.
const (
	DefaultPort  = 18515
	DefaultSize  = 4096
	DefaultMTU   = 1024
	DefaultDepth = 500
	DefaultIters = 1000
)

// Options say what to do.
type Options struct {
	endpoint.Options
	Host    string     // of the server; "" is the server itself
	Bind    netip.Addr // to listen on or to speak from; zero: any
	TCPPort int
	Size    int // bytes of each message
	Depth   int // receives to post
	Iters   int // messages each way
	Events  bool
	Check   bool
	Timeout time.Duration `setting:"timeout"` // of each wait
	// Waiting is told what is being waited for, and since when; what it returns is called
	// once that has come. Local and Remote are told the addresses as soon as they are known;
	// an error of theirs, such as of an output that is gone, ends it all.
	Waiting       func(what string, since time.Time) (done func())
	Local, Remote func(Address) error
	// RoundTrip is told of each round trip.
	RoundTrip func(time.Duration)
}

// IsServer tells which end this is.
func (o *Options) IsServer() bool { return o.Host == "" }

// Run does all of it, as the server or the client. The result lacks the round trips.
func Run(ctx context.Context, o Options) (r PingpongResult, err error) {
	e := &end{Endpoint: &endpoint.Endpoint{Options: o.Options}, o: &o}
	if name := o.Device; name != "" && name != route.Auto {
		// One that is not there is refused before anybody waits for it.
		if _, _, err := route.Device(name, o.Bind); err != nil {
			return r, usage.Errorf("%v", err)
		}
	}
	m, err := meet(ctx, &o)
	if err != nil {
		return r, e.cause(ctx, err)
	}
	defer func() { _ = m.conn.Close() }()
	defer func() { err = errors.Join(err, e.Close()) }()
	e.Local, e.peer = m.local, m.peer
	if err := e.prepare(); err != nil {
		return r, err
	}
	r = newPingpongResult(e)
	if err := o.Local(r.Local); err != nil {
		return r, err
	}
	if r.Remote, err = e.swapAddresses(ctx, m); err != nil {
		return r, e.cause(ctx, err)
	}
	elapsed, unacknowledged, err := e.play(ctx)
	r.timed(elapsed)
	r.Unacknowledged = unacknowledged
	return r, e.cause(ctx, err)
}

// cause is why the context ended, if that is why there is an error.
func (e *end) cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// end is this end: the endpoint and its queue pair.
type end struct {
	*endpoint.Endpoint
	o       *Options
	pair    *endpoint.Pair
	peer    netip.AddrPort
	address Address
	remote  Address
	player
}

// prepare makes all that there must be before the peer may send.
func (e *end) prepare() (err error) {
	if err := e.Open(e.peer.Addr()); err != nil {
		return err
	}
	if e.Attr.UDPSocket && !e.o.IsServer() && e.Local == e.peer.Addr() && e.Local.Is4() {
		// The server speaks from this address, too, which has the port once.
		if err := e.Close(); err != nil {
			return err
		}
		e.Endpoint = &endpoint.Endpoint{Options: e.o.Options, Local: spareAddr()}
		if err := e.Open(e.peer.Addr()); err != nil {
			return err
		}
	}
	if _, err := e.MTU(); err != nil {
		return usage.Errorf("%v", err)
	}
	if err := e.AllocPD(); err != nil {
		return err
	}
	if err := e.CreateCQ(e.o.Depth + 1); err != nil {
		return fmt.Errorf("create a completion queue of %d (--rx-depth and one): %w", e.o.Depth+1, err)
	}
	e.pair = e.NewPair()
	if err := e.pair.Register(e.memory(), verbs.AccessLocalWrite); err != nil {
		return err
	}
	if err := e.pair.Create(1, e.o.Depth); err != nil {
		return fmt.Errorf("create a queue pair of %d receives (--rx-depth): %w", e.o.Depth, err)
	}
	if err := e.pair.ToInit(0); err != nil {
		return err
	}
	if err := e.start(); err != nil {
		return err
	}
	return e.describe()
}

// spareAddr is a loopback address that nobody has RoCE's UDP port of.
func spareAddr() netip.Addr {
	addr := netip.AddrFrom4([4]byte{127, 0, 0, 2})
	for ; addr.As4()[3] < 255; addr = addr.Next() {
		if c, err := net.ListenPacket("udp4", netip.AddrPortFrom(addr, route.RoCEPort).String()); err == nil {
			_ = c.Close() // nothing was sent
			break
		}
	}
	return addr // of which it is said that its port is taken
}

func (e *end) describe() error {
	entry, err := e.GIDEntry()
	if err != nil {
		return err
	}
	// The peer may be an adapter, and has no way to be told another port.
	if e.Attr.UDPSocket && entry.UDPPort != route.RoCEPort {
		return fmt.Errorf("UDP port %d of %s is taken by another process (ss -lunp), and the peer sends to no other: end that, or speak from another address (--bind ADDRESS)",
			route.RoCEPort, entry.GID.Addr())
	}
	e.address = Address{LID: e.Port.Attr.LID, QPN: e.pair.QP.Num(), PSN: e.pair.PSN}
	if e.Port.Attr.LinkLayer != verbs.LinkInfiniBand || e.o.GIDIndex != nil {
		e.address.GID = entry.GID
	}
	return nil
}

func (e *end) connect(to Address) error {
	mtu, err := e.MTU()
	if err != nil {
		return err
	}
	e.remote = to
	if err := e.pair.ToRTR(endpoint.Remote{Remote: route.Remote{GID: to.GID, LID: to.LID}, QPN: to.QPN, PSN: to.PSN, MTU: mtu}); err != nil {
		return fmt.Errorf("connect to %s at %s: %w", to, e.peer, err)
	}
	return e.pair.ToRTS()
}

// swapAddresses tells the peer of this end, and the other way round. The client speaks
// first; the server answers once it can receive.
func (e *end) swapAddresses(ctx context.Context, m *meeting) (to Address, err error) {
	// Closing ends its reads at once.
	defer context.AfterFunc(ctx, func() { _ = m.conn.Close() })()
	if e.o.IsServer() {
		if err := e.o.Remote(m.first); err != nil {
			return to, err
		}
		if err := e.connect(m.first); err != nil {
			return to, err
		}
		return m.first, m.answer(e.address, e.o.Timeout)
	}
	if to, err = m.ask(e.address, e.o.Timeout); err != nil {
		return to, err
	}
	if err := e.o.Remote(to); err != nil {
		return to, err
	}
	return to, e.connect(to)
}

// MaxSize is the longest message of a queue pair, in bytes (specification 1.4, 9.7.7).
const MaxSize = 1 << 31
