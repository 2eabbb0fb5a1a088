// Package endpoint is a device with a queue pair or two, on any provider, for the
// commands that work without a ring.
package endpoint

import (
	"errors"
	"fmt"
	"net/netip"

	"ringcli/ring/bootstrap"
	"ringcli/verbs"
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
	Options Options
	Local   netip.Addr // to speak from
	Ctx     verbs.Context
	Attr    verbs.DeviceAttr
	Port    route.Port
	Choice  route.Choice // of the GID
	PD      verbs.PD
	Channel verbs.CompChannel
	CQ      verbs.CQ
	peer    netip.Addr
	pairs   []*Pair // in the order of their creation
}

// Open opens the device and chooses the GID. A device or a GID index that is not
// there is an error of usage.
func (s *Station) Open(peer netip.Addr) error {
	s.peer = peer
	err := s.choose()
	if errors.Is(err, verbs.ErrNoDevice) || errors.Is(err, verbs.ErrInvalid) {
		return bootstrap.Usagef("%v", err)
	}
	return err
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
	if own := s.Choice.Entry.GID.Addr(); s.Attr.UDPSocket && s.Options.GIDIndex != nil && s.Local.IsValid() && own != s.Local {
		if err := s.Ctx.Close(); err != nil {
			return err
		}
		s.Local, s.Ctx = own, nil
		err = s.openFrom(d)
	}
	return err
}

// openFrom opens the device to speak from the local address.
func (s *Station) openFrom(d verbs.Device) (err error) {
	if s.Ctx, err = d.Open(verbs.OpenOptions{LocalAddr: s.Local}); err != nil {
		return fmt.Errorf("open %s: %w", d.Name(), err)
	}
	if s.Attr, err = s.Ctx.QueryDevice(); err != nil {
		return fmt.Errorf("query %s: %w", d.Name(), err)
	}
	if s.Port, err = route.QueryPort(s.Ctx, s.Options.Port); err != nil {
		return err
	}
	s.Choice, err = s.Port.Choose(route.Want{Index: s.Options.GIDIndex, Local: s.Local, Peer: s.peer})
	return err
}

// AllocPD makes the protection domain.
func (s *Station) AllocPD() (err error) {
	s.PD, err = s.Ctx.AllocPD()
	return err
}

// CreateCQ makes the completion queue of all pairs, with its channel.
func (s *Station) CreateCQ(depth int) (err error) {
	if s.Channel, err = s.Ctx.CreateCompChannel(); err != nil {
		return err
	}
	s.CQ, err = s.Ctx.CreateCQ(depth, s.Channel)
	return err
}

// GID is the row of the GID table that was chosen, with the UDP port that is known
// once there is a queue pair.
func (s *Station) GID() (verbs.GIDEntry, error) {
	entry, err := s.Ctx.QueryGID(s.Port.Num, s.Choice.Entry.Index)
	if err != nil {
		return entry, fmt.Errorf("query GID %d of %s: %w", s.Choice.Entry.Index, s.Device(), err)
	}
	return entry, nil
}

// Device is the name of the device.
func (s *Station) Device() string { return s.Ctx.Device().Name() }

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
	if s.CQ != nil {
		errs = append(errs, s.CQ.Close())
	}
	if s.Channel != nil {
		errs = append(errs, s.Channel.Close())
	}
	if s.PD != nil {
		errs = append(errs, s.PD.Close())
	}
	if s.Ctx != nil {
		errs = append(errs, s.Ctx.Close())
	}
	return errors.Join(errs...)
}
