package ring

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"ringcli/configs"
	"ringcli/configs/usage"
	"ringcli/ring/device"
	"ringcli/ring/locality"
	"ringcli/ring/watch"
	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/route"
)

// devices are those that the edges of a ring are on, and what is registered on all of
// them.
type devices struct {
	of      *membership // never changed, as the next
	opts    *Options
	table   *edgeTable
	host    *Host
	faults  *Faults
	owner   *edgeOwner
	fail    func(error)    // Ring.Fail
	events  watch.Events   // bad ones of all of them
	failing sync.WaitGroup // the goroutines that fail the ring since one came

	list []*Device // changed with the token and the ring's mu: whoever has either may look
	last int       // index in list of the one that was polled last; needs the token

	memory device.Memory // registered on each of them; its lock is taken before the ring's mu
}

// all returns those that are open.
func (ds *devices) all() []*Device {
	ds.table.mu.Lock()
	defer ds.table.mu.Unlock()
	return slices.Clone(ds.list)
}

// to returns the device that an edge uses, or will use, and why; nil if there is none.
func (ds *devices) to(id EdgeID) (d *Device, why string) {
	t := ds.table
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.edge(id)
	switch {
	case e != nil:
		return e.device, e.why
	case id >= 0 && !id.IsMesh():
		return t.chosen[id.First()].device, t.chosen[id.First()].why
	}
	return nil, ""
}

// on returns the open device of a kind, or opens it, for the edges to some
// ranks.
func (ds *devices) on(local bool, peers ...int) (*Device, error) {
	for _, d := range ds.list {
		if d.Attr.HostLocal == local && d.Rail == 0 {
			return d, nil
		}
	}
	name := ds.names()[0]
	if p := locality.SharedMemory(); local && p != nil && name == route.Auto {
		name = p.Name()
	}
	from, why, err := route.Device(name, ds.host.local)
	if err != nil {
		return nil, usage.If(err, verbs.ErrNoDevice, verbs.ErrInvalid)
	}
	return ds.open(from, why, 0, peers)
}

// names are the devices that were asked for.
func (ds *devices) names() []string {
	names, _ := device.Names(ds.opts.Device) // New has looked at them
	return names
}

// rail returns the device of a channel of an edge whose first one is on a device, or opens it.
func (ds *devices) rail(first edgeDevice, channel int) (edgeDevice, error) {
	names := ds.names()
	place := channel % len(names)
	if first.device.Attr.HostLocal || place == 0 {
		return first, nil
	}
	why := fmt.Sprintf("channels go over %d devices by turns", len(names))
	for _, d := range ds.list {
		if d.Rail == place {
			return edgeDevice{d, why}, nil
		}
	}
	from, _, err := route.Device(names[place], ds.host.local)
	if err != nil {
		return edgeDevice{}, usage.If(err, verbs.ErrNoDevice, verbs.ErrInvalid)
	}
	d, err := ds.open(from, why, place, nil)
	return edgeDevice{d, why}, err
}

