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
// On soft:lo with two CPUs, where a turn of the scheduler brings each rank one message, 16 ranks
// take for 256 KiB 12 ms round the ring and 7.6 by halves, for 1 MiB 22 and 21, for 4 MiB 64 and 75;
// 8 ranks 3.8 and 3.3, 9.3 and 10.6; 4 ranks for 64 KiB 0.40 and, by the whole vector, 0.30, for
// 256 KiB 0.66 and 1.1.
func Bytes(phases, ranks, mbps, turns int) int64 {
	h, ring, mesh := packets, packetByte, packetPiece
	if mbps > 0 {
		ring = 8 / (float64(mbps) * 1e6)
		h, mesh = message, ring
	}
	h *= float64(max(1, turns))
	steps, folded := float64(bits.Len(uint(ranks))-1), 0.0
	if ranks&(ranks-1) != 0 {
		steps, folded = steps+2, 1
	}
	more := mesh + core - ring + folded*(mesh+core)
	if phases == 2 {
		more = steps*max(mesh, core) - 2*ring - core
	}
	at := func(steps, more float64) int64 { return int64(max(0, h*(float64(phases*(ranks-1))-steps)/more)) }
	whole := at(steps, more)
	if phases < 2 || ranks < Halved || mbps > 0 {
		return whole
	}
	return max(whole, at(2*steps, 2*(mesh-ring)+2*folded*(mesh+core)))
}
