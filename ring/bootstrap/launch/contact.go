package launch

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/verbs/route"
)

// contact is what a rank says of itself.
type contact struct {
	Rank int    `json:"rank"` // in the ring
	From string `json:"from"` // what says so, for people; "" is the launcher
	Name string `json:"name"` // of the host, for people
	// Host tells hosts apart: kernel and network namespace.
	Host  string         `json:"host"`
	Port  int            `json:"port"`
	Addrs []netip.Prefix `json:"addrs"` // without loopback; the one of the default route first
	// Advertise is the address that its user wants used; "" is none.
	Advertise string `json:"advertise,omitempty"`
	// Via is the own address, and To that of rank 0, of this rank's connection to rank 0, where
	// ranks register there. To is as rank 0 has it: a service's address may lie between.
	Via netip.Addr `json:"via,omitzero"`
	To  netip.Addr `json:"to,omitzero"`
}

// Self is what a rank's settings say of it.
type Self struct {
	Rank      int    // -1: nothing, then it is the launcher's own
	From      string // where Rank is from, for people
	Advertise string // "" or as Advertised has it
	Port      int    // the control ring's
}

// Ring is what the ranks have said of themselves.
type Ring struct {
	List  string   // host:port of each
	Names []string // of each rank's host, by which people and batch systems know it
	Own   int      // this rank
	// Others are networks in which each host has an address, too, and that List does not use.
	Others []netip.Prefix
}

// Gather makes the ring that a launcher's ranks are.
func Gather(ctx context.Context, l Launcher, self Self) (*Ring, error) {
	c := contact{Rank: self.Rank, From: self.From, Port: self.Port, Addrs: addresses(), Advertise: self.Advertise}
	if g, ok := l.(*guest); ok {
		c.Via, c.To = g.Local(), g.Peer.At
	}
	if self.Rank < 0 {
		c.Rank, c.From = l.Rank(), ""
	}
	c.Name, c.Host = whoAmI()
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	all, err := l.AllGather(ctx, text)
	if err != nil {
		return nil, err
	}
	byRank := make([]*contact, len(all))
	for i, text := range all {
		other := &contact{}
		if err := json.Unmarshal(text, other); err != nil {
			return nil, usage.Codedf(codes.Version, "what the launcher's rank %d says of itself cannot be read (%v): expected the same ringcli on all nodes", i, err)
		}
		switch r := other.Rank; {
		case r < 0 || r >= len(all):
			return nil, usage.Codedf(codes.List, "a process on host %s says that it is rank %d%s: expected 0 to %d, as the launcher has started %d%s", other.Name, r, other.from(), len(all)-1, len(all), notNeeded)
		case byRank[r] != nil:
			return nil, usage.Codedf(codes.List, "two processes, on host %s%s and on host %s%s, say that they are rank %d: expected each rank once%s", byRank[r].Name, byRank[r].from(), other.Name, other.from(), r, notNeeded)
		}
		byRank[other.Rank] = other
	}
	list, others, err := listOf(byRank)
	if err == nil {
		err = l.Barrier(ctx) // all can read it, and call each other from now on
	}
	if err != nil {
		return nil, err
	}
	return &Ring{strings.Join(list, ","), namesOf(byRank, list), c.Rank, others}, nil
}

// Advertised is the name or address that a setting says: of a network, this host's address there.
func Advertised(setting string) (string, error) {
	network, err := netip.ParsePrefix(setting)
	if err != nil {
		return setting, nil
	}
	own := addresses()
	for _, p := range own {
		if network.Contains(p.Addr()) {
			return p.Addr().String(), nil
		}
	}
	return "", usage.Codedf(codes.AddressForeign, "advertise is the network %s, and this host has no address in it: expected one of %s", setting, own)
}

// namesOf are the names of the ranks' hosts. One that several hosts have, as containers do, or
// none, names nobody: those go by their addresses.
func namesOf(all []*contact, list []string) (names []string) {
	hostOf := map[string]string{}
	for _, c := range all {
		if first, taken := hostOf[c.Name]; taken && first != c.Host {
			hostOf[c.Name] = ""
		} else {
			hostOf[c.Name] = c.Host
		}
	}
	for i, c := range all {
		name := c.Name
		if name == "" || hostOf[name] != c.Host {
			name, _, _ = net.SplitHostPort(list[i]) // as it was joined
		}
		names = append(names, name)
	}
	return names
}

// notNeeded is what to do about a wrong rank.
const notNeeded = "; without an index each has the launcher's own"

// from is what says which rank it is.
func (c *contact) from() string {
	if c.From == "" {
		return ""
	}
	return " (index from " + c.From + ")"
}

func whoAmI() (name, host string) {
	name, _ = os.Hostname()
	if h := route.ThisHost(); h.Missing == "" {
		return name, h.BootID + " " + h.NetNS
	}
	return name, name
}

// loopback is where ranks of one host meet, whatever networks it has.
const loopback = "127.0.0.1"

