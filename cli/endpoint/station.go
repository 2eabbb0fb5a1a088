// Package endpoint is a device with a queue pair or two, on any provider, for the
// commands that work without a ring.
package endpoint

import (
	"errors"
	"fmt"
	"net/netip"

	"ringcli/configs/usage"
	"ringcli/verbs"
	"ringcli/verbs/device"
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

// Station is a device that was opened, and what its queue pairs share. It belongs
// to one goroutine.
type Station struct {
	device.Device
	Options Options
	Local   netip.Addr // to speak from
	peer    netip.Addr
	pairs   []*Pair // in the order of their creation
}

// Open opens the device and chooses the GID. A device or a GID index that is not
// there is an error of usage.
func (s *Station) Open(peer netip.Addr) error {
	s.peer = peer
	return usage.If(s.choose(), verbs.ErrNoDevice, verbs.ErrInvalid)
}

func (s *Station) choose() error {
	d, _, err := route.Device(s.Options.Device, s.Local)
	if err != nil {
		return err
	}
	if err := s.openFrom(d); err != nil {
		return err
	}
	// A UDP socket receives on the address that it was opened with, which must be
	// that of the row that was asked for.
	if own := s.GID.Entry.GID.Addr(); s.Attr.UDPSocket && s.Options.GIDIndex != nil && s.Local.IsValid() && own != s.Local {
		if err := s.Context.Close(); err != nil {
			return err
		}
		s.Local, s.Context = own, nil
		err = s.openFrom(d)
	}
	return err
}

// openFrom opens the device to speak from the local address.
func (s *Station) openFrom(d verbs.Device) error {
	return s.Device.Open(d, verbs.OpenOptions{LocalAddr: s.Local}, s.Options.Port, route.Want{Index: s.Options.GIDIndex, Local: s.Local, Peer: s.peer})
}

// MTU is the path MTU to use: what was asked for, else the port's.
func (s *Station) MTU() (verbs.MTU, error) {
	active, wanted := s.Port.Attr.ActiveMTU, s.Options.MTU
	if wanted > active.Bytes() {
		return 0, fmt.Errorf("path MTU %d: the port's active MTU is %s: expected no more than that", wanted, active)
	}
	if wanted == 0 {
		return active, nil
	}
	return verbs.MTUFromBytes(wanted)
}

// Close releases everything, the last made first.
func (s *Station) Close() error {
	var errs []error
	for _, p := range s.pairs {
		errs = append(errs, p.closeQP())
	}
	for _, p := range s.pairs {
		errs = append(errs, p.closeMemory())
	}
	return errors.Join(append(errs, s.Device.Close())...)
}
