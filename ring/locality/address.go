package locality

import (
	"fmt"
	"net/netip"
	"slices"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/verbs/route"
)

// Address chooses the address to speak from. A list entry that is an
// address is taken at its word, and must be one of this machine. A name is not: the own host name
// often resolves to 127.0.1.1 (Debian's /etc/hosts). The route to the others says
// better, the neighbours first, and a loopback address only if all are here.
func Address(nodes []hosts.Node, addrs []netip.AddrPort, rank int, isLocal func(netip.Addr) bool, routeTo func(netip.AddrPort) (netip.Addr, error)) (netip.Addr, error) {
	if a, err := netip.ParseAddr(nodes[rank].Host); err == nil {
		if isLocal(a.Unmap()) {
			return a.Unmap(), nil
		}
		return netip.Addr{}, foreign(nodes, addrs, rank, isLocal)
	}
	n := len(nodes)
	var loopback netip.Addr
	var failure error
	for _, step := range candidates(n) {
		a, err := routeTo(addrs[(rank+step)%n])
		switch {
		case err != nil:
			failure = err
		case !a.IsLoopback():
			return a, nil
		case !loopback.IsValid():
			loopback = a
		}
	}
	if failure != nil { // loopback leads to those that are here alone
		return netip.Addr{}, codes.With(codes.Unreachable, fmt.Errorf("no route to another node of the list: %w", failure))
	}
	return loopback, nil
}

// foreign is that the own entry is an address of no interface here.
func foreign(nodes []hosts.Node, addrs []netip.AddrPort, rank int, isLocal func(netip.Addr) bool) error {
	fix := "correct --index or --list; `ip address` shows the addresses of this node"
	for i, a := range addrs {
		if isLocal(a.Addr()) {
			fix = fmt.Sprintf("entry %d, %s, is this node: is --index %d meant?", i, nodes[i].Host, i)
			break
		}
	}
	return usage.Codedf(codes.AddressForeign, "entry %d of the list, %s, is to be this node (--index %d), and no interface here has that address: %s", rank, nodes[rank].Host, rank, fix)
}

// candidates returns distances in the ring: right, left, then the others, and
// the rank itself last.
func candidates(n int) []int {
	out := []int{1, n - 1}
	for d := 2; d < n-1; d++ {
		out = append(out, d)
	}
	return append(out, n)
}

// IsLocal tells whether this machine has the address.
func IsLocal(a netip.Addr) bool {
	_, err := route.NetDev(a)
	return err == nil
}

// Bind chooses where to listen: on the list entry if it is an address of
// this machine, on loopback if the whole ring is there, else on all addresses,
// since what the own name resolves to here need not be what it does elsewhere.
func Bind(nodes []hosts.Node, addrs []netip.AddrPort, rank int, isLocal func(netip.Addr) bool) netip.AddrPort {
	own := addrs[rank]
	_, err := netip.ParseAddr(nodes[rank].Host)
	elsewhere := slices.ContainsFunc(addrs, func(a netip.AddrPort) bool { return !a.Addr().IsLoopback() })
	if err == nil && isLocal(own.Addr()) || !elsewhere {
		return own
	}
	return netip.AddrPortFrom(netip.IPv6Unspecified(), own.Port())
}