// listOf makes a list of contacts: by the addresses that users want, else by loopback on one
// host, else by those over which the hosts have reached rank 0, else by the first network of rank
// 0 in which each host has an address of its own (a bridge of containers has the same on all),
// else by each host's first address. others are networks that would have done, too.
func listOf(all []*contact) (entries []string, others []netip.Prefix, err error) {
	byHost := map[string]*contact{}
	for _, c := range all {
		if first := byHost[c.Host]; first == nil || first.Advertise == "" {
			byHost[c.Host] = c
		}
	}
	at := map[string]string{}
	if len(byHost) == 1 {
		at[all[0].Host] = loopback
	} else {
		at = reached(all, byHost)
		for _, p := range all[0].Addrs {
			if len(at) == len(byHost) {
				break
			}
			at = within(p.Masked(), byHost)
		}
	}
	used := map[string]string{}
	for _, c := range all {
		address := at[c.Host]
		switch first := byHost[c.Host]; {
		case first.Advertise != "":
			address = first.Advertise
		case len(at) == len(byHost): // one network has them all
		case len(first.Addrs) > 0:
			address = first.Addrs[0].Addr().String()
		default:
			return nil, nil, usage.Codedf(codes.Unreachable, "host %s, rank %d, has no address but loopback, and other ranks are on other hosts: expected one, or --advertise", c.Name, c.Rank)
		}
		used[c.Host] = address
		entries = append(entries, net.JoinHostPort(address, fmt.Sprint(c.Port)))
	}
	for _, p := range all[0].Addrs {
		if found := within(p.Masked(), byHost); len(byHost) > 1 && len(found) == len(byHost) && !maps.Equal(found, used) {
			others = append(others, p.Masked())
		}
	}
	return entries, others, nil
}

// reached returns the address of each host over which it has reached rank 0, and that of rank 0;
// none where one is not known, or is no other host's address to call.
func reached(all []*contact, byHost map[string]*contact) map[string]string {
	zero := all[0].Host
	found := map[string]netip.Addr{}
	for _, c := range all {
		if c.Host == zero {
			continue
		}
		for host, a := range map[string]netip.Addr{c.Host: c.Via, zero: c.To} {
			own := slices.ContainsFunc(byHost[host].Addrs, func(p netip.Prefix) bool { return p.Addr() == a })
			if _, known := found[host]; own && !known {
				found[host] = a
			}
		}
	}
	at := map[string]string{}
	var taken []netip.Addr
	for host, a := range found {
		if a.Is4() != found[zero].Is4() || slices.Contains(taken, a) {
			return nil
		}
		taken = append(taken, a)
		at[host] = a.String()
	}
	if len(at) < len(byHost) {
		return nil
	}
	return at
}

// within returns the hosts' addresses of a network, each host's own.
func within(network netip.Prefix, byHost map[string]*contact) map[string]string {
	at := map[string]string{}
	var taken []netip.Addr
	for host, c := range byHost {
		i := slices.IndexFunc(c.Addrs, func(p netip.Prefix) bool { return p.Masked() == network })
		if i >= 0 && !slices.Contains(taken, c.Addrs[i].Addr()) {
			at[host] = c.Addrs[i].Addr().String()
			taken = append(taken, c.Addrs[i].Addr())
		}
	}
	return at
}

// addresses are those of this host at which others may reach it.
func addresses() (list []netip.Prefix) {
	var preferred netip.Addr
	// Nothing is sent: the route's source address is what a call would come from (RFC 5737
	// has the address of nobody).
	if conn, err := net.Dial("udp", "192.0.2.1:9"); err == nil {
		preferred = conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
		_ = conn.Close() // nothing was sent
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || !p.Addr().IsGlobalUnicast() {
			continue
		}
		if list = append(list, p); p.Addr() == preferred {
			list[0], list[len(list)-1] = list[len(list)-1], list[0]
		}
	}
	return list
}

// maxTries bounds the ports that Reserve looks at.
const maxTries = 4096

// Reserve takes the first TCP port from this one on that nobody has, for the control ring,
// until release is called. A listener of this process can have it all the same: the socket
// that holds it does not listen, and others ask for one that nobody has.
func Reserve(from int) (port int, release func(), err error) {
	for port = from; port < min(from+maxTries, 65536); port++ {
		var fd int
		if fd, err = hold(port); err == nil {
			return port, func() { _ = unix.Close(fd) }, nil
		}
	}
	return 0, nil, usage.Codedf(codes.PortTaken, "TCP ports %d to %d: none is free (%w): expected one for this rank; another --tcp-port", from, port-1, err)
}

func hold(port int) (fd int, err error) {
	var at unix.Sockaddr = &unix.SockaddrInet6{Port: port}
	if fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	} else { // a kernel without IPv6
		at = &unix.SockaddrInet4{Port: port}
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return 0, err
		}
	}
	if err == nil {
		err = unix.Bind(fd, at)
	}
	if err == nil { // only now: the bind was to fail where another socket has the port
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err != nil {
		_ = unix.Close(fd)
	}
	return fd, err
}
