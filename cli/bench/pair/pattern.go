package pair

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"ringcli/verbs"
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

// Fill writes what this end sends and spoils what it receives.
func (e *End) Fill(bytes uint32, seed uint64) {
	if e.role == bystander {
		return
	}
	block := e.block.Bytes()
	fillPattern(block[:bytes], int(e.role-active), seed)
	for i := range block[e.sink:][:bytes] {
		block[e.sink:][i] = ^byte(0)
	}
}

// Verify compares what has arrived with what the other end sends: how many bytes are
// wrong, and the first of them. Both ends receive, but for a READ: of that the reader
// alone. What has received nothing has checked nothing.
func (e *End) Verify(op verbs.Opcode, bytes uint32, seed uint64) (checked bool, wrong uint64, first int, got, want byte) {
	if e.role == bystander || e.role == passive && op == verbs.OpRead {
		return
	}
	wrong, first, got, want = verifyPattern(e.block.Bytes()[e.sink:][:bytes], e.edge.Peer, seed)
	return true, wrong, first, got, want
}
