package bench

import (
	"encoding/binary"
	"fmt"

	"ringcli/verbs"
)

// What is sent depends on the rank, on the place in the message and on a seed
// that is new for each test, so that a message from elsewhere, from before or in
// the wrong place is wrong.

// pattern is the eight bytes at a place that is a multiple of eight: a mixed
// counter (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
// 2014, figure 17).
func pattern(rank int, offset, seed uint64) uint64 {
	z := offset + uint64(rank+1)*0x9e3779b97f4a7c15 + seed*0xd1342543de82ef95
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func fillPattern(b []byte, rank int, seed uint64) {
	var last [8]byte
	at := 0
	for ; at+8 <= len(b); at += 8 {
		binary.LittleEndian.PutUint64(b[at:], pattern(rank, uint64(at), seed))
	}
	binary.LittleEndian.PutUint64(last[:], pattern(rank, uint64(at), seed))
	copy(b[at:], last[:])
}

// verifyPattern counts the bytes that are not the rank's and returns the first.
func verifyPattern(b []byte, rank int, seed uint64) (wrong uint64, first int, got, want byte) {
	var expected [8]byte
	for at := 0; at < len(b); at += 8 {
		v := pattern(rank, uint64(at), seed)
		if at+8 <= len(b) && binary.LittleEndian.Uint64(b[at:]) == v {
			continue
		}
		binary.LittleEndian.PutUint64(expected[:], v)
		for i := at; i < min(at+8, len(b)); i++ {
			if b[i] == expected[i-at] {
				continue
			}
			if wrong++; wrong == 1 {
				first, got, want = i, b[i], expected[i-at]
			}
		}
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
