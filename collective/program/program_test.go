package program

import (
	"fmt"
	"maps"
	"testing"

	"ringcli/collective/reduce"
)

// TestPrograms runs the programs on all ranks without any network, on vectors of
// strings, so that the order of the operands can be read off the result.
func TestPrograms(t *testing.T) {
	for n := 2; n <= 9; n++ {
		want := make([]string, n) // chunk c: ((x[c+1] op x[c+2]) op ...) op x[c]
		for c := range want {
			for k := 1; k <= n; k++ {
				want[c] += fmt.Sprint((c+k)%n, " ")
			}
		}
		for _, test := range []struct {
			name    string
			program func(*Program)
			initial func(rank, chunk int) string
			want    func(rank, chunk int) string
		}{
			{"reduce-scatter", (*Program).ReduceScatter, own, func(rank, chunk int) string {
				if rank == chunk {
					return want[chunk]
				}
				return ""
			}},
			{"all-gather", (*Program).AllGather,
				func(rank, chunk int) string { return fmt.Sprint("chunk ", chunk, " of ", rank) },
				func(rank, chunk int) string {
					if rank == chunk {
						return "" // it is where it was, or the caller copies it
					}
					return fmt.Sprint("chunk ", chunk, " of ", chunk)
				}},
			{"all-reduce", (*Program).AllReduce, own, func(_, chunk int) string { return want[chunk] }},
		} {
			programs := make([]Program, n)
			wire := make([][]string, n) // what each rank sent, by position
			recvBuf := make([][]string, n)
			for r := range programs {
				programs[r] = Program{Rank: r, Size: n}
				test.program(&programs[r])
				recvBuf[r] = make([]string, n)
			}
			for k := range programs[0].Steps {
				for r := range programs {
					s := programs[r].Steps[k]
					if (s.Do&DoRecv != 0) != (k > 0) || (s.Do&DoSend != 0) != (k < len(programs[r].Steps)-1) {
						t.Fatalf("%s, n=%d, rank %d, step %d of %d: %b receives or sends out of turn", test.name, n, r, k, len(programs[r].Steps), s.Do)
					}
					value := test.initial(r, s.Chunk)
					if s.Do&DoRecv != 0 {
						got := wire[(r+n-1)%n][k-1]
						if s.Do&DoReduce != 0 {
							got += value
						}
						value = got
					}
					if s.Do&DoCopy != 0 {
						recvBuf[r][s.Chunk] = value
					}
					wire[r] = append(wire[r], value)
				}
			}
			for r := range recvBuf {
				for c, got := range recvBuf[r] {
					if want := test.want(r, c); got != want {
						t.Errorf("%s, n=%d, rank %d, chunk %d: %q, want %q", test.name, n, r, c, got, want)
					}
				}
			}
		}
	}
}

// TestChains: along a chain every rank but the first receives, and every rank but the last
// sends, what the chain is for.
func TestChains(t *testing.T) {
	for n := 2; n <= 5; n++ {
		for root := range n {
			for name, chain := range map[string]struct {
				program func(*Program)
				first   int
			}{"broadcast": {(*Program).Broadcast, root}, "reduce": {(*Program).Reduce, (root + 1) % n}} {
				programs := make([]Program, n)
				for r := range programs {
					programs[r] = Program{Rank: r, Size: n, Root: root}
					chain.program(&programs[r])
				}
				value, kept := "", map[int]string{}
				for k := range n {
					r := (chain.first + k) % n
					p := &programs[r]
					if !p.Chain || p.FromNobody != (k == 0) || p.ToNobody != (k == n-1) {
						t.Fatalf("%s from %d, n=%d, rank %d: %+v", name, root, n, r, p)
					}
					does := p.Steps[1].Do
					if k == 0 {
						does = p.Steps[0].Do
						value = own(r, 0)
					}
					if does&DoRecv != 0 != (k > 0) || does&DoSend != 0 != (k < n-1) {
						t.Fatalf("%s from %d, n=%d, rank %d: %b receives or sends out of turn", name, root, n, r, does)
					}
					if does&DoReduce != 0 {
						value += own(r, 0)
					}
					if does&DoCopy != 0 {
						kept[r] = value
					}
				}
				want := map[int]string{}
				for r := range n {
					if name == "reduce" {
						want[root] += own((root+1+r)%n, 0)
					} else if r != root {
						want[r] = own(root, 0)
					}
				}
				if !maps.Equal(kept, want) {
					t.Errorf("%s from %d, n=%d: %v, want %v", name, root, n, kept, want)
				}
			}
		}
	}
}

func own(rank, _ int) string { return fmt.Sprint(rank, " ") }

// TestSchedule: every segment of every step has one position, dependencies come
// first, and the segments cover each chunk once.
func TestSchedule(t *testing.T) {
	for _, s := range []Schedule{
		{Ranks: 3, Count: 0, PerSegment: 4, Segments: 1, Depth: 4, Transfers: 4},
		{Ranks: 2, Count: 7, PerSegment: 4, Segments: 1, Depth: 1, Transfers: 2},
		{Ranks: 4, Count: 1003, PerSegment: 17, Segments: 15, Depth: 4, Transfers: 6},
		{Ranks: 5, Count: 999, PerSegment: 10, Segments: 20, Depth: 16, Transfers: 8},
	} {
		seen := map[[2]int]int{}
		for p := range s.Positions() {
			transfer, segment, width := s.At(p)
			if transfer < 0 || transfer >= s.Transfers || segment < 0 || segment >= s.Segments || width < 1 || width > s.Depth {
				t.Fatalf("%+v: position %d is transfer %d of segment %d, width %d", s, p, transfer, segment, width)
			}
			if before, ok := seen[[2]int{transfer - 1, segment}]; transfer > 0 && (!ok || before != p-width) {
				t.Fatalf("%+v: position %d depends on %d, want %d", s, p, before, p-width)
			}
			seen[[2]int{transfer, segment}] = p
		}
		if len(seen) != s.Transfers*s.Segments {
			t.Errorf("%+v: %d positions, want %d", s, len(seen), s.Transfers*s.Segments)
		}
		for chunk := range s.Ranks {
			next, end := reduce.Chunk(s.Count, s.Ranks, chunk)
			for segment := range s.Segments {
				lo, hi := s.Span(chunk, segment)
				if lo != next || hi < lo || hi-lo > s.PerSegment {
					t.Fatalf("%+v: segment %d of chunk %d is [%d, %d): expected it to begin at %d", s, segment, chunk, lo, hi, next)
				}
				next = hi
			}
			if next != end {
				t.Errorf("%+v: the segments of chunk %d end at %d, want %d", s, chunk, next, end)
			}
		}
	}
}
