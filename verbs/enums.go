package verbs

import (
	"fmt"
	"slices"
	"strings"
)

// QPState is the state of a queue pair (enum ibv_qp_state).
type QPState uint32

// The values are libibverbs' own.
//
//	          INIT        RTR         RTS
//	RESET ───────▶ INIT ───────▶ RTR ───────▶ RTS ◀──▶ SQD
//	  ▲                                        │
//	  └────── any state but RESET ──▶ ERR ◀────┘  (an error, or Modify)
const (
	StateReset QPState = 0
	StateInit  QPState = 1
	StateRTR   QPState = 2
	StateRTS   QPState = 3
	StateSQD   QPState = 4
	StateSQE   QPState = 5
	StateErr   QPState = 6
)

var qpStates = []string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}

func (s QPState) String() string { return name(uint32(s), "state", qpStates...) }

// Receives reports whether a queue pair in this state answers its peer's requests.
func (s QPState) Receives() bool { return s >= StateRTR && s <= StateSQD }

func (s QPState) MarshalText() ([]byte, error)  { return []byte(s.String()), nil }
func (s *QPState) UnmarshalText(b []byte) error { return parse(s, b, "QP state", qpStates) }

// QPType is the transport of a queue pair (enum ibv_qp_type).
type QPType uint32

// RC, reliable connected, is the only transport that ringcli uses.
const RC QPType = 2

func (t QPType) String() string { return name(uint32(t), "QP type", "", "", "RC", "UC", "UD") }

// Opcode is the kind of a work request (enum ibv_wr_opcode).
type Opcode uint32

// The values are libibverbs' own.
const (
	OpWrite    Opcode = 0
	OpWriteImm Opcode = 1
	OpSend     Opcode = 2
	OpSendImm  Opcode = 3
	OpRead     Opcode = 4
	OpCompSwap Opcode = 5
	OpFetchAdd Opcode = 6
)

var opcodes = []string{"RDMA_WRITE", "RDMA_WRITE_WITH_IMM", "SEND", "SEND_WITH_IMM", "RDMA_READ", "ATOMIC_CMP_AND_SWP", "ATOMIC_FETCH_AND_ADD"}

func (o Opcode) String() string { return name(uint32(o), "opcode", opcodes...) }

func (o *Opcode) UnmarshalText(b []byte) error { return parse(o, b, "opcode", opcodes) }

// SendFlags modify a send work request (enum ibv_send_flags).
type SendFlags uint32

// The values are libibverbs' own.
const (
	FlagFence     SendFlags = 1 // wait for earlier READs and atomics
	FlagSignaled  SendFlags = 2 // make a completion on success
	FlagSolicited SendFlags = 4 // raise a solicited event at the receiver
	FlagInline    SendFlags = 8 // copy the data while posting; lkeys are not looked at
)

// WCOpcode is the kind of a completion (enum ibv_wc_opcode).
type WCOpcode uint32

// The values are libibverbs' own.
const (
	WCSend         WCOpcode = 0
	WCWrite        WCOpcode = 1
	WCRead         WCOpcode = 2
	WCCompSwap     WCOpcode = 3
	WCFetchAdd     WCOpcode = 4
	WCRecv         WCOpcode = 128
	WCRecvWriteImm WCOpcode = 129
)

var completed = [...]WCOpcode{
	OpWrite: WCWrite, OpWriteImm: WCWrite, OpSend: WCSend, OpSendImm: WCSend,
	OpRead: WCRead, OpCompSwap: WCCompSwap, OpFetchAdd: WCFetchAdd,
}

// Completed is the kind of the completion of a request that CheckSend lets pass.
func (o Opcode) Completed() WCOpcode { return completed[o] }

func (o WCOpcode) String() string {
	if o >= WCRecv {
		return name(uint32(o-WCRecv), "completion opcode 128 +", "RECV", "RECV_RDMA_WITH_IMM")
	}
	return name(uint32(o), "completion opcode", "SEND", "RDMA_WRITE", "RDMA_READ", "COMP_SWAP", "FETCH_ADD")
}

