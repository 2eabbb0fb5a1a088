package shm

import (
	"fmt"
	"os"

	"ringcli/verbs"
	"ringcli/verbs/objects"
)

func init() { verbs.Register(provider{}) }

// limits are what the device can do. Queues cost memory only; the depth of READs
// and atomics is that of common NICs.
var limits = verbs.DeviceAttr{
	Capabilities:      verbs.Capabilities{HostLocal: true},
	FirmwareVersion:   "shared memory",
	Transport:         "InfiniBand (0)",
	MaxMRSize:         1 << 47,
	PageSizeCap:       uint64(os.Getpagesize()),
	CapFlags:          rcRNRNakGen,
	MaxQP:             rows - firstRow,
	MaxQPWR:           1 << 15,
	MaxSGE:            32,
	MaxSGERD:          32,
	MaxCQ:             1 << 16,
	MaxCQE:            1 << 22,
	MaxMR:             objects.MaxRegions,
	MaxPD:             1 << 16,
	MaxQPRDAtomic:     128,
	MaxResRDAtomic:    128 << 16,
	MaxQPInitRDAtomic: 128,
	MaxPKeys:          1,
	MaxInline:         1024,
	PhysPorts:         1,
	AtomicCap:         verbs.AtomicGlobal, // they are the CPU's own
}

// rcRNRNakGen is IBV_DEVICE_RC_RNR_NAK_GEN: a SEND without a receive for it is
// refused, to come again.
const rcRNRNakGen = 1 << 12

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
