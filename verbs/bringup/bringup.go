// Package bringup brings up what queue pairs need, in libibverbs' order: the device
// with its port and GID, protection domain, completion queue, queue pair. What takes
// a queue pair on to RTS is verbs.Advance.
package bringup

import (
	"errors"
	"fmt"
	"io"

	"ringcli/verbs"
	"ringcli/verbs/route"
)

// Device is an open device, with what its queue pairs share. It is brought up by Open,
// AllocPD and CreateCQ; Close releases what there is, after any of them has failed, too.
type Device struct {
	Context verbs.Context
	Attr    verbs.DeviceAttr
	Port    route.Port
	GID     route.Choice // of the port's table, and why the others were not taken
	PD      verbs.PD
	CQ      verbs.CQ
	Channel verbs.CompChannel // of CQ
}

// Open opens a device and chooses the GID. The error wraps verbs.ErrInvalid where
// another address, port or GID index would do.
func (d *Device) Open(from verbs.Device, o verbs.OpenOptions, port int, want route.Want) (err error) {
	c, err := from.Open(o)
	if err != nil {
		return fmt.Errorf("open %s with address %s: %w", from.Name(), o.LocalAddr, err)
	}
	d.Context = c
	if d.Attr, err = d.Context.QueryDevice(); err != nil {
		return fmt.Errorf("query %s: %w", from.Name(), err)
	}
	if d.Port, err = route.QueryPort(d.Context, port); err != nil {
		return err
	}
	d.GID, err = d.Port.Choose(want)
	return err
}

// AllocPD makes the protection domain.
func (d *Device) AllocPD() (err error) {
	d.PD, err = d.Context.AllocPD()
	return err
}

// CreateCQ makes the completion queue of all queue pairs, with its channel.
func (d *Device) CreateCQ(depth int) (err error) {
	if d.Channel, err = d.Context.CreateCompChannel(); err != nil {
		return err
	}
	d.CQ, err = d.Context.CreateCQ(depth, d.Channel)
	return err
}

// CreateQP makes a queue pair, which is in RESET, and returns the size of its queues.
// Of inline data it takes what the device can do, at most what limits say; a device
// that does not say is asked.
func (d *Device) CreateQP(limits verbs.QPCap, sigAll bool) (qp verbs.QP, created verbs.QPCap, err error) {
	a := verbs.QPInitAttr{SendCQ: d.CQ, RecvCQ: d.CQ, Type: verbs.RC, SigAll: sigAll, Cap: limits}
	wishes := []int{limits.MaxInlineData, limits.MaxInlineData / 2, 0}
	if d.Attr.MaxInline > 0 || limits.MaxInlineData == 0 {
		wishes = []int{min(d.Attr.MaxInline, limits.MaxInlineData)}
	}
	for _, a.Cap.MaxInlineData = range wishes {
		if qp, err = d.PD.CreateQP(a); err == nil {
			break
		}
	}
	if err != nil {
		return nil, created, err
	}
	if _, a, err = qp.Query(); err != nil {
		return nil, created, errors.Join(err, qp.Close())
	}
	return qp, a.Cap, nil
}

// Name is the device's name.
func (d *Device) Name() string { return d.Context.Device().Name() }

// GIDEntry is the row of the GID table that was chosen, as it is now: a UDP port is
// known once there is a queue pair.
func (d *Device) GIDEntry() (verbs.GIDEntry, error) {
	entry, err := d.Context.QueryGID(d.Port.Num, d.GID.Entry.Index)
	if err != nil {
		return entry, fmt.Errorf("query GID %d of %s: %w", d.GID.Entry.Index, d.Name(), err)
	}
	return entry, nil
}

// Close releases everything, the last made first.
func (d *Device) Close() error {
	return errors.Join(d.CloseCQ(), release(d.PD), release(d.Context))
}

// CloseCQ releases what CreateCQ made.
func (d *Device) CloseCQ() error { return errors.Join(release(d.CQ), release(d.Channel)) }

// release closes what was made.
func release(c io.Closer) error {
	if c == nil {
		return nil
	}
	return c.Close()
}
