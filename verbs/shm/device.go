package shm

import (
	"fmt"

	"ringcli/verbs"
	"ringcli/verbs/objects"
)

func init() { verbs.Register(provider{}) }

// limits are what the device can do. Its atomics are the CPU's own. A poll that finds
// nothing is a few loads, so that some 300 of them take as long as a yield.
var limits = func() verbs.DeviceAttr {
	a := objects.Limits()
	a.Capabilities = verbs.Capabilities{HostLocal: true}
	a.FirmwareVersion, a.MaxQP, a.AtomicCap, a.MaxSpins = "shared memory", rows-firstRow, verbs.AtomicGlobal, 300
	return a
}()

type provider struct{}

// Name implements verbs.Provider.
func (provider) Name() string { return "shm" }

// Capabilities implements verbs.Provider.
func (provider) Capabilities() verbs.Capabilities { return limits.Capabilities }

// Devices implements verbs.Provider.
func (provider) Devices() ([]verbs.Device, error) { return []verbs.Device{device{}}, nil }

// device is the memory of this host.
type device struct{}

// Name implements verbs.Device.
func (device) Name() string { return "shm:0" }

// Open implements verbs.Device. LocalAddr and UDPPort mean nothing here.
func (d device) Open(o verbs.OpenOptions) (verbs.Context, error) {
	if o.Impair != nil {
		return nil, fmt.Errorf("open %s: %w: shared memory loses nothing; soft devices can be impaired", d.Name(), verbs.ErrInvalid)
	}
	c, err := newContext()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", d.Name(), err)
	}
	return c, nil
}

// port is the device's one port.
var port = verbs.PortAttr{
	State: verbs.PortActive, PhysState: "LinkUp", MaxMTU: verbs.MTU4096, ActiveMTU: verbs.MTU4096,
	MaxMsgSz: verbs.MaxMessage, GIDTableSz: 1, PKeyTableSz: 1, MaxVLNum: 1,
}
