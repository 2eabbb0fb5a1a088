package ring

import (
	"log/slog"
	"net/netip"
	"sync/atomic"

	"ringcli/configs/usage"
	"ringcli/ring/device"
	"ringcli/trace"
	"ringcli/verbs"
)

// Faults are what happens on purpose to this rank's packets.
type Faults struct {
	of      *membership
	devices *devices
	addrs   func() []netip.AddrPort       // of the list, after Open
	current atomic.Pointer[device.Faults] // nil: packets are let alone
}

// Inject injects faults into this rank's packets from now on. The text is that of the setting
// inject. It is for after Open.
func (f *Faults) Inject(text string) error {
	parsed, err := verbs.ParseFaults(text)
	if err != nil {
		return usage.Errorf("inject: %w", err)
	}
	addrs := f.addrs()
	own, err := parsed.At(f.of.rank, func(rank int) (netip.Addr, error) {
		if rank >= len(addrs) {
			return netip.Addr{}, usage.Errorf("inject %q: there is no rank %d: expected 0 to %d", text, rank, len(addrs)-1)
		}
		return addrs[rank].Addr(), nil
	})
	if err != nil {
		return err
	}
	// A device that is opened meanwhile has them, too.
	f.devices.memory.Lock()
	defer f.devices.memory.Unlock()
	before := f.current.Load()
	next := &device.Faults{Faults: own, Text: text}
	if parsed.None() {
		next.Text = ""
	}
	for _, d := range f.devices.all() {
		if err := next.Into(d); err != nil {
			return err
		}
	}
	f.current.Store(next)
	if next.Text != "" || before != nil && before.Text != "" {
		trace.Info(trace.Ring, "faults are injected on purpose", slog.String("faults", text))
	}
	return nil
}

// Text is what happens on purpose to packets of this ring, as far as this rank was
// told; "" if nothing does.
func (f *Faults) Text() string {
	if now := f.current.Load(); now != nil {
		return now.Text
	}
	return ""
}

// Supported returns why no faults can be injected into packets of this ring; nil if they can.
func (f *Faults) Supported() error {
	for _, d := range f.devices.all() {
		if _, ok := d.Context.(verbs.Injector); !ok {
			return usage.Errorf("%s injects no faults: expected a soft device, as with --device soft", d.Name)
		}
	}
	return nil
}
