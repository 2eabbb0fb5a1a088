package wire

import (
	"encoding/binary"
	"net/netip"
)

// icrcOf returns the invariant CRC that a packet has, right or not.
func icrcOf(b []byte) uint32 { return binary.LittleEndian.Uint32(b[len(b)-ICRCLen:]) }

// Dst returns the receiver's address and port.
func (f *Flow) Dst() netip.AddrPort { return f.dst }

// MigReq reports the path migration bit.
func (b BTH) MigReq() bool { return b[bthFlags]&bthMigReq != 0 }

// ICRC returns the invariant CRC of the packet with the IP identification id
// (ignored for IPv6), whose UDP payload is headers (BTH and extension headers),
// payload, zero bytes up to a multiple of 4, and the ICRC.
func (f *Flow) ICRC(id uint16, headers, payload []byte) uint32 {
	pad := Pad(len(payload))
	r := f.afterUDP(id, len(headers)+len(payload)+pad+ICRCLen)
	r = foldShort(foldBTH(r, headers), headers[BTHLen:])
	return ^foldShort(fold(r, payload), make([]byte, pad))
}
