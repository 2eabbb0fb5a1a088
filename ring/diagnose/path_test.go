package diagnose

import (
	"fmt"
	"strings"
	"testing"

	"ringcli/ring/bootstrap/verdict"
)

// TestPathByProbes: a path that lets short packets pass alone has a small MTU; one that lost
// some and let longer ones pass loses packets, which is no certain verdict on it.
func TestPathByProbes(t *testing.T) {
	own, peer := &End{Rank: 1, PathMTU: 1024}, &End{Rank: 2, PathMTU: 1024}
	mtus := []int{0, 256, 512, 1024}
	for _, test := range []struct {
		outward, inward []int
		from, to        int
		certain         bool
		says            string
	}{
		{mtus, mtus, 0, 0, false, ""},
		{nil, mtus, 1, 2, true, "does not arrive"},
		{mtus, nil, 2, 1, true, "does not arrive"},
		{nil, nil, 1, 2, true, "in either direction"},
		{mtus[:2], mtus, 1, 2, true, "over 256 bytes"},
		{mtus, mtus[:3], 2, 1, true, "over 512 bytes"},
		{[]int{0, 512, 1024}, mtus, 1, 2, false, "loses many packets"},
		{mtus, []int{1024}, 2, 1, false, "loses many packets"},
		{mtus[:2], []int{256, 1024}, 2, 1, false, "loses many packets"},
		{append([]int{0, 1, 2}, mtus...), mtus, 1, 2, false, "loses many packets"}, // forged
	} {
		tests := Tests(own, peer, nil, &Probed{MTUs: mtus, Outward: test.outward, Inward: test.inward})
		var b *Blame
		if v := verdict.RollUp(tests, func(rank int) string { return fmt.Sprintf("rank %d", rank) }); v != nil {
			b = PathBlame(v, own.Rank)
		}
		switch {
		case b == nil && test.says == "":
		case b == nil || test.says == "":
			t.Errorf("%v, %v: %+v", test.outward, test.inward, b)
		case b.From != test.from || b.To != test.to || b.Certain != test.certain || !strings.Contains(b.Text, test.says):
			t.Errorf("%v, %v: %+v: expected from %d to %d, certain %v, %q", test.outward, test.inward, b, test.from, test.to, test.certain, test.says)
		}
	}
}
