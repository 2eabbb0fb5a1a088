package ring

import (
	"context"
	"net"
	"time"

	"ringcli/ring/bootstrap"
	"ringcli/verbs"
	"ringcli/verbs/path"
)

// Options say how to bring a ring up. The zero value is useful: every field
// names what it then means. Fields whose zero is a value of its own are
// pointers, so that nil can be the default: Options{RetryCnt: new(0)}.
type Options struct {
	// Device is "provider:device", or a provider alone, for all edges. "" or "auto"
	// takes shared memory to a neighbour on this host; to others the RDMA device that
	// has the local address, else the soft device of the network interface that has
	// it (path.Device).
	Device string
	// Host is where this process says that it is. nil means where it is; tests make
	// ranks of one process look as if they were on several hosts.
	Host *path.Host
	// Port of the device. 0 means 1.
	Port int
	// GIDIndex in the port's table. nil means the best for both
	// neighbours (path.Port.Choose).
	GIDIndex *int
	// MTU is the path MTU in bytes. 0 means the smaller of both ends' active
	// MTUs; a value must be the same at both ends.
	MTU int
	// SL is the service level, 0 to 15.
	SL int
	// TrafficClass is DSCP and ECN of RoCEv2, 0 to 255.
	TrafficClass int
	// QPTimeout is the code of the ACK timeout, 4.096 us * 2^code, 0 for ever.
	// nil means 14: 67 ms.
	QPTimeout *int
	// RetryCnt is the number of retries after an ACK timeout. nil means 6,
	// since rdma_rxe takes 7 for ever.
	RetryCnt *int
	// RNRRetry is the number of retries while the peer has no receive posted.
	// nil means 7: for ever.
	RNRRetry *int
	// MinRNRTimer is the code of the delay that a peer is asked for while no
	// receive is posted. nil means 12: 0.64 ms.
	MinRNRTimer *int
	// Timeout is the deadline of each step and of each wait. 0 means 30 s.
	Timeout time.Duration
	// Patience is how long the other ranks may take to appear, in Exchange. 0
	// means Timeout.
	Patience time.Duration
	// TCPPort is the port of list entries that name none. 0 means 18600.
	TCPPort int
	// Slots is the number of slots to receive into, per neighbour. 0 means 16.
	Slots int
	// SlotSize is the payload of a slot in bytes; its header of SlotHeader
	// bytes comes on top. 0 means 256 KiB.
	SlotSize int
	// ByHand is for an operator who takes the steps one by one: a step that fails
	// leaves the ring as it was, to be looked at, changed and repeated. Without
	// it a step that fails fails the ring on all ranks.
	ByHand bool
	// Wait is what Waiters do between polls. WaitGosched is for several ranks
	// in one process.
	Wait verbs.WaitPolicy
	// UDPPort and Impair go to a soft device as they are.
	UDPPort uint16
	Impair  *verbs.Impairment
	// Listen and Dial replace net's for the control ring; tests stall or cut
	// connections with them. nil means net's own.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

// Defaults of Options; configs has the same for the command line.
const (
	defaultPort        = 1
	defaultQPTimeout   = 14
	defaultRetryCnt    = 6
	defaultRNRRetry    = 7
	defaultMinRNRTimer = 12
	defaultTimeout     = 30 * time.Second
	defaultSlots       = 16
	defaultSlotSize    = 256 << 10
)

// withDefaults fills in what is not set and checks what is.
func (o Options) withDefaults() (Options, error) {
	if o.Device == "" {
		o.Device = "auto"
	}
	for _, f := range []struct {
		name        string
		value       *int
		zero        int
		lowest, top int
	}{
		{"port", &o.Port, defaultPort, 1, 255},
		{"tcp-port", &o.TCPPort, bootstrap.DefaultPort, 1, 65535},
		{"slots", &o.Slots, defaultSlots, 1, 1024},
		{"slot-size", &o.SlotSize, defaultSlotSize, 256, 1 << 30},
		{"sl", &o.SL, 0, 0, 15},
		{"traffic-class", &o.TrafficClass, 0, 0, 255},
	} {
		if *f.value == 0 {
			*f.value = f.zero
		}
		if *f.value < f.lowest || *f.value > f.top {
			return o, bootstrap.Usagef("%s %d: expected %d to %d", f.name, *f.value, f.lowest, f.top)
		}
	}
	for _, f := range []struct {
		name  string
		value **int
		unset int
		top   int
	}{
		{"qp-timeout", &o.QPTimeout, defaultQPTimeout, 31},
		{"retry-cnt", &o.RetryCnt, defaultRetryCnt, 7},
		{"rnr-retry", &o.RNRRetry, defaultRNRRetry, 7},
		{"min-rnr-timer", &o.MinRNRTimer, defaultMinRNRTimer, 31},
	} {
		if *f.value == nil {
			*f.value = new(f.unset)
		}
		if **f.value < 0 || **f.value > f.top {
			return o, bootstrap.Usagef("%s %d: expected 0 to %d", f.name, **f.value, f.top)
		}
	}
	if o.GIDIndex != nil && (*o.GIDIndex < 0 || *o.GIDIndex > 255) {
		return o, bootstrap.Usagef("gid-index %d: expected 0 to 255", *o.GIDIndex)
	}
	if o.MTU != 0 {
		if _, err := verbs.MTUFromBytes(o.MTU); err != nil {
			return o, bootstrap.Usagef("mtu %d: expected 0 (automatic), 256, 512, 1024, 2048 or 4096 bytes", o.MTU)
		}
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Timeout < 0 {
		return o, bootstrap.Usagef("timeout %s: expected more than 0", o.Timeout)
	}
	// Slots stay aligned to cache lines, whatever size was asked for.
	o.SlotSize = (o.SlotSize + SlotHeader - 1) / SlotHeader * SlotHeader
	return o, nil
}
