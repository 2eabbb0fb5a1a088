package bench

import (
	"encoding/binary"
	"fmt"
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

// rank is this end's.
func (p *p2pQP) rank() int { return int(p.role - active) }

// fill writes what this end sends and spoils what it receives.
func (p *p2pQP) fill(bytes uint32, seed uint64) {
	if p.role == bystander {
		return
	}
	block := p.block.Bytes()
	fillPattern(block[:bytes], p.rank(), seed)
	for i := range block[p.sink:][:bytes] {
		block[p.sink:][i] = ^byte(0)
	}
}

// verify compares what has arrived with what the other end sends. Both ends receive,
// but for a READ: of that the reader alone.
func (p *p2pQP) verify(t p2pTest, seed uint64) (*uint64, *WrongElement) {
	if p.role == bystander || p.role == passive && t.op == verbs.OpRead {
		return nil, nil
	}
	wrong, at, got, want := verifyPattern(p.block.Bytes()[p.sink:][:t.bytes], p.edge.Peer, seed)
	if wrong == 0 {
		return &wrong, nil
	}
	return &wrong, &WrongElement{Rank: p.rank(), Offset: at, Got: fmt.Sprintf("0x%02x", got), Want: fmt.Sprintf("0x%02x", want)}
}
