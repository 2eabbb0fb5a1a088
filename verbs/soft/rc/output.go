package rc

import (
	"ringcli/verbs"
	"ringcli/verbs/soft/wire"
)

// Frag is a piece of a packet's payload in memory.
type Frag struct {
	Addr uint64
	Len  uint32
}

// Packet is one packet to send: its headers, and where its payload lies.
type Packet struct {
	Header    [wire.MaxHeaderLen]byte
	HeaderLen uint8
	Pad       uint8 // zero bytes after the payload
	Frags     uint8 // how many, from FirstFrag of Output.Frags
	FirstFrag uint32
	Len       uint32 // payload bytes, the sum of the fragments
}

// OrderKind says what an Order does.
type OrderKind uint8

// The kinds of orders.
const (
	Place    OrderKind = iota // copy Data to Addr
	Store64                   // store Value at Addr, in host order
	CompSwap                  // *Result = old value at Addr; store Swap there if it equals Value
	FetchAdd                  // *Result = old value at Addr; add Value there
)

// Order is something to do to registered memory. Data points into the packet
// that was given to Step.
type Order struct {
	Kind   OrderKind
	Addr   uint64
	Data   []byte
	Value  uint64
	Swap   uint64
	Result *uint64
}

// Completion is a completion and the queue that it belongs to.
type Completion struct {
	verbs.Completion
	Recv      bool // for the receive CQ
	Solicited bool // raises a solicited event
}

// Output collects what comes out of a QP. The caller resets it and keeps its
// capacity, so that nothing is allocated in the long run.
type Output struct {
	Packets     []Packet
	Frags       []Frag
	Orders      []Order
	Completions []Completion
}

// ResetPackets forgets the packets that were sent.
func (o *Output) ResetPackets() {
	o.Packets = o.Packets[:0]
	o.Frags = o.Frags[:0]
}

func (o *Output) complete(c verbs.Completion, recv, solicited bool) {
	o.Completions = append(o.Completions, Completion{Completion: c, Recv: recv, Solicited: solicited})
}

// packet appends a packet with its BTH and returns it. The pointer is valid
// until the next append.
func (o *Output) packet(f *wire.BTHFields) *Packet {
	o.Packets = append(o.Packets, Packet{})
	p := &o.Packets[len(o.Packets)-1]
	p.HeaderLen = uint8(f.Opcode.HeaderLen())
	p.Pad = f.PadCount
	wire.BTH(p.Header[:]).Encode(f)
	return p
}

// Counters count events of queue pairs under the names that NICs give them in
// /sys/class/infiniband/*/ports/*/hw_counters. They are plain numbers: the caller
// of the QPs that share them guards them.
type Counters struct {
	OutOfSequence       uint64 // requests ahead of the expected PSN
	PacketSeqErr        uint64 // sequence NAKs received
	LocalAckTimeoutErr  uint64 // retransmission timer ran out
	RNRNakRetryErr      uint64 // RNR NAKs received
	RetryExceededErr    uint64 // work requests given up: transport retries
	RNRRetryExceededErr uint64 // work requests given up: RNR retries
	DuplicateRequest    uint64 // requests seen before
	ImpliedNakSeqErr    uint64 // an answer passed over a READ or an atomic
	RetransmittedPkts   uint64 // request packets sent again
	TimerRetransmits    uint64 // those of them that a retransmission timer or a probe had sent again
	LossProbes          uint64 // times that the oldest packet was sent again ahead of the timer
	RequestPkts         uint64 // request packets sent, retransmissions included
	ResponsePkts        uint64 // READ responses and atomic ACKs sent
	AckPkts             uint64 // ACKs sent
	NakPkts             uint64 // NAKs sent, RNR included
	RespCQEError        uint64 // receives completed with an error that is no flush
	ReqCQEError         uint64 // sends completed with an error that is no flush
	ReqRemoteAccessErr  uint64 // "remote access" NAKs received
	ReqRemoteInvalid    uint64 // "invalid request" NAKs received
	WindowReductions    uint64 // times the window shrank for loss
}
