package ring

import (
	"testing"

	"ringcli/verbs"
)

// A queue of any depth keeps the newest requests, wherever it wraps.
func TestFIFO(t *testing.T) {
	for _, depth := range []int{0, 1, 3, 4, 128} {
		f := newFIFO(depth)
		if len(f.entries) < max(1, depth) {
			t.Fatalf("%d entries for a depth of %d", len(f.entries), depth)
		}
		const all = 1000
		for i := range all {
			f.push(&verbs.WorkRequest{ID: uint64(i), SGL: []verbs.SGE{{Addr: 7, Length: 1, LKey: 8}, {Length: 2}}})
		}
		if f.posted() != len(f.entries) {
			t.Errorf("depth %d: %d are posted, of %d", depth, f.posted(), len(f.entries))
		}
		for i := range all {
			at := f.find(uint64(i))
			if kept := i >= all-len(f.entries); kept != (at >= 0) {
				t.Errorf("depth %d: request %d is at %d", depth, i, at)
			} else if kept && *f.at(at) != (request{id: uint64(i), addr: 7, length: 3, lkey: 8}) {
				t.Errorf("depth %d: request %d is %+v", depth, i, *f.at(at))
			}
		}
	}
}
