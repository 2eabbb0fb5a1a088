//go:build !race

package reduce

import "golang.org/x/sys/cpu"

// streamBytes is the least for which a copy by lines is worth it.
const streamBytes = 256

var canStream = cpu.X86.HasAVX2

func stream(dst, src []byte) {
	for canStream && len(dst) >= streamBytes {
		n := min(len(dst), unpreemptedBytes)
		streamAVX2(&dst[0], &src[0], n)
		dst, src = dst[n:], src[n:]
	}
	copy(dst, src)
}

// streamAVX2 copies n >= 64 bytes, whole lines of dst by non-temporal stores.
//
//go:noescape
func streamAVX2(dst, src *byte, n int)

func fence()

// prefetch asks for the lines of n >= 1 bytes.
//
//go:noescape
func prefetch(p *byte, n int)
