package model

import (
	"math"
	"testing"
)

func TestPortBound(t *testing.T) {
	for _, c := range []struct {
		mbps, mtu      int
		ethernet, ipv6 bool
		want           float64 // GB/s
	}{
		{100e3, 4096, true, false, 12.5 * 4096 / (4096 + 82)},
		{100e3, 1024, true, false, 12.5 * 1024 / (1024 + 82)},
		{400e3, 4096, true, true, 50.0 * 4096 / (4096 + 102)},
		{200e3, 4096, false, false, 25.0 * 4096 / (4096 + 26)},
	} {
		if b := PortBound(c.mbps, c.mtu, c.ethernet, c.ipv6); b.Kind != Port || math.Abs(b.Rate/1e9-c.want) > 1e-6 || b.Why == "" {
			t.Errorf("%+v: %+v", c, b)
		}
	}
}

func TestLeast(t *testing.T) {
	if _, ok := Least(nil); ok {
		t.Error("nothing binds")
	}
	if b, ok := Least([]Bound{{Port, 12e9, ""}, {PCIe, 7e9, ""}, {Memory, 9e9, ""}}); !ok || b.Kind != PCIe {
		t.Errorf("%v binds", b)
	}
}
