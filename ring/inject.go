package ring

import (
	"log/slog"
	"net/netip"

	"ringcli/configs"
	"ringcli/configs/usage"
	"ringcli/ring/device"
	"ringcli/trace"
	"ringcli/verbs"
)

func init() {
	configs.Check("inject", func(text string) error {
		_, err := verbs.ParseFaults(text)
		return err
	})
}

// Inject has this rank's packets fare from now on as the text says, which is that of the
// setting inject. It is for after Open.
func (r *Ring) Inject(text string) error {
	parsed, err := verbs.ParseFaults(text)
	if err != nil {
		return usage.Errorf("inject: %w", err)
	}
	own, err := parsed.At(r.rank, func(rank int) (netip.Addr, error) {
		if rank >= len(r.addrs) {
			return netip.Addr{}, usage.Errorf("inject %q: there is no rank %d: expected 0 to %d", text, rank, len(r.addrs)-1)
		}
		return r.addrs[rank].Addr(), nil
	})
	if err != nil {
		return err
	}
	// A device that is opened meanwhile has them, too.
	r.devices.memory.Lock()
	defer r.devices.memory.Unlock()
	before := r.faults.Load()
	next := &device.Faults{Faults: own, Text: text}
	if parsed.None() {
		next.Text = ""
	}
	for _, d := range r.Devices() {
		if err := next.Into(d); err != nil {
			return err
		}
	}
	r.faults.Store(next)
	if next.Text != "" || before != nil && before.Text != "" {
		trace.Info(trace.Ring, "faults are injected on purpose", slog.String("faults", text))
	}
	return nil
}

// Injected is what happens on purpose to packets of this ring, as far as this rank was
// told; "" if nothing does.
func (r *Ring) Injected() string {
	if f := r.faults.Load(); f != nil {
		return f.Text
	}
	return ""
}

// Injects returns why no faults can be injected into packets of this ring; nil if they can.
func (r *Ring) Injects() error {
	for _, d := range r.Devices() {
		if _, ok := d.Context.(verbs.Injector); !ok {
			return usage.Errorf("%s injects no faults: expected a soft device, as with --device soft", d.Name)
		}
	}
	return nil
}
