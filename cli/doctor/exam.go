package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"ringcli/ring"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/locality"
)

// Asked is the ring that the node is to be good for.
type Asked struct {
	List     []hosts.Node // empty: not known
	Index    int          // -1: not known
	Ranks    int          // on this node; 0: as the list says, else one
	Device   string
	GIDIndex *int
	MTU      int // 0: the port's
	TCPPort  int
	Slots    int
	SlotSize int
	Channels int           // to each neighbour; 0 is one
	Beside   []string      // devices that carry channels beside Device
	Timeout  time.Duration // of all names together
}

// exam is a node under examination.
type exam struct {
	System
	node      machine
	asked     Asked
	names     map[string]lookup // of the list's hosts, and of this one
	addrs     []netip.AddrPort  // of the list, those that are known
	local     netip.Addr        // to speak from, if that is known
	localErr  error
	providers []Provider
	devices   []Device // that the ring may take
	chosen    string   // device; empty: not known
	why       string
	chosenErr error
	besideErr error // of a device that carries channels beside that
	soft      bool  // packets go through sockets
	ranks     int   // on this node
}

// lookup is what a name came to, and the address that a ring takes.
type lookup struct {
	hosts.Answer
	addr netip.Addr
}

// Examine looks at a node. Only names take time: theirs has the deadline.
func Examine(ctx context.Context, s System, a Asked) ([]Preflight, error) {
	e := &exam{System: s, node: machine{s.Files}, asked: a, providers: s.Providers(), ranks: max(1, a.Ranks)}
	e.lookUp(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	e.place()
	e.choose()
	load := &loadExam{s, e.node, e.ranks, 2 * uint64(max(1, a.Channels)) * uint64(a.Slots) * uint64(a.SlotSize+ring.SlotHeader)}
	sockets := &socketExam{s, e.node, e.local, e.binds(), e.soft}
	gpus := &gpuExam{s, e.node}
	var rows []Preflight
	for _, check := range []func() []Preflight{
		e.providerRows, one(e.deviceRow), e.portRows, e.gidRows, e.mtuRows, e.pcieRows, one(e.acsRow), one(e.moduleRow), e.permissionRows,
		one(load.memlockRow), one(load.memfdRow), one(sockets.udpRow), one(sockets.tcpRow), one(sockets.firewallRow), one(sockets.ephemeralRow), one(sockets.bufferRow),
		one(e.hostRow), e.listRows, one(e.addressRow), func() []Preflight { return e.routeRows(ctx) },
		one(load.cpuRow), one(load.cpuQuotaRow), one(load.memoryRow), one(load.memoryLimitRow), one(load.pidsRow), one(load.threadRow), one(load.fileRow), one(load.hugePageRow), one(load.clockRow),
		gpus.driverRows, gpus.fileRows, gpus.libraryRows, gpus.peerRows, one(gpus.iommuRow), one(e.transportRow), one(e.toolsRow), one(e.loggingRow),
	} {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		rows = append(rows, check()...)
	}
	return rows, nil
}

// one makes a list of the row of a check that has one.
func one(check func() Preflight) func() []Preflight {
	return func() []Preflight { return []Preflight{check()} }
}

// lookUp asks for the names of the list, for as long as a ring would, and once for that of this
// node.
func (e *exam) lookUp(ctx context.Context) {
	e.names = map[string]lookup{}
	ctx, cancel := context.WithTimeout(ctx, e.asked.Timeout)
	defer cancel()
	if own, err := e.Hostname(); err == nil {
		begun := time.Now()
		addrs, err := e.Lookup(ctx, own)
		e.note(own, hosts.Answer{Addrs: addrs, Err: err, Took: time.Since(begun)})
	}
	var names []string
	for _, n := range e.asked.List {
		names = append(names, n.Host)
	}
	for host, a := range hosts.Await(ctx, names, e.Lookup, func(map[string]hosts.Answer) {}) {
		e.note(host, a)
	}
	for _, n := range e.asked.List {
		e.addrs = append(e.addrs, netip.AddrPortFrom(e.names[n.Host].addr, uint16(n.Port)))
	}
}

func (e *exam) note(host string, a hosts.Answer) {
	l := lookup{Answer: a}
	if len(a.Addrs) > 0 {
		l.addr = a.Addrs[0].Unmap()
	}
	e.names[host] = l
}

// known tells whether all of the list has an address.
func (e *exam) known() bool {
	return len(e.addrs) > 0 && !slices.ContainsFunc(e.addrs, func(a netip.AddrPort) bool { return !a.Addr().IsValid() })
}

// place finds this node in the list.
func (e *exam) place() {
	if e.asked.Ranks == 0 {
		here := 0
		for _, a := range e.addrs {
			if a.Addr().IsValid() && e.Local(a.Addr()) {
				here++
			}
		}
		e.ranks = max(1, here)
	}
	if e.asked.Index >= 0 && e.known() {
		e.local, e.localErr = locality.Address(e.asked.List, e.addrs, e.asked.Index, e.Local, e.Route)
	}
}

// neighbours are the addresses of those on the left and on the right.
func (e *exam) neighbours() (peers []netip.Addr) {
	n := len(e.addrs)
	if e.asked.Index < 0 || n < 2 {
		return nil
	}
	for _, step := range []int{1, n - 1} {
		peers = append(peers, e.addrs[(e.asked.Index+step)%n].Addr())
	}
	return peers
}

// choose finds the devices that the ring may take: the one that it would, else those of the
// name that was given, else those of RDMA, and in software where there is none that is up.
func (e *exam) choose() {
	if e.local.IsValid() || strings.Contains(e.asked.Device, ":") {
		e.chosen, e.why, e.chosenErr = e.Choose(e.asked.Device, e.local)
	}
	for _, name := range e.asked.Beside {
		if _, _, err := e.Choose(name, e.local); err != nil && e.besideErr == nil {
			e.besideErr = fmt.Errorf("%s, beside %s: %w", name, e.asked.Device, err)
		}
	}
	var hardware, software []Device
	up := false
	for _, p := range e.providers {
		for _, d := range p.Devices {
			_, own, _ := strings.Cut(d.Name, ":")
			beside := slices.Contains(e.asked.Beside, d.Name)
			named := beside || slices.Contains([]string{"", "auto", p.Name, own, d.Name}, e.asked.Device)
			switch {
			case !named, p.Can.HostLocal:
			case !p.Can.Software:
				hardware = append(hardware, d)
				up = up || slices.ContainsFunc(d.Ports, func(p Port) bool { return p.Err == nil })
			case own != "lo" || beside || e.chosen == d.Name:
				software = append(software, d)
			}
		}
	}
	e.devices, e.soft = hardware, false
	if !up || slices.ContainsFunc(software, func(d Device) bool { return d.Name == e.chosen }) {
		software = slices.DeleteFunc(software, func(d Device) bool {
			return e.chosen != "" && d.Name != e.chosen && !slices.Contains(e.asked.Beside, d.Name)
		})
		e.devices, e.soft = append(e.devices, software...), true
	}
	if provider, _, _ := strings.Cut(e.asked.Device, ":"); provider == "shm" {
		e.soft = false
	}
}
