// Package endpoint is a device with a queue pair or two, on any provider, for the
// commands that work without a ring.
package endpoint

import (
	"errors"
	"fmt"
	"net/netip"

	"ringcli/configs/usage"
	"ringcli/verbs"
	"ringcli/verbs/bringup"
	"ringcli/verbs/route"
)

// Options say which device it is, and what its queue pairs are told.
type Options struct {
	Device       string `setting:"device"` // as --device has it; "auto" chooses
	Port         int    `setting:"port"`
	GIDIndex     *int   `setting:"gid-index"` // nil: chosen
	MTU          int    `setting:"mtu"`       // bytes; 0: the port's active MTU
	SL           uint8  `setting:"sl"`
	TrafficClass uint8  `setting:"traffic-class"` // of the GRH
	// The others are as in verbs.QPAttr.
	QPTimeout   uint8 `setting:"qp-timeout"`
	RetryCnt    uint8 `setting:"retry-cnt"`
	RNRRetry    uint8 `setting:"rnr-retry"`
	MinRNRTimer uint8 `setting:"min-rnr-timer"`
}

// Endpoint is a device that was opened, and what its queue pairs share. It belongs
// to one goroutine.
type Endpoint struct {
	bringup.Device
	Options Options
	Local   netip.Addr // to speak from
	peer    netip.Addr
	pairs   []*Pair // in the order of their creation
}

// Open opens the device and chooses the GID. A device or a GID index that is not
// there is an error of usage.
func (e *Endpoint) Open(peer netip.Addr) error {
	e.peer = peer
	return usage.If(e.choose(), verbs.ErrNoDevice, verbs.ErrInvalid)
}

func (e *Endpoint) choose() error {
	d, _, err := route.Device(e.Options.Device, e.Local)
	if err != nil {
		return err
	}
	if err := e.openFrom(d); err != nil {
		return err
	}
	// A UDP socket receives on the address that it was opened with, which must be
	// that of the row that was asked for.
	if own := e.GID.Entry.GID.Addr(); e.Attr.UDPSocket && e.Options.GIDIndex != nil && e.Local.IsValid() && own != e.Local {
		if err := e.Context.Close(); err != nil {
			return err
		}
		e.Local, e.Context = own, nil
		err = e.openFrom(d)
	}
	return err
}

// openFrom opens the device to speak from the local address.
func (e *Endpoint) openFrom(d verbs.Device) error {
	return e.Device.Open(d, verbs.OpenOptions{LocalAddr: e.Local}, e.Options.Port, route.Want{Index: e.Options.GIDIndex, Local: e.Local, Peers: []netip.Addr{e.peer}})
}

// MTU is the path MTU to use: what was asked for, else the port's.
func (e *Endpoint) MTU() (verbs.MTU, error) {
	active, wanted := e.Port.Attr.ActiveMTU, e.Options.MTU
	if wanted > active.Bytes() {
		return 0, fmt.Errorf("path MTU %d: the port's active MTU is %s: expected no more than that", wanted, active)
	}
	if wanted == 0 {
		return active, nil
	}
	return verbs.MTUFromBytes(wanted)
}

// Close releases everything, the last made first.
func (e *Endpoint) Close() error {
	var errs []error
	for _, p := range e.pairs {
		errs = append(errs, p.closeQP())
	}
	for _, p := range e.pairs {
		errs = append(errs, p.closeMemory())
	}
	return errors.Join(append(errs, e.Device.Close())...)
}
