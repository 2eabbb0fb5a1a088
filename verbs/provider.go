package verbs

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Errors that callers may test for with errors.Is.
var (
	// ErrInvalid: a value that the device refuses (EINVAL).
	ErrInvalid = errors.New("invalid argument")
	// ErrNoMemory: a queue is full or memory is short (ENOMEM).
	ErrNoMemory = errors.New("queue full or out of memory")
	// ErrState: the object is in the wrong state for this.
	ErrState = errors.New("wrong state")
	// ErrClosed: the object was closed.
	ErrClosed = errors.New("closed")
	// ErrBusy: the object still has children (EBUSY).
	ErrBusy = errors.New("still in use")
	// ErrTimeout: a wait's deadline passed.
	ErrTimeout = errors.New("timed out")
	// ErrNoDevice: no provider has a device of that name.
	ErrNoDevice = errors.New("no such device")
	// ErrOverrun: a completion queue overflowed; completions were lost.
	ErrOverrun = errors.New("completion queue overrun")
)

// Provider is a maker of devices: soft, ibv and shm.
type Provider interface {
	// Name is the part of a device's name before the colon.
	Name() string
	// Capabilities are those of all its devices, whether there are any now or not.
	Capabilities() Capabilities
	// Devices lists what there is now. An error is the reason why there is
	// nothing, in a sentence.
	Devices() ([]Device, error)
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

// CapabilitiesOf returns the capabilities of the provider that the name of a device
// begins with: none if there is no such provider here, as for "auto".
func CapabilitiesOf(device string) Capabilities {
	provider, _, _ := strings.Cut(device, ":")
	for _, p := range Providers() { // one may ask for another's
		if p.Name() == provider {
			return p.Capabilities()
		}
	}
	return Capabilities{}
}

// Device is a device that can be opened (struct ibv_device).
type Device interface {
	// Name is "provider:device".
	Name() string
	Open(OpenOptions) (Context, error)
}

// OpenOptions say how to open a device. The zero value is useful.
type OpenOptions struct {
	// LocalAddr is the IP address to speak from (soft only). It must be an
	// address of the device, or any address of 127.0.0.0/8 on lo. Zero takes
	// the device's first.
	LocalAddr netip.Addr
	// UDPPort to receive on (soft only). Zero takes 4791, or a free one if
	// that is taken on this address.
	UDPPort uint16
	// Impair hands every packet to a fault injector (soft only); nil is none.
	Impair *Impairment
	// OnEvent is told what happens to the device outside any request. It is called
	// on a goroutine of the context, must not wait, and is called no more once Close
	// has returned. nil ignores events.
	OnEvent func(AsyncEvent)
}

// Impairment makes a soft device's own transmissions unreliable, as tc-netem
// does: probabilities from 0 to 1 for each packet. Tests and students use it.
type Impairment struct {
	Seed      uint64
	Loss      float64
	Duplicate float64
	Reorder   float64 // a packet is held back behind the next one
	Corrupt   float64 // one bit is flipped after the ICRC was made
	// Jitter delays each packet by any time up to so much, and Late a doubled one's
	// second copy.
	Jitter, Late time.Duration
}

var registry struct {
	sync.Mutex
	providers []Provider // guarded by the mutex, in order of registration
}

// Register adds a provider. A second one of the same name is a programming error.
func Register(p Provider) {
	registry.Lock()
	defer registry.Unlock()
	for _, q := range registry.providers {
		if q.Name() == p.Name() {
			panic("verbs: provider registered twice: " + p.Name())
		}
	}
	registry.providers = append(registry.providers, p)
}

// Providers returns all providers in the order of their registration.
func Providers() []Provider {
	registry.Lock()
	defer registry.Unlock()
	return slices.Clone(registry.providers)
}

// Find returns the device of a name "provider:device". The provider alone takes
// its first device.
func Find(device string) (Device, error) {
	provider, _, _ := strings.Cut(device, ":")
	var known []string
	for _, p := range Providers() {
		devices, err := p.Devices()
		if p.Name() == provider && err != nil {
			return nil, fmt.Errorf("device %q: %w: %w", device, ErrNoDevice, err)
		}
		for _, d := range devices {
			known = append(known, d.Name())
			if d.Name() == device || p.Name() == device {
				return d, nil
			}
		}
	}
	if len(known) == 0 {
		return nil, fmt.Errorf("device %q: %w: no provider has any (ringcli devices says why)", device, ErrNoDevice)
	}
	return nil, fmt.Errorf("device %q: %w: expected one of %s (ringcli devices lists them)",
		device, ErrNoDevice, strings.Join(known, ", "))
}

// Context is an open device (struct ibv_context).
type Context interface {
	Device() Device
	QueryDevice() (DeviceAttr, error)
	QueryPort(port int) (PortAttr, error)
	// QueryGID returns one row of the GID table; ErrInvalid beyond its end.
	QueryGID(port, index int) (GIDEntry, error)
	AllocPD() (PD, error)
	CreateCompChannel() (CompChannel, error)
	// CreateCQ makes a queue of at least cqe completions. The channel may be nil.
	CreateCQ(cqe int, channel CompChannel) (CQ, error)
	// Counters returns the port's counters, in a fixed order.
	Counters(port int) ([]Counter, error)
	// Close releases the context. ErrBusy names what is still open.
	Close() error
}

// PD is a protection domain: queue pairs reach only regions of their own PD.
type PD interface {
	Context() Context
	// RegMR registers length bytes at addr, which must stay mapped until
	// the region is closed.
	RegMR(addr, length uint64, access Access) (MR, error)
	CreateQP(QPInitAttr) (QP, error)
	Close() error
}

// MemoryKind is where a region's memory is.
type MemoryKind uint8

const (
	// MemoryHost is memory of this process alone.
	MemoryHost MemoryKind = iota
	// MemoryArena is memory that other processes of this host can map (Mapper).
	MemoryArena
)

func (k MemoryKind) String() string { return name(uint32(k), "memory kind", "host", "arena") }

// MR is a registered memory region (struct ibv_mr).
type MR interface {
	Addr() uint64
	Length() uint64
	LKey() uint32
	RKey() uint32
	Access() Access
	Kind() MemoryKind
	// Close deregisters. When it returns the keys are dead: nothing that
	// arrives later can touch the memory.
	Close() error
}

// CompChannel delivers completion events (struct ibv_comp_channel).
type CompChannel interface {
	// GetEvent waits for an armed queue to get a completion, at most for the
	// timeout: ErrTimeout then. Events need no acknowledgement.
	GetEvent(timeout time.Duration) (CQ, error)
	Close() error
}

// CQ is a completion queue (struct ibv_cq).
type CQ interface {
	// Poll takes up to len(wc) completions without waiting and returns how many.
	// An empty wc takes none and makes progress: a caller that stops polling for a while
	// calls it last, so that a software provider sends the ACKs that it owes.
	Poll(wc []Completion) (int, error)
	// ReqNotify arms the queue: the next completion (or, solicitedOnly, the
	// next solicited or failed one) makes one event on the channel. A
	// completion already queued makes none: poll once more after arming.
	ReqNotify(solicitedOnly bool) error
	Close() error
}

// QP is a queue pair (struct ibv_qp).
type QP interface {
	Num() uint32
	PD() PD
	// Modify sets the attributes that mask names, AttrState among them for a
	// transition. A refusal is a *ModifyError.
	Modify(attr QPAttr, mask AttrMask) error
	// Query returns what the queue pair itself holds now.
	Query() (QPAttr, QPInitAttr, error)
	// PostSend queues work requests in order. At the first bad one it stops:
	// n is its index and the earlier ones run.
	PostSend(wrs []WorkRequest) (n int, err error)
	// PostRecv queues receive requests (ID and SGL count); n as in PostSend.
	PostRecv(wrs []WorkRequest) (n int, err error)
	Close() error
}

// SGE is one piece of memory (struct ibv_sge).
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

// WorkRequest is a request to send or receive (struct ibv_send_wr, ibv_recv_wr).
type WorkRequest struct {
	ID         uint64
	SGL        []SGE
	Opcode     Opcode
	Flags      SendFlags
	Imm        uint32 // in host order; on the wire it is big-endian
	RKey       uint32
	RemoteAddr uint64
	CompareAdd uint64 // CAS: compare; FETCH_ADD: addend
	Swap       uint64 // CAS: new value
}

// Completion is a finished work request (struct ibv_wc). If Status is not
// Success only ID, Status, QPN and VendorErr are valid.
type Completion struct {
	ID        uint64
	Status    Status
	Opcode    WCOpcode
	VendorErr uint32
	ByteLen   uint32
	Imm       uint32
	QPN       uint32
	Flags     WCFlags
}
