package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"ringcli/verbs"
)

// End is one end of an edge: what its queue pair, its port and its GID table say
// at this moment (ibv_query_qp, ibv_query_port, ibv_query_gid), and below what the
// ring itself knows. Attributes that the queue pair has not been given yet are 0.
type End struct {
	Rank     int    `json:"rank"`
	Node     string `json:"node"`
	Side     string `json:"side"`
	Channel  int    `json:"channel"` // of the edge, from 0
	Peer     int    `json:"peer"`
	PeerNode string `json:"peer_node"`

	Device    string                 `json:"device"`
	Provider  string                 `json:"provider"`
	NetDev    string                 `json:"netdev"`
	LinkLayer Known[verbs.LinkLayer] `json:"link_layer"`
	PortState Known[verbs.PortState] `json:"port_state"`
	GID       verbs.GID              `json:"gid"` // of sgid_index from RTR on, else the chosen one
	GIDType   Known[verbs.GIDType]   `json:"gid_type"`
	GIDIndex  int                    `json:"gid_index"`
	LID       uint16                 `json:"lid"`
	Port      int                    `json:"port"`
	ActiveMTU int                    `json:"active_mtu"` // bytes
	UDPPort   uint16                 `json:"udp_port"`

	QPN             uint32               `json:"qpn"`
	QPState         Known[verbs.QPState] `json:"qp_state"`
	PathMTU         int                  `json:"path_mtu"` // bytes
	RQPSN           uint32               `json:"rq_psn"`   // expected next
	SQPSN           uint32               `json:"sq_psn"`   // sent next
	DestQPN         uint32               `json:"dest_qpn"`
	DGID            verbs.GID            `json:"dgid"`
	DLID            uint16               `json:"dlid"`
	DestUDPPort     uint16               `json:"dest_udp_port"` // of a soft device
	SGIDIndex       int                  `json:"sgid_index"`
	FlowLabel       uint32               `json:"flow_label"`
	SL              uint8                `json:"sl"`
	TrafficClass    uint8                `json:"traffic_class"`
	HopLimit        uint8                `json:"hop_limit"`
	Access          verbs.Access         `json:"access"`
	AccessFlags     []string             `json:"access_flags"`
	PKeyIndex       uint16               `json:"pkey_index"`
	PKey            uint16               `json:"pkey"`
	PortNum         int                  `json:"port_num"`
	QPTimeout       uint8                `json:"qp_timeout"`
	RetryCnt        uint8                `json:"retry_cnt"`
	RNRRetry        uint8                `json:"rnr_retry"`
	MinRNRTimer     uint8                `json:"min_rnr_timer"`
	MaxRDAtomic     uint8                `json:"max_rd_atomic"`
	MaxDestRDAtomic uint8                `json:"max_dest_rd_atomic"`
	Cap             verbs.QPCap          `json:"cap"` // as it was created

	// What Exchange announces to the peer.
	FirstPSN  uint32     `json:"first_psn"`
	MTU       int        `json:"mtu"` // bytes: the most that this end wants
	Slots     MemoryInfo `json:"slots"`
	SlotCount int        `json:"slot_count"`
	SlotSize  int        `json:"slot_size"` // bytes, header included
	Regions   []Region   `json:"regions"`

	// What passed through the queue pair since RESET.
	SQPSNFirst     *uint32  `json:"sq_psn_first"`    // as RTS was given it; null before
	RQPSNFirst     *uint32  `json:"rq_psn_first"`    // as RTR was given it; null before
	SendsPosted    int      `json:"sends_posted"`    // and not completed, as far as completions were polled
	ReceivesPosted int      `json:"receives_posted"` // the same
	Traffic        Traffic  `json:"traffic"`         // completed, as far as that was polled
	FirstError     string   `json:"first_error"`     // the first failed completion
	Failure        *Failure `json:"failure"`         // the same, with the request
	Killed         bool     `json:"killed"`          // in ERR by Modify: nothing failed

	RingState string `json:"ring_state"`
	Busy      string `json:"busy"` // what runs on the ring now, if anything does

	Counters    map[string]uint64 `json:"counters"`     // of the port
	CountersRTR map[string]uint64 `json:"counters_rtr"` // the same when the queue pair came to RTR; null before

	Capabilities verbs.Capabilities `json:"-"` // of the device
	Stale        bool               `json:"-"` // it was so once; what moves is not known
}

// Traffic is what a queue pair has completed since RESET, in requests and bytes: READs count
// as sends.
type Traffic struct {
	Sends         uint64 `json:"sends"`
	SentBytes     uint64 `json:"sent_bytes"`
	Receives      uint64 `json:"receives"`
	ReceivedBytes uint64 `json:"received_bytes"`
}

// MemoryInfo is memory that the peer may reach.
type MemoryInfo struct {
	Addr   uint64 `json:"addr"`
	RKey   uint32 `json:"rkey"`
	Length uint64 `json:"length"`
}