// WCFlags qualify a completion (enum ibv_wc_flags).
type WCFlags uint32

// WCWithImm says that Completion.Imm is valid.
const WCWithImm WCFlags = 2

// Access is a set of rights of a region or a queue pair (enum ibv_access_flags).
type Access uint32

// The values are libibverbs' own.
const (
	AccessLocalWrite   Access = 1
	AccessRemoteWrite  Access = 2
	AccessRemoteRead   Access = 4
	AccessRemoteAtomic Access = 8

	AccessAll = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic
)

func (a Access) String() string {
	return flagNames(uint32(a), "LOCAL_WRITE", "REMOTE_WRITE", "REMOTE_READ", "REMOTE_ATOMIC")
}

// MTU is a path MTU code (enum ibv_mtu): 1 is 256 bytes, 5 is 4096.
type MTU uint32

// The values are libibverbs' own.
const (
	MTU256  MTU = 1
	MTU512  MTU = 2
	MTU1024 MTU = 3
	MTU2048 MTU = 4
	MTU4096 MTU = 5
)

// Bytes returns the payload bytes of a full packet, or 0 for an invalid code.
func (m MTU) Bytes() int {
	if m < MTU256 || m > MTU4096 {
		return 0
	}
	return 128 << m
}

func (m MTU) String() string { return fmt.Sprint(m.Bytes()) }

// MTUFromBytes returns the code of a path MTU in bytes.
func MTUFromBytes(n int) (MTU, error) {
	for m := MTU256; m <= MTU4096; m++ {
		if m.Bytes() == n {
			return m, nil
		}
	}
	return 0, fmt.Errorf("path MTU %d: %w: expected 256, 512, 1024, 2048 or 4096 bytes", n, ErrInvalid)
}

// PortState is the logical state of a port (enum ibv_port_state).
type PortState uint32

// The values are libibverbs' own.
const (
	PortDown   PortState = 1
	PortInit   PortState = 2
	PortArmed  PortState = 3
	PortActive PortState = 4
)

