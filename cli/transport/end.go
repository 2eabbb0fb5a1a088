package transport

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"ringcli/cli/exit"
	"ringcli/cli/session"
	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/oob"
	"ringcli/verbs"
	"ringcli/verbs/route"
	"ringcli/verbs/transport"
)

// settings are those of an end.
type settings struct {
	Device       string        `setting:"device"`
	Port         int           `setting:"port"`
	GIDIndex     *int          `setting:"gid-index"`
	SL           uint8         `setting:"sl"`
	TrafficClass uint8         `setting:"traffic-class"`
	Timeout      time.Duration `setting:"timeout"`
	Inject       string        `setting:"inject"`
}

func settingsOf(s *session.Session) settings {
	var o settings
	s.Config.Fill(&o)
	return o
}

// open makes a transport that speaks from an address, where the device is one that has it.
func (o *settings) open(local netip.Addr) (*transport.Transport, error) {
	faults, err := faultsOf(o.Inject)
	if err != nil {
		return nil, err
	}
	t, err := transport.New(transport.Options{
		Device: o.Device, Local: o.localOf(local), Port: o.Port, GIDIndex: o.GIDIndex, Timeout: o.Timeout,
		Service: route.Service{SL: o.SL, TrafficClass: o.TrafficClass}, Faults: faults,
	})
	if errors.Is(err, transport.ErrUnsupported) {
		return nil, usage.Codedf(codes.NoDevice, "%w", err)
	}
	return t, coded(err)
}

// faultsOf are the faults of this end, which knows no ranks.
func faultsOf(text string) (verbs.Faults, error) {
	faults, err := verbs.ParseFaults(text)
	if err != nil {
		return faults, exit.Usagef("inject %q: %w", text, err)
	}
	for _, f := range faults.List {
		if f.On >= 0 || f.Peer >= 0 {
			return faults, exit.Usagef("inject %q: names a rank, and a transport has none: expected faults of this end's packets alone, such as %q", text, "soft: loss 1%")
		}
	}
	return faults, nil
}

// localOf is the address if the device is of software and its interface has it.
func (o *settings) localOf(local netip.Addr) netip.Addr {
	if !local.IsValid() || o.GIDIndex != nil {
		return netip.Addr{}
	}
	d, _, err := route.Device(o.Device, local)
	if err != nil || o.Device == route.Auto { // which takes an RDMA device here, or none
		return netip.Addr{}
	}
	provider, name, _ := strings.Cut(d.Name(), ":")
	for _, p := range verbs.Providers() {
		if i, err := route.NetDev(local); p.Name() == provider && p.Capabilities().UDPSocket && err == nil && i.Name == name {
			return local
		}
	}
	return netip.Addr{}
}

// coded gives an error of a transport the code and the exit code that commands have for it.
func coded(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, transport.ErrPeerAbsent):
		return codes.With(codes.Absent, err)
	case errors.Is(err, transport.ErrPeerLost):
		return codes.With(codes.RetryExceeded, err)
	case errors.Is(err, transport.ErrDeadline):
		return codes.With(codes.Timeout, err)
	}
	return usage.If(err, transport.ErrInvalidArgument)
}

// opening is what an end says of its transport.
type opening struct {
	URL    string `json:"url"`
	Device string `json:"device"`
	Why    string `json:"why"`
}

// The messages with it: the client's and the server's.
const (
	kindOpen   = "open"
	kindOpened = "opened"
)

// bound is a transport with what the peer must know of it.
func (o *settings) bound(local netip.Addr) (*transport.Transport, opening, error) {
	t, err := o.open(local)
	if err != nil {
		return nil, opening{}, err
	}
	url, err := t.Bind()
	if err != nil {
		return nil, opening{}, errors.Join(coded(err), t.Close())
	}
	device, why := t.Device()
	return t, opening{url, device, why}, nil
}

// call has this end's transport connected with that of the server.
func (o *settings) call(ctx context.Context, c *oob.Conn) (t *transport.Transport, own, peer opening, err error) {
	if t, own, err = o.bound(c.Local()); err != nil {
		return nil, own, peer, err
	}
	if err = c.Send(kindOpen, own); err == nil {
		err = c.Receive(ctx, kindOpened, &peer)
	}
	if err == nil {
		err = coded(t.Connect(ctx, peer.URL))
	}
	if err != nil {
		return nil, own, peer, errors.Join(err, t.Close())
	}
	return t, own, peer, nil
}

// answer is what the server does of it.
func (o *settings) answer(ctx context.Context, c *oob.Conn) (t *transport.Transport, own opening, err error) {
	var peer opening
	if err := c.Receive(ctx, kindOpen, &peer); err != nil {
		return nil, own, err
	}
	if t, own, err = o.bound(c.Local()); err != nil {
		return nil, own, err
	}
	if err = coded(t.Connect(ctx, peer.URL)); err == nil {
		err = c.Send(kindOpened, own)
	}
	if err != nil {
		return nil, own, errors.Join(err, t.Close())
	}
	return t, own, nil
}

// loopback is where a server listens unless --bind says otherwise.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// bindOf is the address of --bind.
func bindOf(text string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return addr, exit.Usagef("transport serve --bind %q: expected an IP address of this machine, or 0.0.0.0 for all of them", text)
	}
	return addr, nil
}

// DefaultPort is the server's. Rings have those from 18600 on.
const DefaultPort = 18700

// Protocol is what the two ends speak over TCP.
var Protocol = &oob.Protocol{
	Type: "transport", Version: 2, Server: "the server", Client: "the client", Program: "`ringcli transport serve`", Absent: "no server has answered",
	SameToken: "give both ends the same --token-file or RINGCLI_TOKEN",
}

// dial calls a server.
func dial(ctx context.Context, s *session.Session, address string, timeout time.Duration) (*oob.Conn, error) {
	token, _, err := s.Secrets.Token(s.Config)
	if err != nil {
		return nil, err
	}
	since := time.Now()
	d := oob.Caller{Protocol: Protocol, Token: token, Timeout: timeout, Hello: oob.Hello{Name: transport.ProcessName(), Purpose: purposeBench}}
	c, err := d.Call(ctx, netip.Addr{}, address, func() func() { return s.Await(ctx, since, "a server on "+address) })
	if err != nil {
		return nil, fmt.Errorf("transport bench: %w", err)
	}
	return c, nil
}
