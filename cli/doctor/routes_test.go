package doctor

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"ringcli/configs/codes"
	"ringcli/verbs/route"
)

// hops has the kernel lead to node1 so.
func hops(h route.Hop, err error) func(*testing.T, *fake) {
	return func(t *testing.T, f *fake) {
		f.list(t, "node0,node1", 0)
		f.Hop = func(netip.Addr, netip.Addr) (route.Hop, error) { return h, err }
	}
}

// answering has MAC addresses answer ARP.
func answering(owners map[string][]net.HardwareAddr, err error) func(*testing.T, *fake) {
	return func(t *testing.T, f *fake) {
		f.list(t, "node0,node1", 0)
		f.write("sys/class/net/eth0/address", mac(address("10.1.2.3")).String())
		f.Owners = func(context.Context, string, []netip.Addr) (map[netip.Addr][]net.HardwareAddr, error) {
			all := map[netip.Addr][]net.HardwareAddr{}
			for a, list := range owners {
				all[address(a)] = list
			}
			return all, err
		}
	}
}

var (
	theirs  = mac(address("10.1.2.4"))
	another = mac(address("10.1.2.9"))
)

var routesCases = []provocation{
	{"no list, of routes", func(*testing.T, *fake) {}, "route", Skip, "", "no --list", ""},
	{"no index, of routes", func(t *testing.T, f *fake) { f.list(t, "node0,node1", -1) }, "route", Skip, "", "--index", ""},
	{"a host without a route", hops(route.Hop{}, unix.ENETUNREACH), "route", Fail, codes.Unreachable, "network is unreachable", "ip route get 10.1.2.4 from 10.1.2.3  # this node is 10.1.2.3/24"},
	{"a host by another interface", hops(route.Hop{NetDev: "eth1"}, nil), "route", Warn, codes.AddressMismatch, "by eth1", "ip route get 10.1.2.4 from 10.1.2.3; ip rule"},
	{"a host behind a router", hops(route.Hop{NetDev: "eth0", Gateway: address("10.1.2.1")}, nil), "route", Pass, "", "to 1 of 1 hosts: by eth0 to the router 10.1.2.1", ""},
	{"a host on this one", hops(route.Hop{NetDev: "lo", Local: true}, nil), "route", Pass, "", "on this host", ""},
	{"a host that nobody is", answering(nil, nil), "route", Warn, codes.Unreachable, "nobody answers ARP for 10.1.2.4 on eth0", "ip neigh show 10.1.2.4"},
	{"a host that two are", answering(map[string][]net.HardwareAddr{"10.1.2.4": {theirs, another}}, nil), "route", Warn, codes.DuplicateAddress,
		"2 MAC addresses answer ARP for 10.1.2.4: 02:00:0a:01:02:04 and 02:00:0a:01:02:09", "arping -D -I eth0 10.1.2.4"},
	{"this host's address on another", answering(map[string][]net.HardwareAddr{"10.1.2.3": {another}, "10.1.2.4": {theirs}}, nil), "route", Fail, codes.DuplicateAddress,
		"another MAC address answers ARP for this node's address: 02:00:0a:01:02:09", "arping -D -I eth0 10.1.2.3"},
	{"this host's address on its second interface", answering(map[string][]net.HardwareAddr{"10.1.2.3": {mac(address("10.1.2.3"))}, "10.1.2.4": {theirs}}, nil), "route", Pass, "", "one MAC address answers for each", ""},
	{"ARP that this user may not send", answering(nil, unix.EPERM), "route", Pass, "", "was not tested: ARP needs CAP_NET_RAW", ""},
	{"a host that the kernel has not found", func(t *testing.T, f *fake) {
		answering(nil, unix.EPERM)(t, f)
		f.write("proc/net/arp", "IP address       HW type     Flags       HW address            Mask     Device\n10.1.2.4         0x1         0x0         00:00:00:00:00:00     *        eth0\n")
	}, "route", Warn, codes.Unreachable, "the kernel has found no MAC address of 10.1.2.4", "ip neigh show 10.1.2.4"},
}
