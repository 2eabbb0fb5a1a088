package wire

import "fmt"

// Opcode is the operation of a packet: the transport in bits 7..5, the kind of
// packet in bits 4..0 (IBTA volume 1, table 38; Linux include/rdma/ib_pack.h).
type Opcode uint8

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

// OpFlags are the properties of an opcode.
type OpFlags uint32

// Properties. Exactly one of IsFirst, IsMiddle, IsLast and IsOnly is set on an
// opcode of RC; a message or answer of a single packet is IsOnly.
const (
	Valid OpFlags = 1 << iota

	HasRETH
	HasAETH
	HasAtomicETH
	HasAtomicAck
	HasImm
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

type opInfo struct {
	flags     OpFlags
	headerLen uint8
	name      string
}

// ops has a row for each of the 256 opcodes, so that looking one up checks
// nothing; rows of unknown opcodes are zero.
var ops = func() (t [256]opInfo) {
	const (
		send  = IsRequest | IsSend | HasPayload
		write = IsRequest | IsWrite | HasPayload
		resp  = IsResponse | IsRead | HasPayload
	)
	add := func(o Opcode, name string, f OpFlags) {
		t[o] = opInfo{flags: f | Valid, name: name, headerLen: headerLen(f)}
	}
	add(SendFirst, "SEND_FIRST", send|IsFirst|NeedsRecv)
	add(SendMiddle, "SEND_MIDDLE", send|IsMiddle)
	add(SendLast, "SEND_LAST", send|IsLast|CompletesRecv)
	add(SendLastImm, "SEND_LAST_IMM", send|IsLast|HasImm|CompletesRecv)
	add(SendOnly, "SEND_ONLY", send|IsOnly|NeedsRecv|CompletesRecv)
	add(SendOnlyImm, "SEND_ONLY_IMM", send|IsOnly|HasImm|NeedsRecv|CompletesRecv)
	add(WriteFirst, "WRITE_FIRST", write|IsFirst|HasRETH)
	add(WriteMiddle, "WRITE_MIDDLE", write|IsMiddle)
	add(WriteLast, "WRITE_LAST", write|IsLast)
	add(WriteLastImm, "WRITE_LAST_IMM", write|IsLast|HasImm|NeedsRecv|CompletesRecv)
	add(WriteOnly, "WRITE_ONLY", write|IsOnly|HasRETH)
	add(WriteOnlyImm, "WRITE_ONLY_IMM", write|IsOnly|HasRETH|HasImm|NeedsRecv|CompletesRecv)
	add(ReadRequest, "READ_REQUEST", IsRequest|IsRead|IsOnly|HasRETH)
	add(ReadRespFirst, "READ_RESP_FIRST", resp|IsFirst|HasAETH)
	add(ReadRespMiddle, "READ_RESP_MIDDLE", resp|IsMiddle)
	add(ReadRespLast, "READ_RESP_LAST", resp|IsLast|HasAETH)
	add(ReadRespOnly, "READ_RESP_ONLY", resp|IsOnly|HasAETH)
	add(Acknowledge, "ACKNOWLEDGE", IsResponse|IsOnly|HasAETH)
	add(AtomicAck, "ATOMIC_ACK", IsResponse|IsAtomic|IsOnly|HasAETH|HasAtomicAck)
	add(CompareSwap, "COMPARE_SWAP", IsRequest|IsAtomic|IsOnly|HasAtomicETH)
	add(FetchAdd, "FETCH_ADD", IsRequest|IsAtomic|IsOnly|HasAtomicETH)
	// No key to invalidate is ever handed out: a responder refuses these, as no SEND of
	// its message, and what follows the BTH is not looked at.
	add(SendLastInv, "SEND_LAST_INV", IsRequest|IsLast|HasPayload)
	add(SendOnlyInv, "SEND_ONLY_INV", IsRequest|IsOnly|HasPayload)
	// The unreliable connection, the unreliable datagram and congestion notifications are
	// known, and no queue pair here speaks them. UC has the operation bits of RC.
	for o := range WriteOnlyImm + 1 {
		add(o|0x20, "UC_"+t[o].name, 0)
	}
	add(0x64, "UD_SEND_ONLY", 0)
	add(0x65, "UD_SEND_ONLY_IMM", 0)
	add(0x81, "CNP", 0)
	return t
}()

func headerLen(f OpFlags) uint8 {
	n := BTHLen
	for _, ext := range [...]struct {
		flag OpFlags
		len  int
	}{
		{HasRETH, RETHLen}, {HasAETH, AETHLen}, {HasAtomicETH, AtomicETHLen}, {HasAtomicAck, AtomicAckETHLen},
		{HasImm, ImmDtLen},
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

// String returns the operation's name, such as "WRITE_ONLY_IMM"; other
// transports than RC have a prefix.
func (o Opcode) String() string {
	if name := ops[o].name; name != "" {
		return name
	}
	return fmt.Sprintf("opcode %#02x", uint8(o))
}
