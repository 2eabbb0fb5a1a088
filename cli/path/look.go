package path

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/cli/exit"
	"ringcli/cli/session"
	"ringcli/ring"
	"ringcli/ring/path"
	"ringcli/verbs"
	"ringcli/verbs/route"
)

// end is what a rank tells of its end of an edge of the ring.
type end struct {
	Rank         int         `json:"rank"`
	Peer         int         `json:"peer"`
	Device       string      `json:"device"`
	NetDev       string      `json:"netdev"`
	NetMTU       int         `json:"net_mtu"` // of the interface, in bytes; 0: not known
	GIDIndex     int         `json:"gid_index"`
	GIDType      string      `json:"gid_type"`
	Addr         netip.Addr  `json:"addr"`
	UDPPort      uint16      `json:"udp_port"`
	PathMTU      int         `json:"path_mtu"`
	TrafficClass uint8       `json:"traffic_class"`
	Unable       string      `json:"unable"` // why no IP packet goes over the edge
	Target       path.Target `json:"target"`
}

// way is one direction of an edge: what this rank sends to a neighbour, and what came of it.
type way struct {
	own, peer end
	id        ring.EdgeID

	hop     route.Hop
	hopErr  error
	search  path.Search
	tooLong *path.TooLong
	short   sent // the device's shortest packets
	classes []uint8
	marks   []path.Seen
	echoes  []path.Echoes
	ports   []path.Seen
}

// sent is how many packets left, and how many of those arrived.
type sent struct{ sent, arrived int }

// test is one run, on one rank.
type test struct {
	m         *session.Member
	how       how
	ends      [2]end // by side
	ways      []*way
	listeners map[netip.Addr]*path.Listener
	senders   []*path.Sender // to be closed
}

// look has all ranks look at their paths at the same time, and returns what all found.
func look(ctx context.Context, m *session.Member, h how) (rows []PathCheck, err error) {
	t := &test{m: m, how: h, listeners: map[netip.Addr]*path.Listener{}}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := m.Agree(ctx, t.open()); err != nil {
		return nil, err
	}
	all, err := session.Share(ctx, m, t.ends)
	if err != nil {
		return nil, err
	}
	t.plan(all)
	for _, step := range []func(context.Context) error{t.sizes, t.losses, t.mark, t.port} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	var mine []PathCheck
	for _, w := range t.ways {
		mine = append(mine, w.judge()...)
	}
	found, err := session.Share(ctx, m, mine)
	rows = slices.Concat(found...)
	slices.SortStableFunc(rows, func(a, b PathCheck) int { return cmp.Or(a.From-b.From, a.To-b.To) })
	return rows, err
}

