package soft

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"ringcli/verbs"
	"ringcli/verbs/objects"
)

// Context is an open soft device.
type Context struct {
	objects.Context
	device  device
	options verbs.OpenOptions
	local   netip.Addr
	gids    []netip.Addr
	ep      atomic.Pointer[endpoint]

	binding sync.Mutex // held while ep changes
}

// endpoint returns the context's endpoint, bound on first use.
func (c *Context) endpoint() (*endpoint, error) {
	c.binding.Lock()
	defer c.binding.Unlock()
	if err := c.Live(); err != nil {
		return nil, err
	}
	if ep := c.ep.Load(); ep != nil {
		return ep, nil
	}
	ep, err := attach(c.local, c.options.UDPPort, c.options.OwnPort)
	if err != nil {
		return nil, fmt.Errorf("device %s: %w", c.device.Name(), err)
	}
	c.ep.Store(ep)
	return ep, nil
}

func (c *Context) QueryPort(port int) (verbs.PortAttr, error) {
	if err := c.Port("query", port); err != nil {
		return verbs.PortAttr{}, err
	}
	a, err := c.device.port()
	a.GIDTableSz = len(c.gids)
	return a, err
}

func (c *Context) QueryGID(port, index int) (verbs.GIDEntry, error) {
	if err := c.Live(); err != nil {
		return verbs.GIDEntry{}, err
	}
	if port != 1 || index < 0 || index >= len(c.gids) {
		return verbs.GIDEntry{}, fmt.Errorf("query GID %d of port %d of %s: %w: it has port 1 and GIDs 0 to %d",
			index, port, c.device.Name(), verbs.ErrInvalid, len(c.gids)-1)
	}
	e := verbs.GIDEntry{
		GID: verbs.GIDFromAddr(c.gids[index]), Index: index, Port: 1, Type: verbs.GIDTypeRoCEv2, NetDev: c.device.netdev,
	}
	if ep := c.ep.Load(); ep != nil && c.gids[index] == c.local {
		e.UDPPort = ep.local.Port()
	}
	return e, nil
}

func (c *Context) Progress(last bool) {
	if ep := c.ep.Load(); ep != nil {
		ep.poll(last)
	}
}

func (c *Context) TakeOver() {
	if ep := c.ep.Load(); ep != nil {
		ep.background.TakeOver()
	}
}

// Locate implements objects.Owner: peers reach no memory but over the network.
func (c *Context) Locate(uint64, uint64) (arena, offset uint64) { return 0, 0 }

func (c *Context) Registered(*objects.Region) {}

// Withdrawn implements objects.Owner: regions are looked up under the endpoint's
// lock, so a caller that looked this one up has finished after it.
func (c *Context) Withdrawn(*objects.Region) {
	if ep := c.ep.Load(); ep != nil {
		ep.mu.Lock()
		ep.mu.Unlock() //nolint:staticcheck // empty on purpose: it is a barrier
	}
}

// Counters implements verbs.Context. Contexts on the same address and UDP port
// share a socket, and so its counters.
func (c *Context) Counters(port int) ([]verbs.Counter, error) {
	if err := c.Port("counters of", port); err != nil {
		return nil, err
	}
	ep := c.ep.Load()
	if ep == nil {
		return objects.Counters(&portCounters{}), nil
	}
	ep.mu.Lock()
	defer ep.mu.Unlock()
	sum := ep.port
	for _, q := range ep.qps {
		objects.AddCounters(&sum.Counters, &q.counts)
	}
	return objects.Counters(&sum), nil
}

func (c *Context) Close() error {
	if first, err := c.Shut(); !first {
		return err
	}
	c.binding.Lock()
	defer c.binding.Unlock()
	if ep := c.ep.Swap(nil); ep != nil {
		return ep.detach()
	}
	return nil
}
