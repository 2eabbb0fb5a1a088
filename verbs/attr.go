package verbs

import (
	"fmt"
	"net/netip"
	"time"
)

// GID is a port's 128-bit address: an IPv6 address, or ::ffff:a.b.c.d for IPv4.
type GID [16]byte

// GIDFromAddr returns the GID of an IP address (RoCEv2).
func GIDFromAddr(a netip.Addr) GID { return a.WithZone("").As16() }

// Addr returns the IP address that a RoCEv2 GID stands for.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// IsZero reports whether the GID is all zeros, which libibverbs uses for "none".
func (g GID) IsZero() bool { return g == GID{} }

// String writes the GID as an IPv6 address, IPv4-mapped where it is one.
func (g GID) String() string { return netip.AddrFrom16(g).String() }

func (g GID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

func (g *GID) UnmarshalText(b []byte) error {
	a, err := netip.ParseAddr(string(b))
	if err != nil {
		return fmt.Errorf("GID %q: %w: expected an IPv6 address", b, ErrInvalid)
	}
	*g = GIDFromAddr(a)
	return nil
}

// GIDType is what a GID table entry is good for.
type GIDType uint8

// The values are those of enum ibv_gid_type.
const (
	GIDTypeIB     GIDType = 0
	GIDTypeRoCEv1 GIDType = 1
	GIDTypeRoCEv2 GIDType = 2
)

var gidTypes = []string{"IB", "RoCE v1", "RoCE v2"}

func (t GIDType) String() string { return name(uint32(t), "GID type", gidTypes...) }

func (t GIDType) MarshalText() ([]byte, error)  { return []byte(t.String()), nil }
func (t *GIDType) UnmarshalText(b []byte) error { return parse(t, b, "GID type", gidTypes) }

// GIDEntry is one row of a port's GID table (struct ibv_gid_entry).
type GIDEntry struct {
	GID    GID
	Index  int
	Port   int
	Type   GIDType
	NetDev string
	// UDPPort is where this context receives RoCEv2 packets for the GID; 0 if
	// no socket is bound yet. Devices other than soft always use 4791.
	UDPPort uint16
}

// Capabilities say what kind of device a provider has. What stands above the
// providers decides by these, not by a provider's name.
type Capabilities struct {
	// Software: this program makes the packets, so that a message costs system
	// calls and moves only while somebody polls. Such a device is taken where no
	// RDMA device has the address. Rdma_rxe, whose packets the kernel makes, is none.
	Software bool `json:"software,omitempty"`
	// HostLocal: it reaches processes of this host alone, and has no address that
	// one of a network could lead to.
	HostLocal bool `json:"host_local,omitempty"`
	// UDPSocket: it speaks RoCE v2 through a UDP socket of this program: on any UDP
	// port, to any other, with the IP IDs that UDPPeer promises. All other RoCE
	// devices know port 4791 alone.
	UDPSocket bool `json:"udp_socket,omitempty"`
}

// DeviceAttr is what a device is and can do (struct ibv_device_attr). What a
// provider does not know is zero.
type DeviceAttr struct {
	Capabilities
	FirmwareVersion       string
	Transport             string // as ibv_devinfo names it: "InfiniBand (0)", "iWARP (1)"
	NodeGUID              uint64
	SysImageGUID          uint64
	MaxMRSize             uint64 // bytes
	PageSizeCap           uint64 // a bit for each page size, in bytes
	VendorID              uint32
	VendorPartID          uint32
	HWVersion             uint32
	CapFlags              uint32 // enum ibv_device_cap_flags
	MaxQP                 int
	MaxQPWR               int // work requests per queue
	MaxSGE                int // elements per work request
	MaxSGERD              int // elements per READ
	MaxCQ                 int
	MaxCQE                int // completions per queue
	MaxMR                 int
	MaxPD                 int
	MaxQPRDAtomic         int // READs and atomics that a queue pair answers at once
	MaxEERDAtomic         int
	MaxResRDAtomic        int // the same of the whole device
	MaxQPInitRDAtomic     int // READs and atomics that a queue pair has under way
	MaxEEInitRDAtomic     int
	AtomicCap             AtomicCap
	MaxEE                 int
	MaxRDD                int
	MaxMW                 int
	MaxRawIPv6QP          int
	MaxRawEthyQP          int
	MaxMcastGrp           int
	MaxMcastQPAttach      int
	MaxTotalMcastQPAttach int
	MaxAH                 int
	MaxFMR                int
	MaxMapPerFMR          int
	MaxSRQ                int
	MaxSRQWR              int
	MaxSRQSGE             int
	MaxPKeys              int
	LocalCAAckDelay       int // code: 4.096 us * 2^code
	PhysPorts             int
	// MaxInline is the most bytes of an inline request; 0: the device does not
	// say, and a queue pair tells when it is created.
	MaxInline int
	// MaxSpins is the most empty polls of its queues before a Waiter gives the CPU away;
	// 0 means what suits a queue whose poll is a system call.
	MaxSpins int
}

// AtomicCap says what atomics are atomic with (enum ibv_atomic_cap).
type AtomicCap uint32

// The values are libibverbs' own.
const (
	AtomicNone   AtomicCap = 0
	AtomicHCA    AtomicCap = 1 // with other atomics of the same device
	AtomicGlobal AtomicCap = 2 // with the CPUs', too
)

func (c AtomicCap) String() string {
	return name(uint32(c), "atomic capability", "ATOMIC_NONE", "ATOMIC_HCA", "ATOMIC_GLOB")
}

// PortAttr is the state of a port (struct ibv_port_attr).
type PortAttr struct {
	State         PortState
	PhysState     string
	MaxMTU        MTU
	ActiveMTU     MTU
	GIDTableSz    int
	PKeyTableSz   int
	MaxMsgSz      uint32 // bytes
	CapFlags      uint32 // port_cap_flags
	BadPKeyCntr   uint32
	QKeyViolCntr  uint32
	LID           uint16
	LMC           uint8
	SMLID         uint16
	SMSL          uint8
	MaxVLNum      uint8
	SubnetTimeout uint8
	InitTypeReply uint8
	ActiveWidth   uint8  // code: 1, 2, 4, 8, 16 are 1X, 4X, 8X, 12X, 2X
	ActiveSpeed   uint32 // code: 1, 2, 4, 8, 16, 32, ... are SDR, DDR, QDR, FDR10, FDR, EDR, ...
	LinkLayer     LinkLayer
	NetDev        string
	SpeedMbps     int // 0: not known
}

// Counter is one hardware counter, named as /sys/class/infiniband/*/ports/*/hw_counters
// and .../counters name them.
type Counter struct {
	Name  string
	Value uint64
}

// Losses is what a queue pair counted of packets that did not arrive. A device counts these
// for all its queue pairs together; see LossCounter.
type Losses struct {
	Sent         uint64 // request packets, those sent again included
	Resent       uint64 // request packets sent again
	SequenceNAKs uint64 // received: the peer lacks a request packet
	ImpliedNAKs  uint64 // a response packet of the peer's is missing
	Timeouts     uint64 // the retransmission timer ran out
	RNRNAKs      uint64 // received: the peer had posted no receive
}

// fields are all counts, in their order.
func (l *Losses) fields() [6]*uint64 {
	return [...]*uint64{&l.Sent, &l.Resent, &l.SequenceNAKs, &l.ImpliedNAKs, &l.Timeouts, &l.RNRNAKs}
}

// Plus returns the sum of both.
func (l Losses) Plus(o Losses) Losses {
	more := o.fields()
	for i, f := range l.fields() {
		*f += *more[i]
	}
	return l
}

// Since returns what was counted after before; 0 where the counts began anew.
func (l Losses) Since(before Losses) Losses {
	less := before.fields()
	for i, f := range l.fields() {
		*f -= min(*f, *less[i])
	}
	return l
}

// LossCounter is a QP whose losses are counted apart from those of its device's other queue
// pairs. The counters of a NIC are of a port, so its queue pairs are none.
type LossCounter interface {
	// Losses returns what was counted since the queue pair was created, and false if it is
	// not counted after all. It is not free: call it between operations.
	Losses() (l Losses, counted bool)
}

// QPCap is the size of a queue pair's queues (struct ibv_qp_cap).
type QPCap struct {
	MaxSendWR     int `json:"max_send_wr"`
	MaxRecvWR     int `json:"max_recv_wr"`
	MaxSendSGE    int `json:"max_send_sge"`
	MaxRecvSGE    int `json:"max_recv_sge"`
	MaxInlineData int `json:"max_inline_data"` // bytes
}

// GlobalRoute is the address of a peer beyond the subnet, and always on RoCE
// (struct ibv_global_route).
type GlobalRoute struct {
	DGID         GID
	FlowLabel    uint32
	SGIDIndex    int
	HopLimit     uint8
	TrafficClass uint8
}

// AHAttr is the address vector of a peer (struct ibv_ah_attr).
type AHAttr struct {
	GRH      GlobalRoute
	DLID     uint16
	SL       uint8
	IsGlobal bool
	PortNum  int
	UDP      UDPPeer
}

// UDPPeer is what a peer with a UDP socket (Capabilities) says beyond the verbs.
// Only a device that has one itself heeds it; the zero value is right for rdma_rxe
// and for NICs.
type UDPPeer struct {
	Port uint16 // 0 means 4791
	// LowIPIDs promises that the peer sends from an unconnected socket with DF set, bound
	// to Port, so that only IP IDs 0 to 127 and that port can occur. The ICRC check is then
	// stronger, and another user of the peer's host cannot pass for it.
	LowIPIDs bool
}

// QPAttr is the state of a queue pair (struct ibv_qp_attr). Modify reads the
// fields that its mask names.
type QPAttr struct {
	State           QPState
	CurState        QPState
	PathMTU         MTU
	RQPSN           uint32 // 24 bits: the PSN expected next from the peer
	SQPSN           uint32 // 24 bits: the PSN of the next packet sent
	DestQPN         uint32 // 24 bits
	Access          Access
	Cap             QPCap
	AH              AHAttr
	PKeyIndex       uint16
	PortNum         int
	MaxRDAtomic     uint8 // READs and atomics in flight as requester
	MaxDestRDAtomic uint8 // the same as responder
	MinRNRTimer     uint8 // code 0..31 (specification 1.4, 9.7.5.2.8, table 45)
	Timeout         uint8 // code 0..31: 4.096 us * 2^Timeout, 0 waits for ever
	RetryCnt        uint8 // 0..7
	RNRRetry        uint8 // 0..7, 7 retries for ever
}

// AckTimeout is the retransmission timeout of code c; 0 stands for none.
func AckTimeout(c uint8) time.Duration {
	if c == 0 {
		return 0
	}
	return time.Duration(4096) << min(c, 31) * time.Nanosecond
}

// rnrTimers are the RNR NAK timer codes in units of 10 µs (IBTA volume 1,
// table 45).
var rnrTimers = [32]uint32{
	65536, 1, 2, 3, 4, 6, 8, 12,
	16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072,
	4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// RNRTimer returns how long a requester waits at least after an RNR NAK with
// the timer code, of which the low 5 bits count.
func RNRTimer(code uint8) time.Duration {
	return time.Duration(rnrTimers[code&0x1f]) * 10 * time.Microsecond
}
