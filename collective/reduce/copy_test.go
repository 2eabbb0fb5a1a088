package reduce

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Every length and alignment around a line and a run, and a long copy.
func TestStream(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	src := make([]byte, 600<<10)
	for i := range src {
		src[i] = byte(r.Uint32())
	}
	check := func(n, from, to int) {
		t.Helper()
		dst := make([]byte, to+n+64)
		Stream(dst[to:to+n], src[from:])
		if !bytes.Equal(dst[to:to+n], src[from:from+n]) {
			t.Fatalf("%d bytes from offset %d to offset %d differ", n, from, to)
		}
		if len(bytes.Trim(dst[:to], "\x00"))+len(bytes.Trim(dst[to+n:], "\x00")) > 0 {
			t.Fatalf("%d bytes from offset %d to offset %d: wrote outside", n, from, to)
		}
	}
	for n := range 1100 {
		check(n, r.IntN(70), r.IntN(70))
		check(n, 0, 0)
	}
	for range 30 {
		check(r.IntN(500<<10), r.IntN(70), r.IntN(70))
	}
}

func TestStreamShortSource(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a source shorter than the destination was taken")
		}
	}()
	Stream(make([]byte, 300), make([]byte, 299, 400))
}