var portStates = []string{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"}

func (s PortState) String() string { return name(uint32(s), "port state", portStates...) }

func (s PortState) MarshalText() ([]byte, error)  { return []byte(s.String()), nil }
func (s *PortState) UnmarshalText(b []byte) error { return parse(s, b, "port state", portStates) }

// LinkLayer is the kind of a port's link.
type LinkLayer uint8

// The values are libibverbs' own.
const (
	LinkInfiniBand LinkLayer = 1
	LinkEthernet   LinkLayer = 2
)

var linkLayers = []string{"unspecified", "InfiniBand", "Ethernet"}

func (l LinkLayer) String() string { return name(uint32(l), "link layer", linkLayers...) }

func (l LinkLayer) MarshalText() ([]byte, error)  { return []byte(l.String()), nil }
func (l *LinkLayer) UnmarshalText(b []byte) error { return parse(l, b, "link layer", linkLayers) }

// AttrMask names the attributes that Modify is to set (enum ibv_qp_attr_mask).
type AttrMask uint32

// The values are libibverbs' own.
const (
	AttrState           AttrMask = 1
	AttrCurState        AttrMask = 2
	AttrAccess          AttrMask = 8
	AttrPKeyIndex       AttrMask = 16
	AttrPort            AttrMask = 32
	AttrAV              AttrMask = 128
	AttrPathMTU         AttrMask = 256
	AttrTimeout         AttrMask = 512
	AttrRetryCnt        AttrMask = 1024
	AttrRNRRetry        AttrMask = 2048
	AttrRQPSN           AttrMask = 4096
	AttrMaxRDAtomic     AttrMask = 8192
	AttrMinRNRTimer     AttrMask = 32768
	AttrSQPSN           AttrMask = 65536
	AttrMaxDestRDAtomic AttrMask = 131072
	AttrCap             AttrMask = 524288
	AttrDestQPN         AttrMask = 1048576
)

// String lists the attributes in libibverbs' field names.
func (m AttrMask) String() string {
	return flagNames(uint32(m), "qp_state", "cur_qp_state", "en_sqd_async_notify", "qp_access_flags", "pkey_index",
		"port_num", "qkey", "ah_attr", "path_mtu", "timeout", "retry_cnt", "rnr_retry", "rq_psn", "max_rd_atomic",
		"alt_path", "min_rnr_timer", "sq_psn", "max_dest_rd_atomic", "path_mig_state", "cap", "dest_qp_num")
}

func name(v uint32, what string, names ...string) string {
	if int(v) < len(names) && names[v] != "" {
		return names[v]
	}
	return fmt.Sprintf("%s %d", what, v)
}

// parse is the inverse of name.
func parse[T ~uint8 | ~uint32](to *T, text []byte, what string, names []string) error {
	i := slices.Index(names, string(text))
	if i < 0 {
		return fmt.Errorf("%s %q: %w: expected %s", what, text, ErrInvalid, strings.Join(names, ", "))
	}
	*to = T(i)
	return nil
}

func flagNames(v uint32, names ...string) string {
	var set []string
	for i, n := range names {
		if v&(1<<i) != 0 {
			set = append(set, n)
			v &^= 1 << i
		}
	}
	if v != 0 {
		set = append(set, fmt.Sprintf("%#x", v))
	}
	if len(set) == 0 {
		return "none"
	}
	return strings.Join(set, ", ")
}

// AsyncEvent is what happened to a device outside any request (struct
// ibv_async_event).
type AsyncEvent struct {
	Type EventType
	QPN  uint32 // the queue pair that it is about; 0: none
	Port int    // the port that it is about; 0: none
}

func (e AsyncEvent) String() string {
	switch {
	case e.QPN != 0:
		return fmt.Sprintf("QP 0x%06x: %s", e.QPN, e.Type)
	case e.Port != 0:
		return fmt.Sprintf("port %d: %s", e.Port, e.Type)
	}
	return e.Type.String()
}

// EventType is the kind of an event (enum ibv_event_type).
type EventType uint32

// The values are libibverbs' own.
const (
	EventCQErr            EventType = 0
	EventQPFatal          EventType = 1
	EventQPReqErr         EventType = 2
	EventQPAccessErr      EventType = 3
	EventCommEst          EventType = 4
	EventSQDrained        EventType = 5
	EventPathMig          EventType = 6
	EventPathMigErr       EventType = 7
	EventDeviceFatal      EventType = 8
	EventPortActive       EventType = 9
	EventPortErr          EventType = 10
	EventLIDChange        EventType = 11
	EventPKeyChange       EventType = 12
	EventSMChange         EventType = 13
	EventSRQErr           EventType = 14
	EventQPLastWQEReached EventType = 16
	EventClientReregister EventType = 17
	EventGIDChange        EventType = 18
	EventWQFatal          EventType = 19
)

func (t EventType) String() string {
	return name(uint32(t), "event type", "CQ error", "local work queue catastrophic error", "invalid request local work queue error",
		"local access violation work queue error", "communication established", "send queue drained", "path migrated",
		"path migration request error", "local catastrophic error", "port active", "port error", "LID change", "P_Key change",
		"SM change", "SRQ catastrophic error", "SRQ limit reached", "last WQE reached", "client reregistration", "GID table change",
		"WQ fatal error")
}

// Bad reports whether the event stands for a loss: a queue pair, a queue, the
// port or the whole device can no longer be used.
func (t EventType) Bad() bool {
	switch t {
	case EventCQErr, EventQPFatal, EventQPReqErr, EventQPAccessErr, EventPathMigErr, EventDeviceFatal, EventPortErr, EventSRQErr, EventWQFatal:
		return true
	}
	return false
}
