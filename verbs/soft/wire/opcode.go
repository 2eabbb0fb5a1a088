package wire

import "fmt"

// Opcode is the operation of a packet: the transport in bits 7..5, the kind of
// packet in bits 4..0 (IBTA volume 1, table 38; Linux include/rdma/ib_pack.h).
type Opcode uint8

// Transport is bits 7..5 of an opcode.
type Transport uint8

// Transports.
const (
	RC Transport = 0
	UC Transport = 1
)

// Opcodes of the reliable connection.
const (
	SendFirst      Opcode = 0x00
	SendMiddle     Opcode = 0x01
	SendLast       Opcode = 0x02
	SendLastImm    Opcode = 0x03
	SendOnly       Opcode = 0x04
	SendOnlyImm    Opcode = 0x05
	WriteFirst     Opcode = 0x06
	WriteMiddle    Opcode = 0x07
	WriteLast      Opcode = 0x08
	WriteLastImm   Opcode = 0x09
	WriteOnly      Opcode = 0x0a
	WriteOnlyImm   Opcode = 0x0b
	ReadRequest    Opcode = 0x0c
	ReadRespFirst  Opcode = 0x0d
	ReadRespMiddle Opcode = 0x0e
	ReadRespLast   Opcode = 0x0f
	ReadRespOnly   Opcode = 0x10
	Acknowledge    Opcode = 0x11
	AtomicAck      Opcode = 0x12
	CompareSwap    Opcode = 0x13
	FetchAdd       Opcode = 0x14
	SendLastInv    Opcode = 0x16
	SendOnlyInv    Opcode = 0x17
)

// Opcodes of the unreliable datagram and of the congestion notification packet. As
// those of the unreliable connection (see buildOps), the packets are parsed, no queue
// pair here speaks them.
const (
	UDSendOnly     Opcode = 0x64
	UDSendOnlyImm  Opcode = 0x65
	CongestionNote Opcode = 0x81 // BTH with BECN, then 16 zero bytes
)

// OpFlags are the properties of an opcode.
type OpFlags uint32

// Properties. Exactly one of IsFirst, IsMiddle, IsLast and IsOnly is set on a
// valid opcode; a message or answer of a single packet is IsOnly.
const (
	Valid OpFlags = 1 << iota

	HasRETH
	HasAETH
	HasAtomicETH
	HasAtomicAck
	HasImm
	HasIETH
	HasDETH
	HasPayload // may carry payload bytes

	IsFirst
	IsMiddle
	IsLast
	IsOnly

	IsRequest
	IsResponse // READ response, acknowledge or atomic acknowledge
	IsSend
	IsWrite
	IsRead   // READ request or response
	IsAtomic // atomic request or acknowledge

	NeedsRecv     // consumes a receive work request
	CompletesRecv // completes the message's receive work request

	Starts = IsFirst | IsOnly // begins a message
	Ends   = IsLast | IsOnly  // ends a message
)

// Has reports whether all of bits are set; use Flags()&bits != 0 for any.
func (f OpFlags) Has(bits OpFlags) bool { return f&bits == bits }

type opInfo struct {
	flags     OpFlags
	headerLen uint8
	name      string
}

// ops has a row for each of the 256 opcodes, so that looking one up checks
// nothing; rows of unknown opcodes are zero.
var ops = buildOps()

