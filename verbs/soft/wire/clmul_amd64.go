package wire

import "golang.org/x/sys/cpu"

// hasFold tells whether foldBlocks can run: a carry-less multiplication of registers
// of 512 bits, four times as wide as the one that hash/crc32 uses.
var hasFold = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VPCLMULQDQ

// foldLeast is the least that foldBlocks takes, and foldBlock what it takes in whole:
// four registers, and one.
const foldLeast, foldBlock = 256, 64

// foldConstants are what moves 16 bytes past a distance: for each, x to the powers of
// the distance in bits plus 32 for the first 8 bytes, and minus 32 for the others.
// (V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
// Instruction", Intel 2009, for the bit order of this CRC.)
type foldConstants struct {
	four  [2]uint64    // past 4 registers
	one   [2]uint64    // past 1
	lanes [4][2]uint64 // of each quarter past the others that follow it; 0 of the last
}

var foldBy = foldConstants{
	four: past(4 * 512), one: past(512), lanes: [4][2]uint64{past(3 * 128), past(2 * 128), past(128)},
}

func past(bits int) [2]uint64 { return [2]uint64{powerX(bits + 32), powerX(bits - 32)} }

// powerX is x^n modulo P with x^32 in bit 0, as a product of two numbers of 64 bits
// has it that is one bit short of 128.
func powerX(n int) uint64 {
	r := uint32(1 << 31) // x^0
	for range n {
		r = timesX(r)
	}
	return uint64(r) << 1
}

// foldBlocks makes 16 bytes that a register of 0 takes in with the same result as
// register does the n bytes at p, a multiple of foldBlock and at least foldLeast.
//
//go:noescape
func foldBlocks(register uint32, p *byte, n int, k *foldConstants, rest *[16]byte)

// foldLong takes in what of p is long enough, and returns the register and the rest.
func foldLong(r uint32, p []byte) (uint32, []byte) {
	n := len(p) &^ (foldBlock - 1)
	if n < foldLeast || !hasFold {
		return r, p
	}
	var last [16]byte
	foldBlocks(r, &p[0], n, &foldBy, &last)
	return foldShort(0, last[:]), p[n:]
}
