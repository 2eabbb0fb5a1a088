package ring

import (
	"context"
	"net"
	"time"

	"ringcli/configs"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/bootstrap/seal"
	"ringcli/ring/device"
	"ringcli/ring/locality"
	"ringcli/verbs"
	"ringcli/verbs/route"
)

// HostsAuto is what Options.Hosts is where the ranks find out which of them share a host.
const HostsAuto = "auto"

// Options say how to bring a ring up. The zero value is useful: every field
// names what it then means. Fields whose zero is a value of its own are
// pointers, so that nil can be the default: Options{RetryCnt: new(0)}. Defaults and
// ranges of those that are settings are in package configs.
type Options struct {
	// Device is "provider:device", or a provider alone, for all edges. "" or "auto"
	// takes shared memory to a neighbour on this host; to others the RDMA device that
	// has the local address, else the soft device of the network interface that has
	// it (route.Device). Several, separated by commas, carry the channels to each neighbour by
	// turns, and the first of them all else; one that is named again has a context of its own,
	// and in soft a socket, so that its packets come from another UDP port.
	Device string `setting:"device"`
	// Host is where this process says that it is. nil means where it is; tests make
	// ranks of one process look as if they were on several hosts.
	Host *route.Host
	Port int `setting:"port"` // of the device; 0 means 1
	// GIDIndex in the port's table. nil means the best for both
	// neighbours (route.Port.Choose).
	GIDIndex *int `setting:"gid-index"`
	// MTU is the path MTU in bytes. 0 means the smaller of both ends' active
	// MTUs; a value must be the same at both ends.
	MTU          int `setting:"mtu"`
	SL           int `setting:"sl"`            // service level, 0 to 15
	TrafficClass int `setting:"traffic-class"` // DSCP and ECN of RoCEv2, 0 to 255
	// QPTimeout is the code of the ACK timeout, 4.096 us * 2^code, 0 for ever.
	// nil means 14: 67 ms.
	QPTimeout *int `setting:"qp-timeout"`
	// RetryCnt is the number of retries after an ACK timeout. nil means 6,
	// since rdma_rxe takes 7 for ever.
	RetryCnt *int `setting:"retry-cnt"`
	// RNRRetry is the number of retries while the peer has no receive posted.
	// nil means 7: for ever.
	RNRRetry *int `setting:"rnr-retry"`
	// MinRNRTimer is the code of the delay that a peer is asked for while no
	// receive is posted. nil means 12: 0.64 ms.
	MinRNRTimer *int `setting:"min-rnr-timer"`
	// Timeout is the deadline of each step and of each wait. 0 means 30 s.
	Timeout time.Duration `setting:"timeout"`
	// Patience is how long the names of the list may take to get addresses, in Open, and the
	// other ranks to appear, in Exchange. 0 means Timeout.
	Patience time.Duration
	// Death is within how long a host or a network that is down is told, 0 means 1.5 s;
	// Silence is how long a rank may stand still whose host answers, 0 means 5 s.
	Death   time.Duration `setting:"death"`
	Silence time.Duration `setting:"silence"`
	// TCPPort is the port of list entries that name none. 0 means 18600.
	TCPPort int `setting:"tcp-port"`
	// Channels are the queue pairs to each neighbour, the same number on all ranks, which take
	// segments by turns; 0 means 1.
	Channels int `setting:"channels"`
	Slots    int `setting:"slots"` // to receive into, per channel; 0 means 16
	// SlotSize is the payload of a slot in bytes; its header of SlotHeader
	// bytes comes on top. 0 means 256 KiB.
	SlotSize int `setting:"slot-size"`
	// ByHand is for an operator who takes the steps one by one: a step that fails
	// leaves the ring as it was, to be looked at, changed and repeated. Without
	// it a step that fails fails the ring on all ranks.
	ByHand bool
	// Wait is what Waiters do between polls. WaitGosched is for several ranks
	// in one process.
	Wait verbs.WaitPolicy
	// CPUs are those that the polling threads of this host's ranks come back to, in turn:
	// as in 0-3,8. "auto" means close ones, "none" wherever the kernel puts them.
	CPUs string `setting:"cpus"`
	// Hosts are the ranks of each host in turn, as in "3,1" or "4x2": rank 0's count. "" or
	// HostsAuto are where they find themselves.
	Hosts string `setting:"hosts"`
	// UDPPort goes to a soft device as it is.
	UDPPort uint16
	// Inject is what happens on purpose to this rank's packets, in verbs.ParseFaults' words;
	// "" means nothing.
	Inject string `setting:"inject"`
	// Names are what people call the hosts of the list, where that has addresses; nil is none.
	Names map[hosts.Node]string
	// Without are entries of the list that the ring goes on without: the others keep their
	// order and are numbered anew. Decision counts what a leader has decided about it, and
	// Follows has a bring-up end with a *Verdict that has the Group when its leader has
	// decided anew.
	Without  []int
	Decision uint64
	Follows  bool
	// Diagnosing asks for a ring that talks over TCP, whatever its queue pairs do. It is for after
	// a bring-up that has failed, and holds for the other ranks if it is rank 0's.
	Diagnosing bool
	// History is what this process remembers of earlier rings, whose epochs and callers
	// the ring refuses; it adds its own. nil remembers nothing.
	History *History
	// Waits, if set, are told what this rank waits for.
	Waits *Waits
	// Token, if set, is what all ranks must have.
	Token *seal.Token
	// Listen and Dial replace net's for the control ring; tests stall or cut
	// connections with them. nil means net's own.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

// withDefaults fills in what is not set and checks what is.
func (o Options) withDefaults() (Options, error) {
	if err := configs.Complete(&o); err != nil {
		return o, usage.Errorf("%v", err)
	}
	if _, err := locality.CPUs(o.CPUs); err != nil {
		return o, err
	}
	if _, err := verbs.ParseFaults(o.Inject); err != nil {
		return o, usage.Errorf("inject: %w", err)
	}
	names, err := device.Names(o.Device)
	if err != nil {
		return o, err
	}
	if len(names) > o.Channels {
		return o, usage.Errorf("device %q: %d devices for %d channels: expected at least one channel each, as with --channels %d", o.Device, len(names), o.Channels, len(names))
	}
	// Slots stay aligned to cache lines, whatever size was asked for.
	o.SlotSize = (o.SlotSize + SlotHeader - 1) / SlotHeader * SlotHeader
	return o, nil
}

// Service is that of every packet.
func (o *Options) Service() route.Service {
	return route.Service{SL: uint8(o.SL), TrafficClass: uint8(o.TrafficClass)}
}

// Attributes are those of a queue pair on its way to a state, as far as the options
// say them; the mask of a Modify says which of them the state takes.
func (o *Options) Attributes(to verbs.QPState) verbs.QPAttr {
	return verbs.QPAttr{
		State: to, PortNum: o.Port, MinRNRTimer: uint8(*o.MinRNRTimer),
		Timeout: uint8(*o.QPTimeout), RetryCnt: uint8(*o.RetryCnt), RNRRetry: uint8(*o.RNRRetry),
	}
}
