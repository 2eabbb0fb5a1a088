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

// place scatters a payload into sge from offset on.
func (o *Output) place(sge []verbs.SGE, offset int, payload []byte) {
	kept := len(o.Frags)
	o.Frags = appendFrags(o.Frags, sge, offset, len(payload))
	for _, f := range o.Frags[kept:] {
		o.Orders = append(o.Orders, Order{Kind: Place, Addr: f.Addr, Data: payload[:f.Len]})
		payload = payload[f.Len:]
	}
	o.Frags = o.Frags[:kept]
}

// Counters count events of queue pairs under the names that mlx5 and rdma_rxe give them
// in /sys/class/infiniband/*/ports/*/hw_counters, where these have them. They are plain
// numbers: the caller of the QPs that share them guards them.
type Counters struct {
	RequestPkts         uint64 `counter:"sent_requests"`              // request packets sent, retransmissions included
	ResponsePkts        uint64 `counter:"sent_responses"`             // READ responses and atomic ACKs sent
	AckPkts             uint64 `counter:"sent_acks"`                  // ACKs sent
	NakPkts             uint64 `counter:"sent_naks"`                  // NAKs sent, RNR included
	RetransmittedPkts   uint64 `counter:"retransmitted_requests"`     // request packets sent again
	TimerRetransmits    uint64 `counter:"retransmitted_by_timer"`     // those of them that a retransmission timer or a probe had sent again
	LossProbes          uint64 `counter:"loss_probes"`                // times that the oldest packet was sent again ahead of the timer
	OutOfSequence       uint64 `counter:"out_of_sequence"`            // requests ahead of the expected PSN
	PacketSeqErr        uint64 `counter:"packet_seq_err"`             // sequence NAKs received
	ImpliedNakSeqErr    uint64 `counter:"implied_nak_seq_err"`        // an answer passed over a READ or an atomic
	LocalAckTimeoutErr  uint64 `counter:"local_ack_timeout_err"`      // retransmission timer ran out
	RNRNakRetryErr      uint64 `counter:"rcvd_rnr_err"`               // RNR NAKs received
	RNRRetryExceededErr uint64 `counter:"rnr_nak_retry_err"`          // work requests given up: RNR retries
	RetryExceededErr    uint64 `counter:"retry_exceeded_err"`         // work requests given up: transport retries
	DuplicateRequest    uint64 `counter:"duplicate_request"`          // requests seen before
	ReqCQEError         uint64 `counter:"req_cqe_error"`              // sends completed with an error that is no flush
	RespCQEError        uint64 `counter:"resp_cqe_error"`             // receives completed with an error that is no flush
	ReqRemoteAccessErr  uint64 `counter:"req_remote_access_errors"`   // "remote access" NAKs received
	ReqRemoteInvalid    uint64 `counter:"req_remote_invalid_request"` // "invalid request" NAKs received
	WindowReductions    uint64 `counter:"window_reductions"`          // times the window shrank for loss
}

// Losses are those of the requester.
func (c *Counters) Losses() verbs.Losses {
	return verbs.Losses{
		Sent: c.RequestPkts, Resent: c.RetransmittedPkts, SequenceNAKs: c.PacketSeqErr, ImpliedNAKs: c.ImpliedNakSeqErr,
		Timeouts: c.LocalAckTimeoutErr, RNRNAKs: c.RNRNakRetryErr,
	}
}
