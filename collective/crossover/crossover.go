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

// Bytes is the crossover of an operation of so many phases, 2 for all-reduce, on more than
// eight ranks, of whose ports the slowest has so many Mb/s; 0: none is known.
//
// With h the time of a message, β that of a byte on the ring's edges and β' on the others,
// c that of a byte that a core reduces or copies, and L = lg n (package model has the
// formulas in full, and their source; segments follow one another):
//
//	all-reduce    ring 2(n-1)h + V(2β + c)    doubling  Lh + LV max(β', c)
//	the others    ring  (n-1)h + Vβ           doubling  Lh + V(β' + c)
//
// Ranks that a power of two leaves over take two messages more, of the whole vector.
func Bytes(phases, ranks, mbps int) int64 {
	h, ring, mesh := packets, packetByte, packetPiece
	if mbps > 0 {
		ring = 8 / (float64(mbps) * 1e6)
		h, mesh = message, ring
	}
	steps, folded := float64(bits.Len(uint(ranks))-1), 0.0
	if ranks&(ranks-1) != 0 {
		steps, folded = steps+2, 1
	}
	more := mesh + core - ring + folded*(mesh+core)
	if phases == 2 {
		more = steps*max(mesh, core) - 2*ring - core
	}
	return int64(max(0, h*(float64(phases*(ranks-1))-steps)/more))
}
