package message

import (
	"math/rand/v2"
	"testing"
)

func TestHeaderRoundTrip(t *testing.T) {
	var b [2 * HeaderSize]byte
	for range 1000 {
		in := Header{
			Kind: Kind(rand.Uint32()), Epoch: rand.Uint32(), Seq: rand.Uint64(), Digest: rand.Uint64(), Segment: rand.Uint32(),
			Root: rand.Uint32(), Length: rand.Uint32(), Sum: rand.Uint32(), Addr: rand.Uint64(), RKey: rand.Uint32(), Sender: rand.Uint32(), Arg: rand.Uint64(),
		}
		in.Encode(b[:])
		var out Header
		if !out.Decode(b[:]) || out != in {
			t.Fatalf("%+v became %+v", in, out)
		}
	}
	var h Header
	if h.Decode(b[:HeaderSize-1]) {
		t.Error("a short header was taken")
	}
	b[1] ^= 1
	if h.Decode(b[:]) {
		t.Error("a header without the magic was taken")
	}
}

// The layout is the wire's: other versions must read it.
func TestHeaderLayout(t *testing.T) {
	var b [HeaderSize]byte
	h := Header{Kind: 0x21, Epoch: 1, Seq: 2, Digest: 3, Segment: 4, Root: 5, Length: 6, Sum: 11, Addr: 7, RKey: 8, Sender: 9, Arg: 10}
	h.Encode(b[:])
	for offset, want := range map[int]byte{0: 'R', 1: 'M', 2: 3, 3: 0x21, 4: 1, 8: 2, 16: 3, 24: 4, 28: 5, 32: 6, 36: 11, 40: 7, 48: 8, 52: 9, 56: 10} {
		if b[offset] != want {
			t.Errorf("byte %d is %#x: expected %#x", offset, b[offset], want)
		}
	}
}

func TestHeaderAllocatesNothing(t *testing.T) {
	var b [2 * HeaderSize]byte
	h := Header{Kind: Ping, Seq: 9}
	if n := testing.AllocsPerRun(100, func() {
		h.Digest = uint64(Checksum(b[HeaderSize:]))
		h.Encode(b[:])
		if !h.Decode(b[:]) {
			t.Error("not a header")
		}
	}); n != 0 {
		t.Errorf("%v allocations: expected none", n)
	}
}

func TestPatternTellsRankRoundAndPlace(t *testing.T) {
	differ := func(what string, other func(i int) byte) {
		same := 0
		for i := range 64 {
			if other(i) == Pattern(3, 5, i) {
				same++
			}
		}
		if same > 8 {
			t.Errorf("another %s gives %d of 64 equal bytes", what, same)
		}
	}
	differ("rank", func(i int) byte { return Pattern(4, 5, i) })
	differ("round", func(i int) byte { return Pattern(3, 6, i) })
	differ("place", func(i int) byte { return Pattern(3, 5, i+1) })
}

func TestKindNames(t *testing.T) {
	Name(200, "test")
	if Ping.String() != "ping" || Kind(200).String() != "test" || Kind(201).String() != "message kind 201" {
		t.Error(Ping, Kind(200), Kind(201))
	}
}
