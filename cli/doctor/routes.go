package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"ringcli/configs/codes"
	"ringcli/verbs/route"
)

// leg is what this node knows of the way to a host of the list.
type leg struct {
	host string
	to   netip.Addr
	hop  route.Hop
	err  error
}

// legs are those to the other addresses of the list, each once.
func (e *exam) legs() (list []leg) {
	for i, a := range e.addrs {
		to := a.Addr()
		if i == e.asked.Index || !to.IsValid() || to == e.local || slices.ContainsFunc(list, func(l leg) bool { return l.to == to }) {
			continue
		}
		l := leg{host: e.asked.List[i].Host, to: to}
		l.hop, l.err = e.Hop(e.local, to)
		list = append(list, l)
	}
	return list
}

// routeRows are one for each host of the list to which the way is not well, and one for the others.
func (e *exam) routeRows(ctx context.Context) (rows []Preflight) {
	const check = "route"
	switch {
	case len(e.asked.List) == 0:
		return []Preflight{skip(check, "", "no --list is given")}
	case !e.local.IsValid():
		return []Preflight{skip(check, "", "which address this node speaks from is not known: --index, and the row address")}
	}
	netdev, network := e.Network(e.local)
	legs := e.legs()
	answers, untested := e.owners(ctx, netdev, legs)
	ways := map[string]bool{}
	good := 0
	for _, l := range legs {
		get := fmt.Sprintf("ip route get %s from %s", l.to, e.local)
		switch near := !l.hop.Local && !l.hop.Gateway.IsValid(); {
		case l.err != nil:
			rows = append(rows, finding(Fail, check, l.host, l.err.Error()).but(codes.Unreachable, "a route",
				fmt.Sprintf("%s  # this node is %s: correct its netmask, add a route, or correct the list", get, network)))
			continue
		case !l.hop.Local && l.hop.NetDev != netdev:
			rows = append(rows, finding(Warn, check, l.host, l.hop.String()).but(codes.AddressMismatch, fmt.Sprintf("by %s, which has %s", netdev, e.local),
				fmt.Sprintf("%s; ip rule  # or list the address of this node that leads there", get)))
			continue
		case near && untested == nil && len(answers[l.to]) == 0:
			rows = append(rows, finding(Warn, check, l.host, fmt.Sprintf("nobody answers ARP for %s on %s", l.to, l.hop.NetDev)).but(codes.Unreachable, "an answer",
				fmt.Sprintf("ip neigh show %s  # the host is down or has another address; or it is in another network, and this node's netmask (%s) is too short", l.to, network)))
			continue
		case near && untested != nil && e.node.unresolved(l.to):
			rows = append(rows, finding(Warn, check, l.host, fmt.Sprintf("the kernel has found no MAC address of %s on %s", l.to, l.hop.NetDev)).but(codes.Unreachable, "one",
				fmt.Sprintf("ip neigh show %s  # the host is down, or this node's netmask (%s) is too short", l.to, network)))
			continue
		}
		if several := answers[l.to]; len(several) > 1 {
			rows = append(rows, finding(Warn, check, l.host, fmt.Sprintf("%d MAC addresses answer ARP for %s: %s", len(several), l.to, join(several))).but(codes.DuplicateAddress,
				"one: two hosts have the address, or one host answers by two interfaces",
				fmt.Sprintf("arping -D -I %s %s  # then `ip address` on the hosts of these MAC addresses; one host: sysctl net.ipv4.conf.all.arp_ignore=1", l.hop.NetDev, l.to)))
			continue
		}
		good++
		ways[l.hop.String()] = true
	}
	if others := e.node.foreign(answers[e.local]); len(others) > 0 {
		rows = append(rows, finding(Fail, check, e.local.String(), fmt.Sprintf("another MAC address answers ARP for this node's address: %s", join(others))).but(codes.DuplicateAddress,
			"none", fmt.Sprintf("arping -D -I %s %s  # then give one of the two hosts another address", netdev, e.local)))
	}
	if good == 0 {
		return rows
	}
	value := fmt.Sprintf("to %d of %d hosts: %s", good, len(legs), strings.Join(slices.Sorted(maps.Keys(ways)), "; "))
	switch {
	case untested != nil:
		value += fmt.Sprintf("; whether an address is there twice was not tested: %v", untested)
	case len(answers) > 0:
		value += "; one MAC address answers for each"
	}
	return append(rows, pass(check, "", "%s", value))
}

// owners asks who has the addresses that are in this node's network, and its own. The error says why
// that was not asked.
func (e *exam) owners(ctx context.Context, netdev string, legs []leg) (map[netip.Addr][]net.HardwareAddr, error) {
	var near []netip.Addr
	for _, l := range legs {
		if l.err == nil && !l.hop.Local && !l.hop.Gateway.IsValid() && l.hop.NetDev == netdev {
			near = append(near, l.to)
		}
	}
	switch {
	case near == nil:
		return nil, nil
	case !e.local.Is4():
		return nil, errors.New("IPv6 has no ARP")
	}
	answers, err := e.Owners(ctx, netdev, append(near, e.local))
	if errors.Is(err, unix.EPERM) {
		err = errors.New("ARP needs CAP_NET_RAW")
	}
	return answers, err
}

func join(list []net.HardwareAddr) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(list), "[]"), " ", " and ")
}

// foreign are the MAC addresses that are none of this node's interfaces.
func (m machine) foreign(list []net.HardwareAddr) []net.HardwareAddr {
	own := m.list("sys/class/net")
	return slices.DeleteFunc(slices.Clone(list), func(mac net.HardwareAddr) bool {
		return slices.ContainsFunc(own, func(i string) bool { return m.text("sys/class/net/"+i+"/address") == mac.String() })
	})
}

// unresolved tells whether the kernel has asked for the MAC address of an address in vain.
func (m machine) unresolved(a netip.Addr) bool {
	const flags = 2 // the third field: 0x2 is ATF_COM of linux/if_arp.h
	for line := range strings.Lines(m.text("proc/net/arp")) {
		if f := strings.Fields(line); len(f) > flags && f[0] == a.String() {
			return f[flags] == "0x0"
		}
	}
	return false
}
