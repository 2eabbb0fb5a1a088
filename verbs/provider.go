package verbs

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
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
	// OwnPort takes a free UDP port and a socket of its own (soft only): what it sends comes
	// from another port than what other contexts do.
	OwnPort bool
	// OnEvent is told what happens to the device outside any request. It is called
	// on a goroutine of the context, must not wait, and is called no more once Close
	// has returned. nil ignores events.
	OnEvent func(AsyncEvent)
}

var registry struct {
	sync.Mutex
	providers []Provider // guarded by the mutex, in order of registration
}

// Register adds a provider. A second one of the same name is a programming error.
func Register(p Provider) {
	registry.Lock()
	defer registry.Unlock()
	if slices.ContainsFunc(registry.providers, func(q Provider) bool { return q.Name() == p.Name() }) {
		panic("verbs: provider registered twice: " + p.Name())
	}
	registry.providers = append(registry.providers, p)
}

// Providers returns all providers in the order of their registration.
func Providers() []Provider {
	registry.Lock()
	defer registry.Unlock()
	return slices.Clone(registry.providers)
}

// Devices lists the devices of all providers that have some.
func Devices() []Device {
	var list []Device
	for _, p := range Providers() {
		if devices, err := p.Devices(); err == nil { // `ringcli devices` says why one has none
			list = append(list, devices...)
		}
	}
	return list
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
