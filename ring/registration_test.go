package ring

import (
	"errors"
	"testing"

	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// Memory is registered on devices that the ring opens later, too, and has no keys
// any more on one that is closed.
func TestRegistrationFollowsDevices(t *testing.T) {
	r := newRings(t, 1, nil)[0]
	var step *StepError
	if _, err := r.Memory().Register(4096, 4096, verbs.AccessLocalWrite); !errors.As(err, &step) || step.Missing != "open" {
		t.Errorf("%v: expected that open comes first", err)
	}
	noErrors(t, []error{r.Open(t.Context())})
	block, err := r.Memory().Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	g, err := r.Memory().Register(block.Addr(), 4096, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	first := r.Devices()[0]
	later, err := r.devices.open(newOdd(t, &oddDevice{}), "for a test", 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Devices()) != 2 || first.Index == later.Index {
		t.Fatalf("devices %d and %d of %d: expected two, each with an index of its own", first.Index, later.Index, len(r.Devices()))
	}
	keys := g.Keys()
	for _, d := range []*Device{first, later} {
		if g.RKey(d) == 0 || keys[d.Index].RKey != g.RKey(d) || keys[d.Index].LKey != g.LKey(d) {
			t.Errorf("%s has keys %#x and %#x, the copy %#x: expected the same, and some", d.Name, g.LKey(d), g.RKey(d), keys[d.Index])
		}
	}
	noErrors(t, []error{r.devices.exclude(later)})
	if g.RKey(later) != 0 || g.RKey(first) == 0 || len(r.Devices()) != 1 {
		t.Errorf("keys %#x there and %#x on the first of %d: expected none, and one device", g.RKey(later), g.RKey(first), len(r.Devices()))
	}
	noErrors(t, []error{g.Close(), g.Close(), block.Free()})
	if g.RKey(first) != 0 {
		t.Errorf("key %#x of a registration that is closed", g.RKey(first))
	}
	if n := testing.AllocsPerRun(10, func() { keys = g.Keys() }); n != 0 {
		t.Errorf("a copy of the keys allocates %v times", n)
	}
	if _, err := r.Memory().Register(memory.Addr[byte](nil), 4096, verbs.AccessLocalWrite); err == nil {
		t.Error("memory that is none was registered")
	}
}
