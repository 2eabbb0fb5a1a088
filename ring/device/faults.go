package device

import (
	"ringcli/configs/usage"
	"ringcli/verbs"
)

// Faults are what happens on purpose to a rank's packets.
type Faults struct {
	verbs.Faults
	Text string // in verbs.ParseFaults' words; "" if nothing does
}

// Into has them happen to a device's packets.
func (f *Faults) Into(d *Device) error {
	in, ok := d.Context.(verbs.Injector)
	switch {
	case ok:
		return in.Inject(f.Faults)
	case f.Text == "":
		return nil
	}
	return usage.Errorf("%s injects no faults: expected a soft device for %q, as with --device soft", d.Name, f.Text)
}
