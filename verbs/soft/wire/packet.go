package wire

import "errors"

// What [Parse] finds wrong with a packet. All but ErrPad call for silence.
var (
	ErrShort         = errors.New("wire: packet is shorter than its headers and ICRC")
	ErrVersion       = errors.New("wire: transport header version is not 0")
	ErrUnknownOpcode = errors.New("wire: unknown opcode")
	// ErrPad means that headers, payload and pad do not make a multiple of 4
	// bytes or that there are fewer bytes than the pad count says. A responder
	// answers it with NakInvalidRequest, as Linux rdma_rxe does.
	ErrPad = errors.New("wire: pad count does not fit the packet's length")
)

// Packet is a parsed packet. Its slices point into the bytes that were parsed
// and live as long as these; headers that the opcode has not are nil.
type Packet struct {
	Opcode    Opcode
	Flags     OpFlags // Opcode.Flags()
	AckReq    bool
	Solicited bool
	DestQPN   uint32 // 24 bits
	PSN       uint32 // 24 bits
	Imm       uint32 // where Flags has HasImm

	BTH       BTH
	RETH      RETH
	AETH      AETH
	Atomic    AtomicETH
	AtomicAck AtomicAckETH
	Payload   []byte // without the pad; empty but not nil where there is none
}

// Parse fills p from a UDP payload, BTH to ICRC inclusive. It does not verify
// the ICRC (see [Flow.Verify]) nor look at what the pad bytes hold. Other than
// slicing it touches only the headers. After ErrPad the fields other than
// Payload are set, after any other error p is unspecified.
func Parse(p *Packet, udpPayload []byte) error {
	if len(udpPayload) < BTHLen+ICRCLen {
		return ErrShort
	}
	b := BTH(udpPayload[:BTHLen:BTHLen])
	if b.TVer() != 0 {
		return ErrVersion
	}
	op := b.Opcode()
	flags := op.Flags()
	if flags == 0 {
		return ErrUnknownOpcode
	}
	headers, end := op.HeaderLen(), len(udpPayload)-ICRCLen
	if end < headers {
		return ErrShort
	}
	*p = Packet{
		Opcode:    op,
		Flags:     flags,
		AckReq:    b.AckReq(),
		Solicited: b.Solicited(),
		DestQPN:   b.DestQPN(),
		PSN:       b.PSN(),
		BTH:       b,
	}
	if headers > BTHLen {
		p.parseExt(udpPayload[BTHLen:headers:headers])
	}
	pad := int(b.PadCount())
	if len(udpPayload)%4 != 0 || end-headers < pad {
		return ErrPad
	}
	p.Payload = udpPayload[headers : end-pad : end-pad]
	return nil
}

// parseExt slices the extension headers, whose order is fixed; h is exactly as
// long as they are.
func (p *Packet) parseExt(h []byte) {
	f := p.Flags
	if f&HasRETH != 0 {
		p.RETH, h = RETH(h[:RETHLen:RETHLen]), h[RETHLen:]
	}
	if f&HasAETH != 0 {
		p.AETH, h = AETH(h[:AETHLen:AETHLen]), h[AETHLen:]
	}
	if f&HasAtomicETH != 0 {
		p.Atomic, h = AtomicETH(h[:AtomicETHLen:AtomicETHLen]), h[AtomicETHLen:]
	}
	if f&HasAtomicAck != 0 {
		p.AtomicAck, h = AtomicAckETH(h[:AtomicAckETHLen:AtomicAckETHLen]), h[AtomicAckETHLen:]
	}
	if f&HasImm != 0 {
		p.Imm = ImmDt(h).Value()
	}
}
