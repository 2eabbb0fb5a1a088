package objects

import (
	"testing"

	"ringcli/verbs"
)

// Numbers are unique among those in use, not reserved, and far from each other.
func TestNewQPN(t *testing.T) {
	const n = 20_000
	taken := make(map[uint32]bool)
	next := 0
	last := uint32(0)
	for range n {
		q := NewQPN(func(q uint32) bool { return taken[q] })
		if taken[q] || q < firstQPN || q > lastQPN {
			t.Fatalf("number %#x: taken or reserved", q)
		}
		if q == last+1 {
			next++
		}
		taken[q], last = true, q
	}
	if next > 2 {
		t.Errorf("%d of %d numbers follow the one before", next, n)
	}
}

// A table takes as many regions as it says, under keys that differ in all their bits,
// and none of a region that was closed opens another.
func TestKeys(t *testing.T) {
	var table Table
	regions := make([]*Region, maxRegions)
	var ones, zeros uint32
	for i := range regions {
		regions[i] = new(Region)
		if err := table.add(regions[i]); err != nil {
			t.Fatalf("region %d: %v", i, err)
		}
		ones |= regions[i].key
		zeros |= ^regions[i].key
	}
	if ones != 1<<32-1 || zeros != 1<<32-1 {
		t.Errorf("bits that are ever set %#x, that are ever clear %#x", ones, zeros)
	}
	if err := table.add(new(Region)); err == nil {
		t.Error("one region too many was taken")
	}
	for _, r := range regions {
		if table.Get(r.key) != r {
			t.Fatalf("key %#x does not open its region", r.key)
		}
		table.remove(r)
		if table.Get(r.key) != nil {
			t.Fatalf("key %#x opens a closed region", r.key)
		}
	}
	if table.Get(0) != nil {
		t.Error("a key of 0 opens something")
	}
	for _, r := range regions[:100] {
		if err := table.add(&Region{}); err != nil {
			t.Fatal(err)
		}
		if table.Get(r.key) != nil {
			t.Errorf("key %#x of a closed region opens another", r.key)
		}
	}
}

func TestRandomPSN(t *testing.T) {
	for range 1000 {
		if psn := verbs.RandomPSN(); psn >= 1<<24 {
			t.Fatalf("PSN %#x: more than 24 bits", psn)
		}
	}
}

func BenchmarkNewQPN(b *testing.B) {
	for b.Loop() {
		NewQPN(func(uint32) bool { return false })
	}
}
