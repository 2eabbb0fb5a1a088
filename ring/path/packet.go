package path

import (
	"encoding/binary"
	"net/netip"
	"time"
)

// Kind is what a probe is to find out.
type Kind uint8

const (
	Size Kind = iota // does a packet of Index bytes arrive
	Mark             // does a packet arrive with the traffic class that it left with
	Port             // how does it go by one source port; it is sent back
)

// Probe is one packet of several that are alike.
type Probe struct {
	From  uint16 `json:"from"` // the sender's rank
	Kind  Kind   `json:"kind"`
	Index uint16 `json:"index"` // bytes, or place in a list
}

// Target is where a receiver takes probes.
type Target struct {
	Addr netip.AddrPort `json:"addr"`
	Key  uint64         `json:"key"` // which strangers do not know
}

// A probe begins with key, sender, kind, index, number and the sender's clock; zeros follow.
const (
	probeFrom   = 8
	probeKind   = probeFrom + 2
	probeIndex  = probeKind + 1
	probeNumber = probeIndex + 2
	probeSent   = probeNumber + 1
	probeLen    = probeSent + 8
)

// MostEach is how many probes may be alike: their numbers fit a word.
const MostEach = 64

const (
	udpHeader = 8
	// Most is the longest packet that can be probed: an IPv4 packet.
	Most = 65535
)

// Headers are those of a UDP datagram to an address, in bytes.
func Headers(a netip.Addr) int {
	if a.Is4() {
		return 20 + udpHeader
	}
	return 40 + udpHeader
}

// Least is the shortest packet that can be a probe, headers included.
func Least(a netip.Addr) int { return Headers(a) + probeLen }

// clock counts nanoseconds of this process. Two processes' differ by a constant.
func clock() int64 { return int64(time.Since(began)) }

var began = time.Now()

func (p Probe) encode(b []byte, key uint64, number int) {
	binary.BigEndian.PutUint64(b, key)
	binary.BigEndian.PutUint16(b[probeFrom:], p.From)
	b[probeKind] = byte(p.Kind)
	binary.BigEndian.PutUint16(b[probeIndex:], p.Index)
	b[probeNumber] = byte(number)
	binary.BigEndian.PutUint64(b[probeSent:], uint64(clock()))
}

func decode(b []byte, key uint64) (p Probe, number int, sent int64, ok bool) {
	if len(b) < probeLen || binary.BigEndian.Uint64(b) != key || b[probeNumber] >= MostEach {
		return
	}
	p = Probe{binary.BigEndian.Uint16(b[probeFrom:]), Kind(b[probeKind]), binary.BigEndian.Uint16(b[probeIndex:])}
	return p, int(b[probeNumber]), int64(binary.BigEndian.Uint64(b[probeSent:])), true
}
