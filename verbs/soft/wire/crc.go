package wire

import (
	"encoding/binary"
	"hash/crc32"
)

// The CRC-32 of Ethernet is a linear map over GF(2), which the ICRC's code
// leans on. A register is a polynomial modulo P with x^0 in bit 31; taking in
// a zero byte multiplies it by x^8, and a byte that is not zero is first XORed
// into bits 7..0. "Register" here is the value without the final complement.

// slicing[k][b] is what the byte b contributes to the register k bytes later.
// It serves the headers and the ends of payloads: hash/crc32 has its fast path
// from 64 bytes on, and its parameter escapes to the heap.
var slicing = func() (t [maxSlice][256]uint32) {
	t[0] = *crc32.IEEETable
	for k := 1; k < len(t); k++ {
		for b, v := range t[k-1] {
			t[k][b] = t[0][byte(v)] ^ v>>8
		}
	}
	return t
}()

// maxSlice covers the bytes from an IPv6 payload length field to the end of
// the UDP header.
const maxSlice = 44

// foldBTH takes in a BTH with its byte 4 as ones.
func foldBTH(r uint32, b []byte) uint32 {
	_ = b[BTHLen-1]
	r ^= binary.LittleEndian.Uint32(b)
	w1 := binary.LittleEndian.Uint32(b[4:]) | 0xff
	w2 := binary.LittleEndian.Uint32(b[8:])
	return slicing[11][byte(r)] ^ slicing[10][byte(r>>8)] ^ slicing[9][byte(r>>16)] ^ slicing[8][r>>24] ^
		slicing[7][byte(w1)] ^ slicing[6][byte(w1>>8)] ^ slicing[5][byte(w1>>16)] ^ slicing[4][w1>>24] ^
		slicing[3][byte(w2)] ^ slicing[2][byte(w2>>8)] ^ slicing[1][byte(w2>>16)] ^ slicing[0][w2>>24]
}

// foldShort takes in few bytes.
func foldShort(r uint32, p []byte) uint32 {
	for len(p) >= 8 {
		r ^= binary.LittleEndian.Uint32(p)
		w := binary.LittleEndian.Uint32(p[4:])
		r = slicing[7][byte(r)] ^ slicing[6][byte(r>>8)] ^ slicing[5][byte(r>>16)] ^ slicing[4][r>>24] ^
			slicing[3][byte(w)] ^ slicing[2][byte(w>>8)] ^ slicing[1][byte(w>>16)] ^ slicing[0][w>>24]
		p = p[8:]
	}
	if len(p) >= 4 {
		r ^= binary.LittleEndian.Uint32(p)
		r = slicing[3][byte(r)] ^ slicing[2][byte(r>>8)] ^ slicing[1][byte(r>>16)] ^ slicing[0][r>>24]
		p = p[4:]
	}
	for _, b := range p {
		r = slicing[0][byte(r)^b] ^ r>>8
	}
	return r
}

// crcBlock is the granule of hash/crc32's carry-less multiplication on amd64,
// which it uses from 4 blocks on. What is left over it takes byte by byte, so
// it is given whole blocks only.
const crcBlock = 16

// fold takes in p.
func fold(r uint32, p []byte) uint32 {
	r, p = foldLong(r, p)
	if n := len(p) &^ (crcBlock - 1); n >= 4*crcBlock {
		r = ^crc32.Update(^r, crc32.IEEETable, p[:n])
		p = p[n:]
	}
	return foldShort(r, p)
}

// timesX multiplies by x.
func timesX(r uint32) uint32 { return r>>1 ^ -(r&1)&crc32.IEEE }

// overX divides by x.
func overX(r uint32) uint32 { return (r^-(r>>31)&crc32.IEEE)<<1 | r>>31 }

// times multiplies two polynomials modulo P.
func times(a, b uint32) uint32 {
	var r uint32
	for range 32 {
		r ^= -(a >> 31) & b
		a <<= 1
		b = timesX(b)
	}
	return r
}