func buildOps() (t [256]opInfo) {
	const (
		send  = IsRequest | IsSend | HasPayload
		write = IsRequest | IsWrite | HasPayload
		resp  = IsResponse | IsRead | HasPayload
	)
	add := func(o Opcode, name string, f OpFlags) {
		t[o] = opInfo{flags: f | Valid, name: name, headerLen: headerLen(f)}
	}
	// UC has the SENDs and WRITEs of RC under the same operation bits.
	for transport, prefix := range []string{RC: "", UC: "UC_"} {
		base := Opcode(transport << 5)
		add(base|SendFirst, prefix+"SEND_FIRST", send|IsFirst|NeedsRecv)
		add(base|SendMiddle, prefix+"SEND_MIDDLE", send|IsMiddle)
		add(base|SendLast, prefix+"SEND_LAST", send|IsLast|CompletesRecv)
		add(base|SendLastImm, prefix+"SEND_LAST_IMM", send|IsLast|HasImm|CompletesRecv)
		add(base|SendOnly, prefix+"SEND_ONLY", send|IsOnly|NeedsRecv|CompletesRecv)
		add(base|SendOnlyImm, prefix+"SEND_ONLY_IMM", send|IsOnly|HasImm|NeedsRecv|CompletesRecv)
		add(base|WriteFirst, prefix+"WRITE_FIRST", write|IsFirst|HasRETH)
		add(base|WriteMiddle, prefix+"WRITE_MIDDLE", write|IsMiddle)
		add(base|WriteLast, prefix+"WRITE_LAST", write|IsLast)
		add(base|WriteLastImm, prefix+"WRITE_LAST_IMM", write|IsLast|HasImm|NeedsRecv|CompletesRecv)
		add(base|WriteOnly, prefix+"WRITE_ONLY", write|IsOnly|HasRETH)
		add(base|WriteOnlyImm, prefix+"WRITE_ONLY_IMM", write|IsOnly|HasRETH|HasImm|NeedsRecv|CompletesRecv)
	}
	add(ReadRequest, "READ_REQUEST", IsRequest|IsRead|IsOnly|HasRETH)
	add(ReadRespFirst, "READ_RESP_FIRST", resp|IsFirst|HasAETH)
	add(ReadRespMiddle, "READ_RESP_MIDDLE", resp|IsMiddle)
	add(ReadRespLast, "READ_RESP_LAST", resp|IsLast|HasAETH)
	add(ReadRespOnly, "READ_RESP_ONLY", resp|IsOnly|HasAETH)
	add(Acknowledge, "ACKNOWLEDGE", IsResponse|IsOnly|HasAETH)
	add(AtomicAck, "ATOMIC_ACK", IsResponse|IsAtomic|IsOnly|HasAETH|HasAtomicAck)
	add(CompareSwap, "COMPARE_SWAP", IsRequest|IsAtomic|IsOnly|HasAtomicETH)
	add(FetchAdd, "FETCH_ADD", IsRequest|IsAtomic|IsOnly|HasAtomicETH)
	add(SendLastInv, "SEND_LAST_INV", send|IsLast|HasIETH|CompletesRecv)
	add(SendOnlyInv, "SEND_ONLY_INV", send|IsOnly|HasIETH|NeedsRecv|CompletesRecv)
	add(UDSendOnly, "UD_SEND_ONLY", send|IsOnly|HasDETH|NeedsRecv|CompletesRecv)
	add(UDSendOnlyImm, "UD_SEND_ONLY_IMM", send|IsOnly|HasDETH|HasImm|NeedsRecv|CompletesRecv)
	add(CongestionNote, "CNP", IsOnly|HasPayload)
	return t
}

func headerLen(f OpFlags) uint8 {
	n := BTHLen
	for _, ext := range [...]struct {
		flag OpFlags
		len  int
	}{
		{HasRETH, RETHLen}, {HasAETH, AETHLen}, {HasAtomicETH, AtomicETHLen}, {HasAtomicAck, AtomicAckETHLen},
		{HasImm, ImmDtLen}, {HasIETH, IETHLen}, {HasDETH, DETHLen},
	} {
		if f&ext.flag != 0 {
			n += ext.len
		}
	}
	return uint8(n)
}

// Flags returns the properties of o, 0 where o is unknown.
func (o Opcode) Flags() OpFlags { return ops[o].flags }

// HeaderLen returns the bytes of BTH and extension headers, 0 where o is
// unknown.
func (o Opcode) HeaderLen() int { return int(ops[o].headerLen) }

// Transport returns the transport service that o belongs to.
func (o Opcode) Transport() Transport { return Transport(o >> 5) }

// String returns the operation's name, such as "WRITE_ONLY_IMM"; other
// transports than RC have a prefix.
func (o Opcode) String() string {
	if name := ops[o].name; name != "" {
		return name
	}
	return fmt.Sprintf("opcode %#02x", uint8(o))
}
