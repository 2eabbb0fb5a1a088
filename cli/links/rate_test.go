package links

import (
	"math"
	"testing"
)

func TestRates(t *testing.T) {
	for text, want := range map[string]float64{
		"48GB/s": 48e9, "400Gb/s": 50e9, " 1.5 GB/s": 1.5e9, "400Gbps": 50e9, "100Gbit/s": 12.5e9, "1GiB/s": 1 << 30, "5MB/s": 5e6, ".5kB/s": 500, "7B/s": 7, "8Kib/s": 1024,
		"48": 0, "GB/s": 0, "48GB": 0, "-1GB/s": 0, "0GB/s": 0, "1e9B/s": 0, "48XB/s": 0, "NaNGB/s": 0, "": 0, "1iB/s": 0,
	} {
		got, err := parseRate(text)
		if (err == nil) != (want > 0) || err == nil && math.Abs(float64(got)-want) > 1e-6*want {
			t.Errorf("%q: %v, %v, want %v", text, float64(got), err, want)
		}
		if err == nil {
			if back, err := parseRate(got.String()); err != nil || math.Abs(float64(back)-want) > 1e-3*want {
				t.Errorf("%q: %s reads as %v, %v", text, got, float64(back), err)
			}
		}
	}
}
