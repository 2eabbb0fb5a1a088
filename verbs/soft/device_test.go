package soft

import (
	"testing"

	"ringcli/verbs"
)

// Lanes times the lanes' speed is the link's.
func TestLaneCodes(t *testing.T) {
	lanes := map[uint8]int{1: 1, 2: 4, 16: 2}
	gbps := map[uint32]int{8: 10, 32: 25, 64: 50, 128: 100}
	for _, mbps := range []int{10000, 25000, 40000, 50000, 100000, 200000, 400000} {
		if width, speed := laneCodes(mbps); lanes[width]*gbps[speed]*1000 != mbps {
			t.Errorf("%d Mbit/s: width %d, speed %d", mbps, width, speed)
		}
	}
	if width, speed := laneCodes(1000); width != 0 || speed != 0 {
		t.Errorf("1 Gbit/s, which no code stands for: width %d, speed %d", width, speed)
	}
}

func TestPathMTU(t *testing.T) {
	for link, want := range map[int]verbs.MTU{
		0: 0, 335: 0, 336: verbs.MTU256, 1280: verbs.MTU1024, 1500: verbs.MTU1024, 4175: verbs.MTU2048, 4176: verbs.MTU4096, 65536: verbs.MTU4096,
	} {
		if m, ok := pathMTU(link); m != want || ok != (want != 0) {
			t.Errorf("pathMTU(%d) is %d, %v; expected %d", link, m, ok, want)
		}
	}
}
