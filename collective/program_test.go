package collective

import (
	"fmt"
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
			program func(*program)
			initial func(rank, chunk int) string
			want    func(rank, chunk int) string
		}{
			{"reduce-scatter", (*program).reduceScatter, own, func(rank, chunk int) string {
				if rank == chunk {
					return want[chunk]
				}
				return ""
			}},
			{"all-gather", (*program).allGather,
				func(rank, chunk int) string { return fmt.Sprint("chunk ", chunk, " of ", rank) },
				func(rank, chunk int) string {
					if rank == chunk {
						return "" // it is where it was, or the caller copies it
					}
					return fmt.Sprint("chunk ", chunk, " of ", chunk)
				}},
			{"all-reduce", (*program).allReduce, own, func(_, chunk int) string { return want[chunk] }},
		} {
			programs := make([]program, n)
			wire := make([][]string, n) // what each rank sent, by position
			recvBuf := make([][]string, n)
			for r := range programs {
				programs[r] = program{rank: r, size: n}
				test.program(&programs[r])
				recvBuf[r] = make([]string, n)
			}
			for k := range programs[0].steps {
				for r := range programs {
					s := programs[r].steps[k]
					if (s.do&doRecv != 0) != (k > 0) || (s.do&doSend != 0) != (k < len(programs[r].steps)-1) {
						t.Fatalf("%s, n=%d, rank %d, step %d of %d: %b receives or sends out of turn", test.name, n, r, k, len(programs[r].steps), s.do)
					}
					value := test.initial(r, s.chunk)
					if s.do&doRecv != 0 {
						got := wire[(r+n-1)%n][k-1]
						if s.do&doReduce != 0 {
							got += value
						}
						value = got
					}
					if s.do&doCopy != 0 {
						recvBuf[r][s.chunk] = value
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

func own(rank, _ int) string { return fmt.Sprint(rank, " ") }

// TestSchedule: every segment of every step has one position, dependencies come
// first, and the segments cover each chunk once.
func TestSchedule(t *testing.T) {
	for _, s := range []schedule{
		{ranks: 3, count: 0, perSegment: 4, segments: 1, depth: 4, transfers: 4},
		{ranks: 2, count: 7, perSegment: 4, segments: 1, depth: 1, transfers: 2},
		{ranks: 4, count: 1003, perSegment: 17, segments: 15, depth: 4, transfers: 6},
		{ranks: 5, count: 999, perSegment: 10, segments: 20, depth: 16, transfers: 8},
	} {
		seen := map[[2]int]int{}
		for p := range s.positions() {
			transfer, segment, width := s.at(p)
			if transfer < 0 || transfer >= s.transfers || segment < 0 || segment >= s.segments || width < 1 || width > s.depth {
				t.Fatalf("%+v: position %d is transfer %d of segment %d, width %d", s, p, transfer, segment, width)
			}
			if before, ok := seen[[2]int{transfer - 1, segment}]; transfer > 0 && (!ok || before != p-width) {
				t.Fatalf("%+v: position %d depends on %d, want %d", s, p, before, p-width)
			}
			seen[[2]int{transfer, segment}] = p
		}
		if len(seen) != s.transfers*s.segments {
			t.Errorf("%+v: %d positions, want %d", s, len(seen), s.transfers*s.segments)
		}
		for chunk := range s.ranks {
			next, end := reduce.Chunk(s.count, s.ranks, chunk)
			for segment := range s.segments {
				lo, hi := s.span(chunk, segment)
				if lo != next || hi < lo || hi-lo > s.perSegment {
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
