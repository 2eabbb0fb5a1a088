package wire

import "encoding/binary"

// Offsets in the base transport header (IBTA volume 1, section 9.2).
const (
	bthOpcode = 0 // 8 bits
	bthFlags  = 1 // solicited 1, MigReq 1, pad count 2, version 4
	bthPKey   = 2 // 16 bits
	bthQPN    = 4 // 32 bits: FECN 1, BECN 1, reserved 6, which the ICRC leaves out, queue pair number 24
	bthPSN    = 8 // 32 bits: AckReq 1, reserved 7, packet sequence number 24
)

const (
	bthSolicited = 0x80
	bthMigReq    = 0x40
	bthPadMask   = 0x30
	bthPadShift  = 4
	bthTVerMask  = 0x0f
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

// What BTHFields says of them. Solicited means something on the last packet of a SEND or
// of a WRITE with immediate.

func (b BTH) Opcode() Opcode  { return Opcode(b[bthOpcode]) }
func (b BTH) Solicited() bool { return b[bthFlags]&bthSolicited != 0 }
func (b BTH) AckReq() bool    { return b[bthPSN]&(bthAckReq>>24) != 0 }
func (b BTH) PadCount() uint8 { return b[bthFlags] & bthPadMask >> bthPadShift }
func (b BTH) PKey() uint16    { return binary.BigEndian.Uint16(b[bthPKey:]) }
func (b BTH) DestQPN() uint32 { return binary.BigEndian.Uint32(b[bthQPN:]) & mask24 }
func (b BTH) PSN() uint32     { return binary.BigEndian.Uint32(b[bthPSN:]) & mask24 }

// TVer returns the transport header version, 0 in every packet known.
func (b BTH) TVer() uint8 { return b[bthFlags] & bthTVerMask }
