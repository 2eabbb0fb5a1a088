package wire

import "encoding/binary"

// Offsets in the base transport header (IBTA volume 1, section 9.2).
const (
	bthOpcode = 0 // 8 bits
	bthFlags  = 1 // solicited 1, MigReq 1, pad count 2, version 4
	bthPKey   = 2 // 16 bits
	bthResv8a = 4 // FECN 1, BECN 1, reserved 6: the byte that the ICRC leaves out
	bthQPN    = 4 // 32 bits, of which the low 24 are the queue pair number
	bthPSN    = 8 // 32 bits: AckReq 1, reserved 7, packet sequence number 24
)

const (
	bthSolicited = 0x80
	bthMigReq    = 0x40
	bthPadMask   = 0x30
	bthPadShift  = 4
	bthTVerMask  = 0x0f
	bthFECN      = 0x80
	bthBECN      = 0x40
	bthAckReq    = 1 << 31
	mask24       = 1<<24 - 1
)

// BTH is the base transport header, the first BTHLen bytes of each packet.
type BTH []byte

// BTHFields are what [BTH.Encode] writes. FECN, BECN, the version and the
// reserved bits become zero.
type BTHFields struct {
	Opcode    Opcode
	Solicited bool  // the receiver's completion raises an event
	MigReq    bool  // path migration state; hardware sends 1, Linux rdma_rxe 0, neither minds
	AckReq    bool  // the responder must acknowledge
	PadCount  uint8 // 0 to 3, see [Pad]
	PKey      uint16
	DestQPN   uint32 // 24 bits
	PSN       uint32 // 24 bits
}

// Encode writes all of the header. Bits of DestQPN and PSN above the 24th and
// of PadCount above the second are dropped.
func (b BTH) Encode(f *BTHFields) {
	_ = b[BTHLen-1]
	flags := f.PadCount << bthPadShift & bthPadMask
	if f.Solicited {
		flags |= bthSolicited
	}
	if f.MigReq {
		flags |= bthMigReq
	}
	psn := f.PSN & mask24
	if f.AckReq {
		psn |= bthAckReq
	}
	b[bthOpcode] = byte(f.Opcode)
	b[bthFlags] = flags
	binary.BigEndian.PutUint16(b[bthPKey:], f.PKey)
	binary.BigEndian.PutUint32(b[bthQPN:], f.DestQPN&mask24)
	binary.BigEndian.PutUint32(b[bthPSN:], psn)
}

// Opcode returns the operation.
func (b BTH) Opcode() Opcode { return Opcode(b[bthOpcode]) }

// Solicited reports the solicited event bit, which means something on the last
// packet of a SEND or of a WRITE with immediate.
func (b BTH) Solicited() bool { return b[bthFlags]&bthSolicited != 0 }

// MigReq reports the path migration bit.
func (b BTH) MigReq() bool { return b[bthFlags]&bthMigReq != 0 }

// PadCount returns how many pad bytes, 0 to 3, stand between payload and ICRC.
func (b BTH) PadCount() uint8 { return b[bthFlags] & bthPadMask >> bthPadShift }

// TVer returns the transport header version, 0 in every packet known.
func (b BTH) TVer() uint8 { return b[bthFlags] & bthTVerMask }

// PKey returns the partition key.
func (b BTH) PKey() uint16 { return binary.BigEndian.Uint16(b[bthPKey:]) }

// FECN reports forward congestion.
func (b BTH) FECN() bool { return b[bthResv8a]&bthFECN != 0 }

// BECN reports backward congestion.
func (b BTH) BECN() bool { return b[bthResv8a]&bthBECN != 0 }

// DestQPN returns the destination queue pair number, 24 bits.
func (b BTH) DestQPN() uint32 { return binary.BigEndian.Uint32(b[bthQPN:]) & mask24 }

// AckReq reports whether an acknowledgement is asked for.
func (b BTH) AckReq() bool { return b[bthPSN]&(bthAckReq>>24) != 0 }

// PSN returns the packet sequence number, 24 bits.
func (b BTH) PSN() uint32 { return binary.BigEndian.Uint32(b[bthPSN:]) & mask24 }

// SetOpcode sets the operation.
func (b BTH) SetOpcode(o Opcode) { b[bthOpcode] = byte(o) }

// SetSolicited sets the solicited event bit.
func (b BTH) SetSolicited(on bool) { setBits(&b[bthFlags], bthSolicited, on) }

// SetMigReq sets the path migration bit.
func (b BTH) SetMigReq(on bool) { setBits(&b[bthFlags], bthMigReq, on) }

// SetPadCount sets the number of pad bytes, 0 to 3.
func (b BTH) SetPadCount(n uint8) {
	b[bthFlags] = b[bthFlags]&^bthPadMask | n<<bthPadShift&bthPadMask
}

// SetTVer sets the transport header version, 4 bits.
func (b BTH) SetTVer(v uint8) { b[bthFlags] = b[bthFlags]&^bthTVerMask | v&bthTVerMask }

// SetPKey sets the partition key.
func (b BTH) SetPKey(k uint16) { binary.BigEndian.PutUint16(b[bthPKey:], k) }

// SetFECN sets the forward congestion bit. The ICRC does not cover it.
func (b BTH) SetFECN(on bool) { setBits(&b[bthResv8a], bthFECN, on) }

// SetBECN sets the backward congestion bit. The ICRC does not cover it.
func (b BTH) SetBECN(on bool) { setBits(&b[bthResv8a], bthBECN, on) }

// SetDestQPN sets the destination queue pair number, 24 bits.
func (b BTH) SetDestQPN(qpn uint32) {
	binary.BigEndian.PutUint32(b[bthQPN:], uint32(b[bthResv8a])<<24|qpn&mask24)
}

// SetAckReq sets the bit that asks for an acknowledgement.
func (b BTH) SetAckReq(on bool) { setBits(&b[bthPSN], bthAckReq>>24, on) }

// SetPSN sets the packet sequence number, 24 bits.
func (b BTH) SetPSN(psn uint32) {
	binary.BigEndian.PutUint32(b[bthPSN:], uint32(b[bthPSN])<<24|psn&mask24)
}

func setBits(b *byte, bits byte, on bool) {
	if on {
		*b |= bits
	} else {
		*b &^= bits
	}
}