func (t *test) close() error {
	var errs []error
	for _, l := range t.listeners {
		errs = append(errs, l.Close())
	}
	for _, s := range t.senders {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// open looks at the own ends, and opens a listener for each address.
func (t *test) open() error {
	r := t.m.Ring
	for _, side := range session.Sides(nil) {
		e, err := r.Ends().Own(side.Edge())
		if err != nil {
			return err
		}
		d, _ := r.DeviceTo(side.Edge())
		own := end{
			Rank: e.Rank, Peer: e.Peer, Device: e.Device, NetDev: e.NetDev, GIDIndex: e.GIDIndex, GIDType: e.GIDType.String(),
			Addr: e.GID.Addr(), UDPPort: e.UDPPort, PathMTU: e.PathMTU, TrafficClass: e.TrafficClass,
		}
		if own.Addr.IsLinkLocalUnicast() {
			own.Addr = own.Addr.WithZone(e.NetDev)
		}
		if i, err := net.InterfaceByName(e.NetDev); err == nil {
			own.NetMTU = i.MTU
		}
		switch {
		case d == nil || d.Attr.HostLocal:
			own.Unable = "memory of this host that both ranks share: no packet leaves it"
		case e.LinkLayer.Is(verbs.LinkInfiniBand):
			own.Unable = "InfiniBand: its packets are no IP packets (ibtracert, perfquery look at them)"
		default:
			l := t.listeners[own.Addr]
			if l == nil {
				if l, err = path.Listen(own.Addr, uint16(t.how.listen)); errors.Is(err, unix.EADDRINUSE) {
					return exit.Usagef("path: --listen-port %d: %w: expected a UDP port of %s that is free, or 0", t.how.listen, err, own.Addr)
				} else if err != nil {
					return err
				}
				t.listeners[own.Addr] = l
			}
			own.Target = l.Target()
		}
		t.ends[side] = own
		if side == ring.Left && e.Peer == (e.Rank+1)%r.Size() {
			continue // of two ranks: both edges join the same pair
		}
		t.ways = append(t.ways, &way{own: own, id: side.Edge()})
	}
	return nil
}

// plan learns of the peers' ends, and asks for the routes to them.
func (t *test) plan(all [][2]end) {
	for _, w := range t.ways {
		w.peer = all[w.own.Peer][w.id.Side().Opposite()]
		if w.own.Unable == "" && w.peer.Unable != "" {
			w.own.Unable = w.peer.Unable
		}
		if w.own.Unable != "" {
			continue
		}
		to := w.peer.Target.Addr
		if to.Addr().IsLinkLocalUnicast() {
			w.peer.Target.Addr = netip.AddrPortFrom(to.Addr().WithZone(w.own.NetDev), to.Port())
			w.hop = route.Hop{NetDev: w.own.NetDev}
			continue
		}
		w.hop, w.hopErr = route.Via(w.own.Addr, w.peer.Addr)
	}
}

// able are the ways that IP packets go.
func (t *test) able() (list []*way) {
	for _, w := range t.ways {
		if w.own.Unable == "" {
			list = append(list, w)
		}
	}
	return list
}

func (t *test) sender(w *way, port uint16) (*path.Sender, error) {
	s, err := path.NewSender(w.own.Addr, port, w.peer.Target)
	if err == nil {
		t.senders = append(t.senders, s)
	}
	return s, err
}

// batch is what a rank has sent to another.
type batch struct {
	To     int          `json:"to"`
	Probes []path.Probe `json:"probes"`
	Each   int          `json:"each"`
}

// news is what came from a rank.
type news struct {
	From int         `json:"from"`
	Seen []path.Seen `json:"seen"`
}

// tell tells the receivers what this rank has sent, and returns what they have of it, by
// receiver; none of nobody: no rank has sent anything.
func (t *test) tell(ctx context.Context, sent []batch) (came map[int][]path.Seen, any bool, err error) {
	rank := t.m.Ring.Rank()
	all, err := session.Share(ctx, t.m, sent)
	if err != nil {
		return nil, false, err
	}
	var mine []news
	deadline := time.Now().Add(travel)
	for from, batches := range all {
		for _, b := range batches {
			any = true
			if b.To == rank {
				l := t.listeners[t.ends[t.sideOf(from)].Addr]
				mine = append(mine, news{from, l.Await(ctx, b.Probes, b.Each, time.Until(deadline))})
			}
		}
	}
	if !any {
		return nil, false, nil
	}
	told, err := session.Share(ctx, t.m, mine)
	if err != nil {
		return nil, false, err
	}
	came = map[int][]path.Seen{}
	for to, list := range told {
		for _, n := range list {
			if n.From == rank {
				came[to] = n.Seen
			}
		}
	}
	return came, true, nil
}

// sideOf is the side at which a neighbour's packets come in.
func (t *test) sideOf(from int) ring.Side {
	if t.ends[ring.Left].Peer == from {
		return ring.Left
	}
	return ring.Right
}

func (t *test) probe(k path.Kind, index int) path.Probe {
	return path.Probe{From: uint16(t.m.Ring.Rank()), Kind: k, Index: uint16(index)}
}

// send sends probes of a way several times each, one of each after the other.
func (t *test) send(s *path.Sender, probes []path.Probe, length func(i int) int, tos func(i int) uint8) error {
	for n := range each {
		for i, p := range probes {
			if err := s.Send(p, n, length(i), tos(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// sizes finds the longest packet of each way, in a few rounds that all ranks make together.
func (t *test) sizes(ctx context.Context) error {
	senders := map[*way]*path.Sender{}
	err := func() (err error) {
		for _, w := range t.able() {
			most := w.own.NetMTU
			if most == 0 {
				most = 9000 // what is not known is asked
			}
			w.search = path.NewSearch(path.Least(w.own.Addr), min(most, path.Most), w.needs(), w.peer.NetMTU, w.hop.MTU, 1500)
			if senders[w], err = t.sender(w, 0); err != nil {
				return err
			}
		}
		return nil
	}()
	for {
		var sent []batch
		for _, w := range t.able() {
			if err != nil {
				break
			}
			sizes := w.search.Next()
			if len(sizes) == 0 {
				continue
			}
			var probes []path.Probe
			for _, n := range sizes {
				probes = append(probes, t.probe(path.Size, n))
			}
			err = t.send(senders[w], probes, func(i int) int { return sizes[i] }, func(int) uint8 { return 0 })
			sent = append(sent, batch{w.own.Peer, probes, each})
		}
		if err := t.m.Agree(ctx, err); err != nil {
			return err
		}
		came, any, err := t.tell(ctx, sent)
		if err != nil || !any {
			for w, s := range senders {
				w.tooLong = s.Complaint()
			}
			return err
		}
		for _, w := range t.able() {
			var passed []int
			for _, seen := range came[w.own.Peer] {
				if seen.Came > 0 {
					passed = append(passed, int(seen.Index))
				}
			}
			w.search.Took(passed)
		}
	}
}

// losses has devices send short packets of their own, where they can.
func (t *test) losses(ctx context.Context) error {
	for _, w := range t.able() {
		for range lossRounds {
			if arrived, ok := t.m.Ring.Stalls().Loss(ctx, w.id, ring.MostLoss); ok {
				w.short.sent, w.short.arrived = w.short.sent+ring.MostLoss, w.short.arrived+arrived
			}
		}
	}
	return t.m.Ring.Barrier(ctx)
}

// mark sends packets of several traffic classes.
func (t *test) mark(ctx context.Context) error {
	var sent []batch
	err := func() error {
		for _, w := range t.able() {
			const ect0, dscpRoCE, dscpCNP = 2, 26 << 2, 48 << 2 // as NVIDIA's NICs have them
			w.classes = []uint8{w.own.TrafficClass}
			for _, c := range []uint8{w.own.TrafficClass&^3 | ect0, dscpRoCE | ect0, dscpCNP} {
				if !slices.Contains(w.classes, c) {
					w.classes = append(w.classes, c)
				}
			}
			s, err := t.sender(w, 0)
			if err != nil {
				return err
			}
			var probes []path.Probe
			for i := range w.classes {
				probes = append(probes, t.probe(path.Mark, i))
			}
			if err := t.send(s, probes, func(int) int { return path.Least(w.own.Addr) }, func(i int) uint8 { return w.classes[i] }); err != nil {
				return err
			}
			sent = append(sent, batch{w.own.Peer, probes, each})
		}
		return nil
	}()
	if err := t.m.Agree(ctx, err); err != nil {
		return err
	}
	came, _, err := t.tell(ctx, sent)
	for _, w := range t.able() {
		w.marks = came[w.own.Peer]
	}
	return err
}

// port sends echoes by several source ports.
func (t *test) port(ctx context.Context) error {
	ways := t.able()
	errs := make(chan error, len(ways))
	for _, w := range ways {
		var list []*path.Sender
		port := t.how.first
		var err error
		for ; len(list) < t.how.ports && port < 1<<16 && err == nil; port++ {
			var s *path.Sender
			if s, err = t.sender(w, uint16(port)); err == nil {
				list = append(list, s)
			} else if errors.Is(err, unix.EADDRINUSE) {
				err = nil
			}
		}
		go func() {
			switch {
			case err != nil:
				errs <- fmt.Errorf("path: --first-source-port %d: %w", t.how.first, err)
				return
			case len(list) < t.how.ports:
				errs <- exit.Usagef("path: of UDP ports %d to 65535 of %s %d are free: expected %d: give another --first-source-port", t.how.first, w.own.Addr, len(list), t.how.ports)
				return
			}
			var err error
			w.echoes, err = path.Ports(ctx, uint16(w.own.Rank), list, echoes, echoing)
			errs <- err
		}()
	}
	var err error
	for range ways {
		err = errors.Join(err, <-errs)
	}
	if err := t.m.Agree(ctx, err); err != nil {
		return err
	}
	var sent []batch
	for _, w := range ways {
		b := batch{To: w.own.Peer}
		for i, e := range w.echoes {
			b.Probes, b.Each = append(b.Probes, t.probe(path.Port, i)), e.Sent
		}
		sent = append(sent, b)
	}
	came, _, err := t.tell(ctx, sent)
	for _, w := range ways {
		w.ports = came[w.own.Peer]
	}
	return err
}
