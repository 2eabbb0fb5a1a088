package ring

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"ringcli/configs/codes"
	"ringcli/ring/bootstrap"
	"ringcli/verbs/route"
)

// duplicates looks, after a bring-up has failed, whether more than one MAC address answers for the
// address of this rank, of a neighbour or of whom the verdict names, and returns the verdict that
// this makes; the one it was given if none does, or where that cannot be asked.
func (h *Host) duplicates(ctx context.Context, v *Verdict) *Verdict {
	if !h.local.Is4() || h.local.IsLoopback() || len(h.addrs) == 0 || v.Code == codes.DuplicateAddress || v.Told {
		return v
	}
	netdev, _ := route.Network(h.local)
	addrs, of := []netip.Addr{h.local}, map[netip.Addr]int{h.local: h.of.rank}
	for _, rank := range []int{h.of.neighbour(Left), h.of.neighbour(Right), max(v.Rank, 0), v.Edge.From, v.Edge.To} {
		a := h.addrs[rank].Addr()
		_, known := of[a]
		if hop, err := route.Via(h.local, a); !known && err == nil && !hop.Local && !hop.Gateway.IsValid() && hop.NetDev == netdev {
			addrs, of[a] = append(addrs, a), rank
		}
	}
	if len(addrs) == 1 { // nobody is in this network
		return v
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askARP)
	defer cancel()
	owners, err := route.Owners(ctx, netdev, addrs)
	if err != nil {
		return v // not allowed, or no Ethernet
	}
	for _, a := range addrs {
		rank := of[a]
		macs, most, sure := owners[a], 1, bootstrap.Suspect // or one host answers by two interfaces
		if a == h.local {
			macs, most, sure = slices.DeleteFunc(macs, isOwnMAC), 0, bootstrap.Certain
		}
		if len(macs) <= most {
			continue
		}
		text := fmt.Sprintf("%s has the address %s, and so has another host: the MAC address %s answers ARP for it", h.of.NodeName(rank), a, macs[0])
		if a != h.local {
			text = fmt.Sprintf("several MAC addresses answer ARP for %s, the address of %s: %s: two hosts have it, or one host answers by two interfaces",
				a, h.of.NodeName(rank), strings.ReplaceAll(strings.Trim(fmt.Sprint(macs), "[]"), " ", " and "))
		}
		found := &Verdict{
			Kind: v.Kind, Code: codes.DuplicateAddress, Rank: rank, Confidence: sure, By: h.of.rank, Text: text,
			Fix: "give one of the two hosts another address (arping -D " + a.String() + " shows who answers)", Evidence: append([]string{v.Text}, v.Evidence...),
		}
		if v = found; a == h.local { // for certain
			break
		}
	}
	return v
}

// askARP is the deadline for the answers.
const askARP = 5 * time.Second

// isOwnMAC tells whether an interface of this network namespace has a MAC address.
func isOwnMAC(mac net.HardwareAddr) bool {
	list, _ := net.Interfaces()
	return slices.ContainsFunc(list, func(i net.Interface) bool { return bytes.Equal(i.HardwareAddr, mac) })
}
