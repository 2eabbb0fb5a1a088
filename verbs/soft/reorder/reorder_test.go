package reorder

import (
	"math/rand/v2"
	"testing"

	"ringcli/verbs/soft/wire"
)

// TestBuffer keeps packets of random PSNs around the end of their range, and finds
// those that are ahead, in order, and no others.
func TestBuffer(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		var b buffer
		next := wire.PSNAdd(0, -rnd.IntN(1000))
		b.moveTo(next)
		want := map[uint32]bool{}
		for range 300 {
			switch rnd.IntN(3) {
			case 0: // what is next has come, or several at once: a READ
				next = wire.PSNAdd(next, 1+rnd.IntN(20))
				b.moveTo(next)
				for psn := range want {
					if wire.PSNDiff(psn, next) < 0 {
						delete(want, psn)
					}
				}
			default:
				psn := wire.PSNAdd(next, 1+rnd.IntN(size+50))
				b.keep(psn, []byte{byte(psn)}, nil)
				if wire.PSNDiff(psn, next) < size {
					want[psn] = true
				}
			}
			if b.count != len(want) {
				t.Fatalf("%d packets are kept, expected %d", b.count, len(want))
			}
		}
		for last := next; len(want) > 0; {
			s := b.first()
			if s == nil || !want[s.psn] || s.data[0] != byte(s.psn) || wire.PSNDiff(s.psn, last) <= 0 && last != next {
				t.Fatalf("%+v is first of %d", s, len(want))
			}
			last = s.psn
			delete(want, s.psn)
			b.drop(s)
		}
		if b.first() != nil {
			t.Fatal("more than was kept")
		}
		b.keep(wire.PSNAdd(next, 1), nil, nil)
		if b.moveTo(wire.PSNAdd(next, 1<<22)); b.count != 0 {
			t.Fatal("what was kept outlived its PSNs")
		}
	}
}
