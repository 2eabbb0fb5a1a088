package shm

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"ringcli/verbs"
	"ringcli/verbs/objects"
	"ringcli/verbs/shm/memfd"
)

// Context is the open device: what other processes of this host find by its GID.
type Context struct {
	objects.Context
	key    memfd.Key
	hub    *memfd.Hub
	memory *memfd.Arena // the directory's
	own    *directory
	qps    atomic.Pointer[[]*qp] // replaced with mu held, read without

	background objects.Background

	mu      sync.Mutex
	remotes map[memfd.Key]*remote // guarded by mu, as all below
	past    counters              // of queue pairs that are closed
}

func newContext() (*Context, error) {
	m, err := memfd.Create(directorySize)
	if err != nil {
		return nil, err
	}
	c := &Context{
		memory: m, own: directoryOf(m.Addr()), remotes: make(map[memfd.Key]*remote),
	}
	// fd marks an address that is unique without any authority (RFC 4193).
	_, _ = rand.Read(c.key[:]) // never fails
	c.key[0] = 0xfd
	binary.BigEndian.PutUint32(c.key[12:], uint32(m.ID()))
	c.Init(c, device{}, &limits, binary.BigEndian.Uint64(c.key[:]))
	if c.hub, err = memfd.Listen(c.key); err != nil {
		return nil, errors.Join(err, m.Free())
	}
	c.hub.OnChange = c.own.wake
	c.qps.Store(new([]*qp))
	c.background.Start(func() { c.progressAll() }, c.sleepAndProgress)
	return c, nil
}

// directoryID is the ID of the directory of the Context that has a key.
func directoryID(k memfd.Key) uint64 { return uint64(binary.BigEndian.Uint32(k[12:])) }

func (c *Context) QueryPort(n int) (verbs.PortAttr, error) {
	return port, c.Port("state of", n)
}

// QueryGID implements verbs.Context. The GID is this Context's own.
func (c *Context) QueryGID(n, index int) (verbs.GIDEntry, error) {
	if err := c.Live(); err != nil {
		return verbs.GIDEntry{}, err
	}
	if n != 1 || index != 0 {
		return verbs.GIDEntry{}, fmt.Errorf("query GID %d of port %d of shm:0: %w: it has port 1 and GID 0 only", index, n, verbs.ErrInvalid)
	}
	return verbs.GIDEntry{GID: verbs.GID(c.key), Port: 1, Type: verbs.GIDTypeIB}, nil
}

// AllocMemory implements verbs.Allocator: memory that peers can map.
func (c *Context) AllocMemory(length uint64) (verbs.Memory, error) {
	if err := c.Live(); err != nil {
		return nil, err
	}
	return provider{}.AllocMemory(length)
}

// AdoptMemory implements verbs.Adopter.
func (c *Context) AdoptMemory(addr, length uint64, move bool) (verbs.Memory, error) {
	if err := c.Live(); err != nil {
		return nil, err
	}
	m, err := memfd.Adopt(addr, length, move)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Locate implements objects.Owner: memory of an arena can be mapped by peers.
func (c *Context) Locate(addr, length uint64) (id, offset uint64) {
	a, offset, ok := memfd.Find(addr, length)
	if !ok {
		return 0, 0
	}
	return a.ID(), offset
}

// TakeOver implements objects.Owner: the goroutine stops watching and takes part.
func (c *Context) TakeOver() { c.background.TakeOver() }

// Progress implements objects.Owner. A queue pair that somebody else is at is
// left to them.
func (c *Context) Progress(last bool) {
	c.background.Polled()
	for _, q := range *c.qps.Load() {
		if q.mu.TryLock() {
			q.progress(last)
			q.mu.Unlock()
		}
	}
}

// Registered implements objects.Owner: it tells peers where the region lies.
func (c *Context) Registered(r *objects.Region) {
	if r.Arena == 0 {
		return
	}
	c.own.regions[objects.Row(r.RKey())].tell(r.RKey(), uint32(r.Access()), r.Addr(), r.Length(), r.Arena, r.Offset)
}

// Withdrawn implements objects.Owner: it revokes what refers to the region.
// Regions are looked up under the lock of a queue pair.
func (c *Context) Withdrawn(r *objects.Region) {
	if r.Arena != 0 {
		atomic.CompareAndSwapUint32(&c.own.regions[objects.Row(r.RKey())].key, r.RKey(), 0)
	}
	for _, q := range *c.qps.Load() {
		q.mu.Lock()
		q.withdraw(r.RKey())
		q.mu.Unlock()
	}
}

// add makes a queue pair known to Progress, and gives it a number.
func (c *Context) add(q *qp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := *c.qps.Load()
	q.QPN = objects.NewQPN(func(n uint32) bool {
		return n%rows < firstRow || slices.ContainsFunc(list, func(other *qp) bool { return other.QPN%rows == n%rows })
	})
	list = append(slices.Clone(list), q)
	c.qps.Store(&list)
}

func (c *Context) remove(q *qp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(*c.qps.Load()), func(other *qp) bool { return other == q })
	c.qps.Store(&list)
	objects.AddCounters(&c.past, &q.conn.counters)
}

func (c *Context) Counters(n int) ([]verbs.Counter, error) {
	if err := c.Port("counters of", n); err != nil {
		return nil, err
	}
	c.mu.Lock()
	sum, list := c.past, *c.qps.Load()
	c.mu.Unlock()
	for _, q := range list {
		q.mu.Lock()
		objects.AddCounters(&sum, &q.conn.counters)
		q.mu.Unlock()
	}
	sum.Sent = sum.Requests
	return objects.Counters(&sum), nil
}

func (c *Context) Close() error {
	if first, err := c.Shut(); !first {
		return err
	}
	c.background.Stop(func() {
		atomic.AddUint32(c.own.doorbell, 1)
		_ = memfd.Wake(c.own.doorbell)
	})
	return errors.Join(c.hub.Close(), c.memory.Free())
}

func init() { verbs.Register(provider{}) }

// limits are what the device can do. Its atomics are the CPU's own. A poll that finds
// nothing is a few loads, so that some 300 of them take as long as a yield.
var limits = func() verbs.DeviceAttr {
	a := objects.Limits()
	a.Capabilities = verbs.Capabilities{HostLocal: true}
	a.FirmwareVersion, a.MaxQP, a.AtomicCap, a.MaxSpins = "shared memory", rows-firstRow, verbs.AtomicGlobal, 300
	return a
}()

type provider struct{}

func (provider) Name() string { return "shm" }

// AllocMemory implements verbs.Allocator: what Context.AllocMemory returns needs no Context.
func (provider) AllocMemory(length uint64) (verbs.Memory, error) {
	a, err := memfd.Create(length)
	if err != nil {
		return nil, err
	}
	return a, nil
}

func (provider) Capabilities() verbs.Capabilities { return limits.Capabilities }
func (provider) Devices() ([]verbs.Device, error) { return []verbs.Device{device{}}, nil }

// device is the memory of this host.
type device struct{}

func (device) Name() string { return "shm:0" }

// Open implements verbs.Device. LocalAddr and UDPPort mean nothing here.
func (d device) Open(verbs.OpenOptions) (verbs.Context, error) {
	c, err := newContext()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", d.Name(), err)
	}
	return c, nil
}

// port is the device's one port.
var port = verbs.PortAttr{
	State: verbs.PortActive, PhysState: "LinkUp", MaxMTU: verbs.MTU4096, ActiveMTU: verbs.MTU4096,
	MaxMsgSz: verbs.MaxMessage, GIDTableSz: 1, PKeyTableSz: 1, MaxVLNum: 1,
}
