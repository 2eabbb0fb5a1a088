//go:build !nodl

package ibv

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"ringcli/verbs"
)

// Both ways to address a peer: a LID alone on one subnet of InfiniBand, a GRH on
// Ethernet; and a LID with a GRH from one subnet to another.
func TestAddressVectors(t *testing.T) {
	lid := verbs.AHAttr{DLID: 0x1234, SL: 3, PortNum: 2}
	grh := verbs.AHAttr{SL: 5, PortNum: 1, IsGlobal: true, GRH: verbs.GlobalRoute{
		DGID: verbs.GID{10: 0xff, 11: 0xff, 12: 10, 15: 9}, FlowLabel: 0xabcde, SGIDIndex: 7, HopLimit: 64, TrafficClass: 106,
	}}
	both := grh
	both.DLID = 0x4321
	for _, c := range []struct {
		go_ verbs.AHAttr
		c   cAHAttr
	}{
		{lid, cAHAttr{dlid: 0x1234, sl: 3, portNum: 2}},
		{grh, cAHAttr{sl: 5, portNum: 1, isGlobal: 1, grh: cGlobalRoute{
			dgid: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 9}, flowLabel: 0xabcde, sgidIndex: 7, hopLimit: 64, trafficClass: 106,
		}}},
		{both, cAHAttr{dlid: 0x4321, sl: 5, portNum: 1, isGlobal: 1, grh: cGlobalRoute{
			dgid: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 9}, flowLabel: 0xabcde, sgidIndex: 7, hopLimit: 64, trafficClass: 106,
		}}},
	} {
		var got cAHAttr
		if got.set(&c.go_); got != c.c {
			t.Errorf("%+v in C is\n%+v, want\n%+v", c.go_, got, c.c)
		}
		if back := got.goForm(); back != c.go_ {
			t.Errorf("%+v comes back as\n%+v", c.go_, back)
		}
	}
	// Without a GRH nothing of one is passed on.
	stale := grh
	stale.IsGlobal = false
	var got cAHAttr
	if got.set(&stale); got.grh != (cGlobalRoute{}) {
		t.Errorf("is_global 0, but the GRH is %+v", got.grh)
	}
}

func TestAttributesThereAndBack(t *testing.T) {
	want := verbs.QPAttr{
		State: verbs.StateRTR, CurState: verbs.StateInit, PathMTU: verbs.MTU4096, RQPSN: 1, SQPSN: 2, DestQPN: 3, Access: verbs.AccessAll,
		AH: verbs.AHAttr{DLID: 4, SL: 5, PortNum: 6}, PKeyIndex: 7, PortNum: 8, MaxRDAtomic: 9, MaxDestRDAtomic: 10, MinRNRTimer: 11,
		Timeout: 12, RetryCnt: 13, RNRRetry: 14,
	}
	var c cQPAttr
	c.set(&want, queried)
	if got := c.goForm(); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestCounters(t *testing.T) {
	dir := t.TempDir()
	for name, value := range map[string]string{
		"hw/lifespan": "12\n", "hw/rcvd_pkts": "34\n", "hw/both": "1\n", "sw/both": "2\n", "sw/VL15_dropped": "0\n", "sw/odd": "N/A (no PMA)\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := counters(filepath.Join(dir, "hw"), filepath.Join(dir, "sw"), filepath.Join(dir, "none"))
	want := []verbs.Counter{{Name: "both", Value: 1}, {Name: "rcvd_pkts", Value: 34}, {Name: "VL15_dropped", Value: 0}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRate(t *testing.T) {
	for text, want := range map[string]int{
		"100 Gb/sec (4X EDR)": 100000, "2.5 Gb/sec (1X SDR)": 2500, "10 Gb/sec (1X FDR10)": 10000, "": 0, "fast": 0, "5 parsecs": 0,
	} {
		if got := rate(text); got != want {
			t.Errorf("%q is %d Mb/s, want %d", text, got, want)
		}
	}
}