// SlotAccess is what the peer may do to the slots.
const SlotAccess = verbs.AccessLocalWrite | verbs.AccessRemoteWrite

// Region is memory that was registered by hand, as an End shows it.
type Region struct {
	Name   string       `json:"name"`
	Addr   uint64       `json:"addr"`
	Length uint64       `json:"length"` // bytes
	LKey   uint32       `json:"lkey"`
	RKey   uint32       `json:"rkey"`
	Access verbs.Access `json:"access"`
	Flags  []string     `json:"access_flags"`
}

// Failure is the first failed completion of a queue pair and the request that it
// completed: of a failed completion only ID and status are valid, so the request
// is what was posted.
type Failure struct {
	Status     uint32              `json:"status"` // as libibverbs numbers it
	Text       string              `json:"text"`
	WRID       uint64              `json:"wr_id"`
	Queue      Queue               `json:"queue"`  // "send" or "receive"
	Opcode     Known[verbs.Opcode] `json:"opcode"` // of a send
	Length     uint64              `json:"length"` // bytes posted
	Addr       uint64              `json:"addr"`   // the first piece of local memory
	LKey       uint32              `json:"lkey"`
	RemoteAddr uint64              `json:"remote_addr"` // of WRITE, READ and atomics, as the key
	RKey       uint32              `json:"rkey"`
}

func (f *Failure) String() string {
	if f == nil {
		return ""
	}
	what := f.Opcode.String()
	if f.Queue == ReceiveQueue {
		what = "receive"
	}
	return fmt.Sprintf("%s of %d bytes (wr_id %#x): %s", what, f.Length, f.WRID, f.Text)
}

// HasStatus tells whether there is a failure, and of this status.
func (f *Failure) HasStatus(s verbs.Status) bool { return f != nil && f.Status == uint32(s) }

// Queue is one of the two queues of a queue pair.
type Queue uint8

// The queues.
const (
	SendQueue Queue = iota
	ReceiveQueue
)

var queueNames = []string{SendQueue: "send", ReceiveQueue: "receive"}

func (q Queue) String() string { return queueNames[q] }

// MarshalText implements encoding.TextMarshaler.
func (q Queue) MarshalText() ([]byte, error) { return []byte(q.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (q *Queue) UnmarshalText(b []byte) error {
	i := slices.Index(queueNames, string(b))
	if i < 0 {
		return fmt.Errorf("queue %q: expected %s", b, strings.Join(queueNames, " or "))
	}
	*q = Queue(i)
	return nil
}

// needs is the right that a request needs.
func (f *Failure) needs() verbs.Access {
	switch {
	case f.Opcode.Is(verbs.OpWrite, verbs.OpWriteImm):
		return verbs.AccessRemoteWrite
	case f.Opcode.Is(verbs.OpRead):
		return verbs.AccessRemoteRead
	case f.Opcode.Is(verbs.OpCompSwap, verbs.OpFetchAdd):
		return verbs.AccessRemoteAtomic
	}
	return 0
}

// Who names the end.
func (e *End) Who() string { return fmt.Sprintf("rank %d (%s)", e.Rank, e.Node) }

func (e *End) is(states ...verbs.QPState) bool { return e.QPState.Is(states...) }

// Addressed tells whether the queue pair has been told of its peer: it has come
// to RTR, whatever it is in now. Its attributes do not tell: rdma_rxe has a path MTU
// from the start.
func (e *End) Addressed() bool { return e.RQPSNFirst != nil }

// armed tells whether the queue pair has come to RTS, whatever it is in now.
func (e *End) armed() bool { return e.Addressed() && e.SQPSNFirst != nil }

// SameMoment tells whether nothing has moved at an end between two looks at it.
func SameMoment(a, b *End) bool {
	return a.QPState == b.QPState && a.SQPSN == b.SQPSN && a.RQPSN == b.RQPSN && a.SendsPosted == b.SendsPosted && a.Busy == b.Busy
}

// rxeCounters are the names that rdma_rxe has for what other devices name otherwise
// (Linux drivers/infiniband/sw/rxe/rxe_hw_counters.c).
var rxeCounters = map[string]string{"port_rcv_packets": "rcvd_pkts", "out_of_sequence": "out_of_seq_request"}

// grew tells by how much a counter grew since the queue pair came to RTR, and
// whether the device has it.
func (e *End) grew(counter string) (n uint64, known bool) {
	for _, name := range []string{counter, rxeCounters[counter]} {
		if now, ok := e.Counters[name]; ok {
			return now - min(now, e.CountersRTR[name]), true
		}
	}
	return 0, false
}

// growth is grew in words.
func (e *End) growth(counter string) string {
	n, known := e.grew(counter)
	if !known {
		return counter + " not counted"
	}
	return fmt.Sprintf("%s +%d", counter, n)
}
