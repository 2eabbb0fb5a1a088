package sharedmem

import (
	"math/rand/v2"
	"testing"

	"ringcli/collective/reduce"
	"ringcli/verbs/verbstest"
)

// counts are what divides by nothing, what fits a line and what does not, pieces,
// steps, and more steps than there are slots.
func counts(r *rand.Rand, size int) int {
	switch r.IntN(16) {
	case 0:
		return r.IntN(10)
	case 1:
		return linePayload/size + r.IntN(60)/size
	case 2:
		return (1<<20 + r.IntN(1<<20)) / size
	case 3, 4:
		return r.IntN(300_000) / size
	case 5, 6:
		return InboxPiece/size - 1 + r.IntN(3)
	}
	return r.IntN(3000)
}

// Every operation, type, reduction and number of ranks, in place and not, with
// counts and kinds of buffers by chance, on one team after another: all of those that have
// inboxes, and some that post.
func TestBits(t *testing.T) {
	for i, n := range []int{2, 3, 4, 5, 6, 7, inboxRanks, 2, 4, inboxRanks + 1, 16, 17, 33} {
		if testing.Short() && n > 3 && n != inboxRanks+1 && (verbstest.Race || n > 4 && n != inboxRanks) {
			continue
		}
		w := newWorld(t, n, func(c *Config) { c.Crowded = i >= inboxRanks-1 })
		r := rand.New(rand.NewPCG(uint64(n), 1))
		for _, typ := range reduce.Types() {
			for i, red := range reduce.Ops() {
				if (n > inboxRanks || verbstest.Race) && (i+int(typ))%3 > 0 {
					continue // a sample
				}
				for _, op := range []Phases{AllReduce, ReduceScatter, AllGather} {
					for _, inbox := range []bool{true, false} {
						tr := trial{
							op: op, typ: typ, red: red, inbox: inbox, inPlace: r.IntN(2) == 0, count: counts(r, typ.Size()),
							mapped: r.Uint64(), stores: stores(r.IntN(int(allStores) + 1)), seed: r.Uint64(),
						}
						switch r.IntN(4) {
						case 0:
							tr.mapped = 0
						case 1:
							tr.mapped = ^uint64(0)
						}
						if r.IntN(3) == 0 {
							tr.misalign = r.IntN(64) / typ.Size() * typ.Size()
						}
						if testing.Short() || n > 4 {
							tr.count = min(tr.count, 20_000)
						}
						if n > inboxRanks {
							tr.count = min(tr.count, 200_000/n)
						}
						w.run(tr)
					}
				}
			}
		}
		w.must(func(_ int, t *Team) error { return t.Inbox(&Call{Phases: Barrier}) })
	}
}
