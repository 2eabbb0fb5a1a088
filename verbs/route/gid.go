package route

import (
	"fmt"
	"net/netip"
	"strings"

	"ringcli/verbs"
)

// Want is what a GID is to be good for. All of it is optional.
type Want struct {
	Index *int         // --gid-index: this row, whatever else holds
	Local netip.Addr   // the address to speak from
	Peers []netip.Addr // where the peers are: a ring has two neighbours
}

// Choice is a row of the GID table, and why it was taken.
type Choice struct {
	Entry    verbs.GIDEntry
	Reason   string
	Rejected []Rejection // all other rows that are in use
}

// Rejection is a row of the GID table that was not taken, and why.
type Rejection struct {
	Index  int
	GID    verbs.GID
	Reason string
}

// Choose returns the GID to use. On InfiniBand that is row 0. On Ethernet the
// first of these differences decides: the interface is up (or not known); RoCE v2
// before v1; the local address itself; the peers' family, IPv4 if nothing is known
// of them; the network of a peer; an address that is not link-local; the lower
// index. The error wraps verbs.ErrInvalid where another --gid-index would do.
func (p Port) Choose(w Want) (Choice, error) {
	if w.Index != nil {
		return p.given(w)
	}
	return p.best(w)
}

// given is the choice where an index was asked for.
func (p Port) given(w Want) (Choice, error) {
	g, err := p.gid(*w.Index)
	if err != nil {
		return Choice{}, err
	}
	c := Choice{Entry: g, Reason: fmt.Sprintf("gid-index %d was asked for", g.Index)}
	if own, err := p.best(w); err == nil && own.Entry.Index != g.Index {
		c.Reason += fmt.Sprintf(" (%d would have been taken: %s)", own.Entry.Index, own.Reason)
	}
	for _, other := range p.GIDs {
		if other.Index != g.Index {
			c.Rejected = append(c.Rejected, Rejection{other.Index, other.GID, "another was asked for"})
		}
	}
	return c, nil
}

func (p Port) best(w Want) (Choice, error) {
	if len(p.GIDs) == 0 {
		return Choice{}, p.empty()
	}
	criteria := p.criteria(w)
	best := p.GIDs[0]
	for _, g := range p.GIDs[1:] {
		if _, better := decide(criteria, g, best); better {
			best = g
		}
	}
	if p.isEthernet() && !p.isUp(best) {
		return Choice{}, verbs.OfKind(verbs.ErrNoGID, fmt.Errorf("the interfaces of all GIDs of port %d of %s are down: ip link set %s up", p.Num, p.Device, best.NetDev))
	}
	c := Choice{Entry: best}
	var reasons []string
	for _, k := range criteria {
		if k.holds(best) {
			reasons = append(reasons, k.yes(best))
		}
	}
	c.Reason = strings.Join(reasons, ", ")
	for _, g := range p.GIDs {
		if g.Index == best.Index {
			continue
		}
		r := Rejection{g.Index, g.GID, fmt.Sprintf("no better than %d, and after it", best.Index)}
		if k, _ := decide(criteria, g, best); k != nil {
			r.Reason = k.no(g)
		}
		c.Rejected = append(c.Rejected, r)
	}
	return c, nil
}

// criterion is one thing that a row should have. yes and no say in words that it
// has it, or has not.
type criterion struct {
	holds   func(verbs.GIDEntry) bool
	yes, no func(verbs.GIDEntry) string
}

// decide returns the first criterion that only one of two rows meets, nil if there
// is none, and whether that one is a.
func decide(criteria []criterion, a, b verbs.GIDEntry) (*criterion, bool) {
	for i := range criteria {
		if k := &criteria[i]; k.holds(a) != k.holds(b) {
			return k, k.holds(a)
		}
	}
	return nil, false
}

func always(text string) func(verbs.GIDEntry) string {
	return func(verbs.GIDEntry) string { return text }
}

// criteria are what decides, the most important first.
func (p Port) criteria(w Want) []criterion {
	if !p.isEthernet() {
		why := "the port's own GID: InfiniBand"
		if p.HostLocal {
			why = "what peers on this host find the process by"
		}
		return []criterion{{
			func(g verbs.GIDEntry) bool { return g.Index == 0 },
			always(why), always("not the port's own GID, which is 0"),
		}}
	}
	peers := w.peers()
	family, whose := "IPv4", "what most networks have"
	if len(peers) > 0 {
		family, whose = familyOf(peers[0]), "as "+peers[0].String()
	} else if w.Local.IsValid() {
		family, whose = familyOf(w.Local.Unmap()), "as "+w.Local.String()
	}
	return []criterion{
		{
			p.isUp,
			func(g verbs.GIDEntry) string { return strings.TrimSpace("interface " + g.NetDev + " is up") },
			func(g verbs.GIDEntry) string { return "interface " + g.NetDev + " is down" },
		},
		{
			func(g verbs.GIDEntry) bool { return g.Type == verbs.GIDTypeRoCEv2 },
			always("RoCE v2"), func(g verbs.GIDEntry) string { return g.Type.String() + ": v2 passes routers" },
		},
		{
			func(g verbs.GIDEntry) bool { return w.Local.IsValid() && g.GID.Addr() == w.Local.WithZone("").Unmap() },
			always("the local address"), always(fmt.Sprintf("not the local address %s", w.Local)),
		},
		{
			func(g verbs.GIDEntry) bool { return familyOf(g.GID.Addr()) == family },
			always(family + " " + whose), func(g verbs.GIDEntry) string { return familyOf(g.GID.Addr()) + ", not " + family + " " + whose },
		},
		{
			func(g verbs.GIDEntry) bool { n, _ := p.network(g, peers); return n.IsValid() },
			func(g verbs.GIDEntry) string {
				n, peer := p.network(g, peers)
				return fmt.Sprintf("in the network %s of the peer %s", n, peer)
			},
			always("not in the network of the peer " + strings.ReplaceAll(strings.Trim(fmt.Sprint(peers), "[]"), " ", ", ")),
		},
		{
			func(g verbs.GIDEntry) bool { return !g.GID.Addr().IsLinkLocalUnicast() },
			always("not link-local"), always("link-local"),
		},
	}
}

func (p Port) isEthernet() bool { return !p.HostLocal && p.Attr.LinkLayer != verbs.LinkInfiniBand }

func (p Port) isUp(g verbs.GIDEntry) bool {
	l, known := p.Interfaces[g.NetDev]
	return l.Up || !known
}

// network returns the network of a row's address in which a peer is, and that peer.
func (p Port) network(g verbs.GIDEntry, peers []netip.Addr) (netip.Prefix, netip.Addr) {
	for _, n := range p.Interfaces[g.NetDev].Prefixes {
		for _, peer := range peers {
			if n.Addr().Unmap() == g.GID.Addr() && n.Contains(peer) {
				return n.Masked(), peer
			}
		}
	}
	return netip.Prefix{}, netip.Addr{}
}

func (w Want) peers() []netip.Addr {
	var list []netip.Addr
	for _, a := range w.Peers {
		if a.IsValid() {
			list = append(list, a.WithZone("").Unmap())
		}
	}
	return list
}

func familyOf(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}
