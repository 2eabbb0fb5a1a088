package objects

import (
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"sync/atomic"

	"ringcli/verbs"
)

// Context is what the Contexts of providers have alike: the device with its one
// port, the regions, and the count of what is open, which is closed first:
// protection domains, completion queues and channels. A provider's Context embeds it.
type Context struct {
	owner      Owner
	device     verbs.Device
	limits     *verbs.DeviceAttr
	table      Table
	guid       uint64
	queuePairs atomic.Int64
	domains    atomic.Uint32 // numbers given to them
	// children, or shut. A closed Context has none, and gets none.
	children atomic.Int64
}

const shut = math.MinInt64

// Limits are what all devices in software can do, for a provider to add to. Queues and
// messages cost memory only; the depth of READs and atomics is that of common NICs.
// There are no shared receive queues, multicast, memory windows or address handles.
func Limits() verbs.DeviceAttr {
	return verbs.DeviceAttr{
		Transport:         "InfiniBand (0)",
		MaxMRSize:         1 << 47,
		PageSizeCap:       uint64(os.Getpagesize()),
		CapFlags:          rcRNRNakGen,
		MaxQPWR:           1 << 15,
		MaxSGE:            32,
		MaxSGERD:          32,
		MaxCQ:             1 << 16,
		MaxCQE:            1 << 22,
		MaxMR:             maxRegions,
		MaxPD:             1 << 16,
		MaxQPRDAtomic:     128,
		MaxResRDAtomic:    128 << 16, // of all queue pairs
		MaxQPInitRDAtomic: 128,
		MaxPKeys:          1, // the default partition's
		MaxInline:         1024,
		PhysPorts:         1,
	}
}

// rcRNRNakGen is IBV_DEVICE_RC_RNR_NAK_GEN: a SEND without a receive for it is refused,
// to come again.
const rcRNRNakGen = 1 << 12

// Init makes it the owner's, of a device that can do so much and has this GUID.
func (c *Context) Init(owner Owner, device verbs.Device, limits *verbs.DeviceAttr, guid uint64) {
	c.owner, c.device, c.limits, c.guid = owner, device, limits, guid
}

// QueryDevice implements verbs.Context. The device has one port, and so one GUID.
func (c *Context) QueryDevice() (verbs.DeviceAttr, error) {
	if err := c.Live(); err != nil {
		return verbs.DeviceAttr{}, err
	}
	a := *c.limits
	a.NodeGUID, a.SysImageGUID = c.guid, c.guid
	return a, nil
}

func (c *Context) Device() verbs.Device { return c.device }

// Live returns an error once the Context is closed.
func (c *Context) Live() error {
	if c.children.Load() < 0 {
		return fmt.Errorf("device %s: %w", c.device.Name(), verbs.ErrClosed)
	}
	return nil
}

// Port returns an error once the Context is closed, and for a port that the device
// does not have. what was asked of it.
func (c *Context) Port(what string, n int) error {
	if err := c.Live(); err != nil {
		return err
	}
	if n != 1 {
		return fmt.Errorf("%s port %d of %s: %w: it has port 1 only", what, n, c.device.Name(), verbs.ErrInvalid)
	}
	return nil
}

func (c *Context) CreateCompChannel() (verbs.CompChannel, error) {
	if err := c.adopt(); err != nil {
		return nil, err
	}
	return &Channel{ctx: c, done: make(chan struct{}), signal: make(chan struct{}, 1)}, nil
}

func (c *Context) CreateCQ(cqe int, ch verbs.CompChannel) (verbs.CQ, error) {
	if cqe < 1 || cqe > c.limits.MaxCQE {
		return nil, fmt.Errorf("create completion queue of %d: %w: expected 1 to %d", cqe, verbs.ErrInvalid, c.limits.MaxCQE)
	}
	h, ok := ch.(*Channel)
	if ch != nil && (!ok || h.ctx != c) {
		return nil, fmt.Errorf("create completion queue: %w: the completion channel is of another context", verbs.ErrInvalid)
	}
	if err := c.adopt(); err != nil {
		return nil, err
	}
	if h != nil {
		h.users.Add(1)
	}
	return &CQ{ctx: c, ring: make([]verbs.Completion, cqe), channel: h}, nil
}

// adopt counts a new child, or says why there can be none.
func (c *Context) adopt() error {
	for {
		n := c.children.Load()
		if n < 0 {
			return c.Live()
		}
		if c.children.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

// release uncounts a child.
func (c *Context) release() { c.children.Add(-1) }

// Shut closes the Context to new children, unless it has some. It reports whether
// this call closed it: the second one has nothing to do.
func (c *Context) Shut() (bool, error) {
	if c.children.CompareAndSwap(0, shut) {
		return true, nil
	}
	if n := c.children.Load(); n >= 0 {
		return false, fmt.Errorf("close %s: %w: %d protection domains, completion queues and channels are open", c.device.Name(), verbs.ErrBusy, n)
	}
	return false, nil
}

// Counters lists the fields of a struct that have a tag: counter:"name", as mlx5 and
// rdma_rxe name it where they have it. What ends with _data is counted in bytes, and
// listed in words of four as InfiniBand has it.
func Counters[T any](of *T) (list []verbs.Counter) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if name := f.Tag.Get("counter"); name != "" {
			n := reflect.ValueOf(of).Elem().FieldByIndex(f.Index).Uint()
			if strings.HasSuffix(name, "_data") {
				n /= 4
			}
			list = append(list, verbs.Counter{Name: name, Value: n})
		}
	}
	return list
}

// AddCounters adds to each number of a struct what another one has there.
func AddCounters[T any](sum, more *T) {
	to, from := reflect.ValueOf(sum).Elem(), reflect.ValueOf(more).Elem()
	for i := range to.NumField() {
		to.Field(i).SetUint(to.Field(i).Uint() + from.Field(i).Uint())
	}
}
