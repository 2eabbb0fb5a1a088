//go:build !nodl

package gpu

import "testing"

// An address is placed by its own runtime, or another that is loaded; what none knows is the host's.
func TestPlaceOf(t *testing.T) {
	kind, child := eachKind(t)
	if !child {
		return
	}
	d := opened(t, kind)
	other, beside := opened(t, CUDA+HIP-kind), d.runtime.Devices()[1]
	alloc := func(d *Device) *Memory {
		m, err := d.Alloc(64)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	pinned, err := d.AllocPinned(64)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what  string
		addr  uint64
		place Place
		known bool
	}{
		{"its own", alloc(d).Addr() + 63, d.Place, true},
		{"of the one beside it", alloc(beside).Addr(), beside.Place, true},
		{"of another runtime", alloc(other).Addr(), other.Place, true},
		{"pinned", pinned.Addr(), Place{}, true},
		{"of nobody", 8, Place{}, false},
	} {
		if place, known := d.PlaceOf(c.addr); place != c.place || known != c.known {
			t.Errorf("%s: %s, known %v: expected %s, %v", c.what, place, known, c.place, c.known)
		}
	}
}
