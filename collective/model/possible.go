package model

import "fmt"

// Kind is which part of an edge a bound is of.
type Kind string

// The kinds of bounds.
const (
	Port   Kind = "port"   // its active rate, less headers
	PCIe   Kind = "pcie"   // the device's link to memory
	CPU    Kind = "cpu"    // with its socket buffers, where a CPU sends and receives packets
	Memory Kind = "memory" // where ranks share it
)

// Bound is the most payload that a part of an edge can carry, each way.
type Bound struct {
	Kind Kind
	Rate float64 // bytes/s
	Why  string  // what it follows from
}

// Least is the bound that binds; false if there is none.
func Least(bounds []Bound) (least Bound, ok bool) {
	for _, b := range bounds {
		if !ok || b.Rate < least.Rate {
			least, ok = b, true
		}
	}
	return least, ok
}

// What a packet has beside its payload, in bytes.
const (
	// roce is of RoCEv2 over IPv4: Ethernet 14, IP 20, UDP 8, BTH 12, ICRC 4 (Annex A17 of the
	// InfiniBand specification); ipv6 is what IPv6 has more.
	roce, ipv6 = 14 + 20 + 8 + 12 + 4, 20
	// ethernet is around a frame on its wire: FCS 4, preamble 8, interpacket gap 12
	// (IEEE 802.3, 4.2.3 and 4.4.2).
	ethernet = 4 + 8 + 12
	// infiniband is LRH 8, BTH 12, ICRC 4, VCRC 2 (InfiniBand specification 1.4, 5.2 and 7.8).
	infiniband = 8 + 12 + 4 + 2
)

// PortBound is that of a port of so many Mb/s, whose packets carry up to mtu bytes.
func PortBound(mbps, mtu int, overEthernet, overIPv6 bool) Bound {
	around, name := infiniband, "InfiniBand"
	if overEthernet {
		around, name = roce+ethernet, "RoCEv2"
		if overIPv6 {
			around += ipv6
		}
	}
	share := float64(mtu) / float64(mtu+around)
	return Bound{Port, float64(mbps) / 8 * 1e6 * share, fmt.Sprintf("%g Gb/s, of which packets of %d bytes leave %.1f %% (%d bytes around each, %s)", float64(mbps)/1e3, mtu, share*100, around, name)}
}
