package transport

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/route"
)

// Options say what a transport is on. The zero value takes the RDMA device that is
// nearest to any memory of this host, and is refused where there is none.
type Options struct {
	// Device is "provider:device", a provider, or a device's name. "" or "auto" takes an
	// RDMA device, never one in software: soft (any network) and shm (this host alone) are named.
	Device string
	// Memory is where the bytes are that will be moved; of several RDMA devices "auto"
	// takes the one that is nearest to it.
	Memory Place
	// Loop serves the transport. nil is a loop of its own, closed with it.
	Loop *Loop
	// Name is what errors of the peer call this end. "" is the host's name and the process' ID.
	Name string
	// Local is the address to speak from (soft only), as verbs.OpenOptions has it.
	Local netip.Addr
	// Port is the device's. 0 means 1.
	Port int
	// GIDIndex is the row of the port's GID table. nil takes the best.
	GIDIndex *int
	// Service is how packets are to be treated on their way.
	Service route.Service
	// Faults are what happens on purpose to the device's packets, where it can inject them:
	// those of the first transport of a loop on a device hold for all.
	Faults verbs.Faults
	// Depth is how many requests are under way at once; more wait here. 0 means 64.
	Depth int
	// Timeout bounds how long the peer may take to connect, and how long a posted transfer may
	// take. 0 means 30 s.
	Timeout time.Duration
	// Heartbeat is how often a silent peer is asked whether it is there, while a future
	// waits for its writes. 0 means 1 s.
	Heartbeat time.Duration
}

const (
	defaultDepth     = 64
	defaultTimeout   = 30 * time.Second
	defaultHeartbeat = time.Second
	// controlDepth is room for hello, goodbye and a heartbeat beside the requests.
	controlDepth = 4
)

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Depth < 0 || o.Depth > 1<<14:
		return o, failed(ErrInvalidArgument, "depth %d: expected 1 to %d requests under way", o.Depth, 1<<14)
	case o.Timeout < 0 || o.Heartbeat < 0:
		return o, failed(ErrInvalidArgument, "timeout %v, heartbeat %v: expected times above zero", o.Timeout, o.Heartbeat)
	case o.Port < 0:
		return o, failed(ErrInvalidArgument, "port %d: expected 1 or more", o.Port)
	}
	o.Port = cmp.Or(o.Port, 1)
	o.Depth = cmp.Or(o.Depth, defaultDepth)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.Heartbeat = cmp.Or(o.Heartbeat, defaultHeartbeat)
	o.Name = cmp.Or(o.Name, ProcessName())
	return o, nil
}

// ProcessName is the host's name and the process' ID.
func ProcessName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}
