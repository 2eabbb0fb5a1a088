// Package crossover says up to which length of the vector recursive doubling takes less
// time than the ring, where nobody has measured it.
package crossover

import "math/bits"

// What things cost where the edges' own figures are not known, in seconds and s/byte.
const (
	// message is a NIC's way with its handling at both ends, packets that of a message that
	// a kernel carries from host to host.
	message, packets = 3.6e-6, 20e-6
	// packetByte is of a core that sends and receives such packets in the ring's segments,
	// packetPiece in the pieces of a mesh: on soft:lo 2 MiB in segments of 256 KiB take
	// 0.7 ms, and of 32 KiB 1.8 ms.
	packetByte, packetPiece = 1e-9, 2.5e-9
	// packetTurn is of a piece where ranks take turns on a CPU: pieces wait for a turn, and go
	// together.
	packetTurn = 1.3e-9
	// core is of a core that reduces or copies what does not fit a cache.
	core = 1 / 20e9
)

// Halved is the fewest ranks on which recursive doubling goes by halves, and the fewest bytes of
// the vector: where lg n times the vector are more than twice the vector. On soft:lo and two CPUs
// 8 ranks take 1.13 ms for 64 KiB, and by halves 0.93; 16 ranks 5.6 and 3.3, and for 256 KiB 17 and
// 7.6 (4 ranks send as many bytes either way).
const Halved, HalvedBytes = 5, 32 << 10

// Bytes is the crossover of an operation of so many phases, 2 for all-reduce, on more than
// eight ranks, or on a device in software, of whose ports the slowest has so many Mb/s; 0: none
// is known. turns is how many ranks take turns on a CPU: a message takes so many times as long.
//
// With h the time of a message, β that of a byte on the ring's edges and β' on the others,
// c that of a byte that a core reduces or copies, and L = lg n (package model has the
// formulas in full, and their source; segments follow one another):
//
//	all-reduce    ring 2(n-1)h + V(2β + c)    doubling  Lh + LV max(β', c), or by halves 2Lh + V(2β' + c)
//	the others    ring  (n-1)h + Vβ           doubling  Lh + V(β' + c)
//
// Ranks that a power of two leaves over take two messages more, of the whole vector.
//
// In software, where ranks take turns, those turns are the time of a message and of a byte
// alike, and what counts is what all ranks do together: with x ranks left over
//
//	ring  k(n-1)h + kVβ    by halves  kLh + kV(β' + βx/n)    k phases
//
// On soft:lo with two CPUs all-reduce takes, in ms, round the ring and by halves (- is not measured;
// reduce-scatter and all-gather cross over at two thirds of the length):
//
//	ranks      128 KiB     256 KiB     512 KiB       1 MiB       2 MiB
//	    8    2.3   1.0   3.0   1.6   4.5   4.6   8.6   8.6         -
//	   12    4.0   3.0   5.8   5.3   8.6    12     -                -
//	   16    8.2   3.1    10   4.7    11   9.1    16    18         -
//	   24     14   7.6    23    17    26    23    41    53         -
//	   32          -      38    14    49    26    71    56   120   125
func Bytes(phases, ranks, mbps, turns int) int64 {
	steps, left := bits.Len(uint(ranks))-1, 0
	if whole := 1 << steps; whole < ranks {
		steps, left = steps+2, ranks-whole
	}
	if saved := float64(ranks - 1 - steps); turns > 1 && mbps == 0 && (phases < 2 || ranks >= Halved) {
		return int64(max(0, saved*packets/(packetTurn-packetByte+packetByte*float64(left)/float64(ranks))))
	}
	h, ring, mesh := packets, packetByte, packetPiece
	if mbps > 0 {
		ring = 8 / (float64(mbps) * 1e6)
		h, mesh = message, ring
	}
	h *= float64(max(1, turns))
	folded := float64(min(left, 1))
	more := mesh + core - ring + folded*(mesh+core)
	if phases == 2 {
		more = float64(steps)*max(mesh, core) - 2*ring - core
	}
	at := func(steps int, more float64) int64 {
		return int64(max(0, h*float64(phases*(ranks-1)-steps)/more))
	}
	whole := at(steps, more)
	if phases < 2 || ranks < Halved || mbps > 0 {
		return whole
	}
	return max(whole, at(2*steps, 2*(mesh-ring)+2*folded*(mesh+core)))
}
