package ring

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"ringcli/verbs/route"
)

// duplicates says which addresses of this rank and its neighbours more than one MAC address answers
// for, after a bring-up has failed; "" if none, or where that cannot be asked.
func (r *Ring) duplicates(ctx context.Context) string {
	if !r.local.Is4() || r.local.IsLoopback() || len(r.addrs) == 0 {
		return ""
	}
	netdev, _ := route.Network(r.local)
	addrs := []netip.Addr{r.local}
	for _, side := range []Side{Left, Right} {
		a := r.addrs[r.neighbour(side)].Addr()
		if hop, err := route.Via(r.local, a); err == nil && !hop.Local && !hop.Gateway.IsValid() && hop.NetDev == netdev && !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	if len(addrs) == 1 { // nobody is in this network
		return ""
	}
	owners, err := route.Owners(ctx, netdev, addrs)
	if err != nil {
		return "" // not allowed, or no Ethernet
	}
	var found []string
	for _, a := range addrs {
		macs, most := owners[a], 1
		if a == r.local {
			macs, most = slices.DeleteFunc(macs, isOwnMAC), 0
		}
		if len(macs) <= most {
			continue
		}
		whose := "another MAC address answers ARP for %s, which is this node's: %s: give one of the two hosts another address"
		if a != r.local {
			whose = "several MAC addresses answer ARP for %s: %s: two hosts have it, or one host answers by two interfaces (arping -D " + a.String() + ")"
		}
		found = append(found, fmt.Sprintf(whose, a, strings.Trim(fmt.Sprint(macs), "[]")))
	}
	return strings.Join(found, "; ")
}

// isOwnMAC tells whether an interface of this network namespace has a MAC address.
func isOwnMAC(mac net.HardwareAddr) bool {
	list, _ := net.Interfaces()
	return slices.ContainsFunc(list, func(i net.Interface) bool { return bytes.Equal(i.HardwareAddr, mac) })
}
