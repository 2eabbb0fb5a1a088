package p2p

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
)

// What is sent depends on the rank, on the place in the message and on a seed
// that is new for each test, so that a message from elsewhere, from before or in
// the wrong place is wrong.

// patternOf is what a rank sends, byte by byte.
func patternOf(rank int, seed uint64) *rand.ChaCha8 {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], uint64(rank))
	binary.LittleEndian.PutUint64(key[8:], seed)
	return rand.NewChaCha8(key)
}

func fillPattern(b []byte, rank int, seed uint64) {
	_, _ = patternOf(rank, seed).Read(b) // it never fails
}

// verifyPattern counts the bytes that are not the rank's and returns the first.
func verifyPattern(b []byte, rank int, seed uint64) (wrong uint64, first int, got, want byte) {
	var expected [4096]byte
	pattern, at := patternOf(rank, seed), 0
	for part := range slices.Chunk(b, len(expected)) {
		_, _ = pattern.Read(expected[:len(part)])
		for i, c := range part {
			if c != expected[i] {
				if wrong++; wrong == 1 {
					first, got, want = at+i, c, expected[i]
				}
			}
		}
		at += len(part)
	}
	return wrong, first, got, want
}
