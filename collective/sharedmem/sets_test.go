package sharedmem

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"ringcli/collective/reduce"
	"ringcli/collective/reduce/reference"
	"ringcli/verbs/memory"
)

// TestSets: ranks reduce and gather sets, of several runs, of one and of none, in the order that begins at the
// owner, and one that only gives gets nothing.
func TestSets(t *testing.T) {
	const n, giver = 4, 2
	typ, size := reduce.Float32, reduce.Float32.Size()
	w := newWorld(t, n, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	kernel := reduce.Lookup(typ, reduce.Sum)
	for round, length := range []int{0, 1, 1000, 70_000} {
		for mapped := range 4 {
			// Runs follow one another, and belong to the ranks by turns, the last of which has none.
			sets, count := make([][]Run, n), 0
			for i := range 7 {
				run := Run{count, count + max(0, length-i%2)}
				sets[i%(n-1)] = append(sets[i%(n-1)], run)
				count = run.Hi
			}
			inputs := make([][]byte, n) // none so short that it is on a stack
			for rank := range inputs {
				inputs[rank] = make([]byte, count*size+64)
				reference.Fill(inputs[rank][:count*size], typ, reduce.Sum, rank, 0, uint64(round))
			}
			want := make([]byte, count*size)
			for owner, runs := range sets {
				for _, run := range runs {
					part := want[run.Lo*size : run.Hi*size]
					copy(part, inputs[owner][run.Lo*size:])
					for k := 1; k < n; k++ {
						kernel(part, part, inputs[(owner+k)%n][run.Lo*size:run.Hi*size])
					}
				}
			}
			late := rng.IntN(n)
			w.must(func(rank int, team *Team) error {
				result := make([]byte, count*size+64)
				buffer := func(b []byte, bit int) Buffer {
					return Buffer{Addr: memory.Addr(b), Key: uint64(rank) + 1, Mapped: mapped>>bit&1 == 1 != (rank == late)}
				}
				c := Call{Name: "trial", Phases: Reduce, Type: typ, Signature: Signature{Digest: 1, Count: uint64(count)}, Sets: sets, Send: buffer(inputs[rank], 0), Recv: buffer(result, 1)}
				if err := team.Pull(&c); err != nil {
					return err
				}
				reduced := slices.Clone(result)
				c.Phases, c.Send, c.Gives = Gather, c.Recv, rank == giver
				if err := team.Pull(&c); err != nil {
					return err
				}
				if rank == giver {
					if !slices.Equal(result, reduced) {
						return fmt.Errorf("rank %d got what it did not want", rank)
					}
				} else if !slices.Equal(result[:count*size], want) {
					return fmt.Errorf("rank %d, runs of %d, mapped %b: the result is wrong", rank, length, mapped)
				}
				return nil
			})
			runtime.KeepAlive(inputs)
		}
	}
	// What comes next has chunks again.
	w.run(trial{op: AllReduce, typ: reduce.Int32, count: 999, mapped: 0xff, stores: ordinary})
}
