package reference

import (
	"encoding/binary"

	"ringcli/collective/reduce"
)

// Fill writes the elements [offset, offset + len(buf)/size) of rank's input
// vector. Every element is a hash of seed, rank and its index, so that a
// swapped chunk, a rank that is missing or counted twice, and for floats a
// different order of operands, all show.
//
// Integers have all bits at random; for Prod they are odd, since a factor of
// two would lose a bit for good. Floats have a random sign and fraction; their
// magnitude is from 2^-7 to 2 in eight binades, so that sums round and stay
// finite for up to 32,000 ranks, and for Prod within a sixth of 1, whose
// products stay finite for up to 70 ranks even in float16.
//
// With the seed RankPlusOne every element is the rank's number plus one.
func Fill(buf []byte, t reduce.Type, op reduce.Op, rank, offset int, seed uint64) {
	if seed == RankPlusOne {
		fillAlike(buf, t, rank+1)
		return
	}
	key := mix(seed + mix(uint64(rank)+1))
	if seed&OrderFree != 0 && (op == reduce.Avg || t.Float() && (op == reduce.Sum || op == reduce.Prod)) {
		fillExact(buf, t, op, rank, offset, key)
		return
	}
	s := shapeOf(t, op)
	at := uint64(offset) * uint64(t.Size())
	word := func(i uint64) uint64 { return mix(key+i*golden)&s.keep + s.base }

	// The stream is made of words of eight bytes, counted from element 0: a
	// piece may start and end within one.
	if skip := at % 8; skip != 0 {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], word(at/8))
		buf = buf[copy(buf, b[skip:]):]
		at += 8 - skip
	}
	i := at / 8
	for len(buf) >= 8 {
		binary.LittleEndian.PutUint64(buf, word(i))
		buf = buf[8:]
		i++
	}
	if len(buf) > 0 {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], word(i))
		copy(buf, b[:])
	}
}

// RankPlusOne is the seed of inputs that a person can add up: n ranks' sum is n(n+1)/2
// everywhere.
const RankPlusOne = ^uint64(0)

// fillAlike writes a number to all elements, rounded or wrapped to what they hold.
func fillAlike(buf []byte, t reduce.Type, number int) {
	element := uint64(number)
	if t.Float() {
		element = encode(t, float64(number))
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], element)
	for size := t.Size(); len(buf) > 0; {
		buf = buf[copy(buf, b[:size]):]
	}
}

// OrderFree is the bit of seeds whose inputs have a reduction that no step rounds, in any order
// of the ranks, for results of others than our own algorithms: up to 64 ranks sums are of whole
// numbers that the type holds, and products are powers of two. An average's one division rounds.
const OrderFree = uint64(1) << 63

// mostExact is the largest of these numbers: 64 of them are less than what the type counts to
// by ones (an int8's up to 42 ranks).
func mostExact(t reduce.Type) uint64 {
	switch t {
	case reduce.Int8, reduce.Uint8, reduce.BFloat16:
		return 3
	case reduce.Float16:
		return 31
	}
	return 1<<17 - 1
}

// fillExact writes inputs of which OrderFree tells.
func fillExact(buf []byte, t reduce.Type, op reduce.Op, rank, offset int, key uint64) {
	const shifted = 8 // ranks whose factor is not 1: their product stays in a float16
	most, size := mostExact(t), t.Size()
	var b [8]byte
	for i := uint64(offset); len(buf) > 0; i++ {
		h := mix(key + i*golden)
		element := h & most
		if op == reduce.Prod {
			factor := 1.0
			if rank < shifted {
				factor = []float64{0.5, 1, 2, 1}[h>>1&3]
			}
			element = encode(t, factor*float64(1-2*int64(h&1)))
		} else if t.Float() {
			element = encode(t, float64(element))
		}
		binary.LittleEndian.PutUint64(b[:], element)
		buf = buf[copy(buf, b[:size]):]
	}
}

// golden is 2^64 divided by the golden ratio: the increment of splitmix64.
const golden = 0x9e3779b97f4a7c15

// mix is the output function of splitmix64 (Steele, Lea and Flood, "Fast
// splittable pseudorandom number generators", 2014).
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// shape turns eight random bytes into one to eight elements: random & keep +
// base, where no sum carries out of its element.
type shape struct{ keep, base uint64 }

func shapeOf(t reduce.Type, op reduce.Op) shape {
	size := t.Size()
	switch {
	case !t.Float() && op == reduce.Prod:
		return shape{^repeat(1, size), repeat(1, size)}
	case !t.Float():
		return shape{keep: ^uint64(0)}
	}
	fraction := fractionBits(t)
	sign := uint64(1) << (8*size - 1)
	one := encode(t, 1)
	if op == reduce.Prod {
		// The bits of 1 plus a number in [-2/3, 1/3) of a quarter of a binade:
		// below 1 the last place is worth half as much as above.
		span := uint64(1) << (fraction - 1)
		return shape{repeat(sign|(span-1), size), repeat(one-span*2/3, size)}
	}
	// The exponent of 1 has all bits but its top one set. Its low three are
	// left to chance.
	free := uint64(1)<<(fraction+3) - 1
	return shape{repeat(sign|free, size), repeat(one&^free, size)}
}

// fractionBits returns the bits of the fraction of a float type.
func fractionBits(t reduce.Type) int {
	switch t {
	case reduce.Float16:
		return half.fraction
	case reduce.BFloat16:
		return brain.fraction
	case reduce.Float32:
		return 23
	}
	return 52
}

// repeat fills a word with an element of so many bytes.
func repeat(element uint64, size int) uint64 {
	for ; size < 8; size *= 2 {
		element |= element << (8 * size)
	}
	return element
}