// open opens a device for the edges to some ranks, and makes what they
// share. The memory that is registered with the ring is registered there, too.
func (ds *devices) open(from verbs.Device, why string, rail int, peers []int) (d *Device, err error) {
	d = &Device{Name: from.Name(), Why: why, Rail: rail}
	if err = ds.setUp(d, from, peers); err == nil {
		err = ds.include(d)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	trace.Debug(trace.Ring, "device open", slog.String("device", d.Name), slog.String("why", why), slog.Int("rail", d.Rail),
		slog.String("gid", d.GID.Entry.GID.String()), slog.Int("gid_index", d.GID.Entry.Index), slog.String("gid_why", d.GID.Reason),
		slog.String("mtu", d.Port.Attr.ActiveMTU.String()))
	for _, x := range d.GID.Rejected {
		trace.Debug(trace.Ring, "GID not taken", slog.Int("gid_index", x.Index), slog.String("gid", x.GID.String()), slog.String("why", x.Reason))
	}
	if d.Attr.VendorID == device.RXEVendor && *ds.opts.RetryCnt == 7 {
		trace.Warn(trace.Ring, "retry-cnt 7 never ends on rdma_rxe: a neighbour that is gone is noticed by the control ring alone; use at most 6",
			slog.String("device", d.Name))
	}
	return d, nil
}

// setUp opens a device and makes the objects on it.
func (ds *devices) setUp(d *Device, from verbs.Device, peers []int) error {
	o := verbs.OpenOptions{
		LocalAddr: ds.host.local, UDPPort: ds.opts.UDPPort, OnEvent: func(e verbs.AsyncEvent) { ds.event(d.Name, e) },
	}
	if d.Rail > 0 {
		var err error
		if o.LocalAddr, err = route.Beside(from, ds.opts.Port, ds.host.local); err != nil {
			return usage.If(err, verbs.ErrInvalid)
		}
		o.UDPPort, o.OwnPort = 0, slices.ContainsFunc(ds.list, func(other *Device) bool { return other.Name == d.Name })
	}
	want := route.Want{Index: ds.opts.GIDIndex, Local: o.LocalAddr}
	for _, peer := range peers {
		if peer != ds.of.rank {
			want.Peers = append(want.Peers, ds.host.addrs[peer].Addr())
		}
	}
	if err := d.Open(from, o, ds.opts.Port, want); err != nil {
		return usage.If(err, verbs.ErrInvalid)
	}
	if err := enough(d.Name, d.Attr, len(ds.of.nodes), ds.opts.Channels); err != nil {
		return err
	}
	if err := d.AllocPD(); err != nil {
		return err
	}
	return d.CreateCQ(completions(len(ds.of.nodes), ds.opts.Channels))
}

// include makes a device one of the ring's.
func (ds *devices) include(d *Device) error {
	ds.memory.Lock()
	defer ds.memory.Unlock()
	if f := ds.faults.current.Load(); f != nil {
		if err := f.Into(d); err != nil {
			return err
		}
	}
	taken := func(i int) bool {
		return slices.ContainsFunc(ds.list, func(other *Device) bool { return other.Index == i })
	}
	for taken(d.Index) {
		d.Index++
	}
	if d.Index >= device.Most {
		return fmt.Errorf("%s would be device %d of this ring: expected %d at most", d.Name, d.Index+1, device.Most)
	}
	if err := ds.memory.Include(d); err != nil {
		return err
	}
	ds.table.mu.Lock()
	defer ds.table.mu.Unlock()
	ds.list = append(ds.list, d)
	return nil
}

// exclude closes a device that no edge uses any more.
func (ds *devices) exclude(d *Device) error {
	ds.memory.Lock()
	defer ds.memory.Unlock()
	ds.table.change(func() {
		ds.list = slices.DeleteFunc(slices.Clone(ds.list), func(other *Device) bool { return other == d })
	})
	return errors.Join(ds.memory.Exclude(d), d.Close())
}

// openExpected opens the devices that the edges to the neighbours will most likely use:
// Exchange, in which the neighbours say where they are, has the last word. A
// neighbour whose address is one of this machine will be on it.
func (ds *devices) openExpected() error {
	ds.events.Forget(true)
	own := ds.opts.Locality()
	var expected [2]locality.Choice
	var network []int
	for side := range expected {
		c, peer := &expected[side], ds.of.neighbour(Side(side))
		c.HostLocal = own.AskedHostLocal || own.Auto() && own.NoSHM == "" && locality.IsLocal(ds.host.addrs[peer].Addr())
		switch {
		case own.AskedHostLocal || !own.Auto():
			c.Why = own.Asked + " was asked for"
		case c.HostLocal:
			c.Why = ds.of.NodeName(peer) + " has an address of this machine; exchange will tell"
		case own.NoSHM != "":
			c.Why = "no shared memory: " + own.NoSHM
		default:
			c.Why = ds.of.NodeName(peer) + " is elsewhere; exchange will tell"
		}
		if !c.HostLocal {
			network = append(network, peer)
		}
	}
	var chosen [2]edgeDevice
	for side, c := range expected {
		d, err := ds.on(c.HostLocal, network...)
		if err != nil {
			return err
		}
		chosen[side] = edgeDevice{d, d.Because(c.Why)}
		for channel := range ds.opts.Channels {
			if _, err := ds.rail(chosen[side], channel); err != nil {
				return err
			}
		}
	}
	ds.table.mu.Lock()
	defer ds.table.mu.Unlock()
	ds.table.chosen = chosen
	return nil
}

func (ds *devices) closeUnused() error {
	var errs []error
	for _, d := range slices.Clone(ds.list) {
		if !slices.ContainsFunc(ds.table.queuePairs(), func(e *Edge) bool { return e.device == d }) {
			errs = append(errs, ds.exclude(d))
		}
	}
	return errors.Join(errs...)
}

// poll polls the devices one after the other. An empty wc makes progress on all of them.
func (ds *devices) poll(wc []verbs.Completion) (n int, err error) {
	for range ds.list {
		ds.last = (ds.last + 1) % len(ds.list) // the one that is busy does not keep the others waiting
		d := ds.list[ds.last]
		got, err := d.CQ.Poll(wc[n:])
		noted(ds.table, wc[n:n+got])
		n += got
		if err != nil || n > 0 && n == len(wc) {
			return n, err
		}
	}
	return n, nil
}

// event takes an asynchronous event of a device, on the device's goroutine, and
// does not wait. A port that is down is kept in mind only: links flap, and retries
// may outlast that.
func (ds *devices) event(device string, e verbs.AsyncEvent) {
	ds.events.Note(device, e, time.Now())
	level := trace.Debug
	if e.Type.Bad() {
		level = trace.Warn
	}
	level(trace.Ring, "device event", slog.String("device", device), slog.String("event", e.String()))
	switch e.Type {
	case verbs.EventDeviceFatal:
	case verbs.EventQPFatal, verbs.EventCQErr:
		if ds.opts.ByHand {
			return // an operator may reset the queue pair
		}
	default:
		return
	}
	err := &DeviceError{Rank: ds.of.rank, Node: ds.of.nodes[ds.of.rank].String(), Device: device, Event: e}
	ds.failing.Go(func() { ds.fail(err) })
}

// noted takes note of completions that were polled. It allocates nothing.
func noted(t *edgeTable, wc []verbs.Completion) {
	for i := range wc {
		if !t.edge(EdgeID(wc[i].ID >> 48)).noted(&wc[i]) { // its ID is of another making
			_ = t.edges[Left].noted(&wc[i]) || t.edges[Right].noted(&wc[i])
		}
	}
}

// noted takes note of a completion, and tells whether it is one of this edge.
func (e *Edge) noted(wc *verbs.Completion) bool {
	if e == nil {
		return false
	}
	w, ok := e.QP.(*watch.QP)
	return ok && w.Completed(wc)
}

// Locality is that of a rank with these options.
func (o *Options) Locality() locality.Locality {
	why := ""
	switch {
	case o.Inject != verbs.NoFaults:
		why = "faults are injected into packets, of which shared memory has none"
	case o.UDPPort != 0:
		why = "a UDP port was asked for"
	case o.GIDIndex != nil:
		why = "--gid-index was given, which is for devices of a network"
	case o.Port != configs.Default[int]("port"):
		why = "--port was given, which is for devices of a network"
	}
	return locality.Of(o.Device, o.Host, why)
}

// bothNames names a rank's end and its peer's for locality.Choose.
func bothNames(m *membership, peer int) [2]string {
	return [2]string{m.NodeName(m.rank), m.NodeName(peer)}
}

// chosen returns the device for an edge to a rank of some, as both ends chose it.
func (ds *devices) chosen(c locality.Choice, peers ...int) (edgeDevice, error) {
	d, err := ds.on(c.HostLocal, peers...)
	if err != nil {
		return edgeDevice{}, fmt.Errorf("%s: %w", c.Why, err)
	}
	return edgeDevice{d, d.Because(c.Why)}, nil
}

// newChannels makes the edge to a neighbour with all its channels.
func (ds *devices) newChannels(side Side, on edgeDevice) (first *Edge, err error) {
	for channel := range ds.opts.Channels {
		var e *Edge
		on, err := ds.rail(on, channel)
		if err == nil {
			e, err = newEdge(ds.owner, side.Edge().On(channel), ds.of.neighbour(side), on, ds.opts.room())
		}
		switch {
		case err != nil && first != nil:
			return nil, errors.Join(err, first.close())
		case err != nil:
			return nil, err
		case first == nil:
			first = e
		default:
			first.beside = append(first.beside, e)
		}
	}
	return first, nil
}
