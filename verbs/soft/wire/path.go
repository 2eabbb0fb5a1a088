package wire

// PathMTU is the code of a path MTU (enum ibv_mtu): how many payload bytes a
// packet carries at most. Both queue pairs of a connection need the same.
type PathMTU uint8

// Path MTU codes (IBTA volume 1, section 14.2.5.6).
const (
	MTU256  PathMTU = 1
	MTU512  PathMTU = 2
	MTU1024 PathMTU = 3
	MTU2048 PathMTU = 4
	MTU4096 PathMTU = 5
)

// linkOverhead is what Linux rdma_rxe subtracts from a network device's MTU
// (RXE_MAX_HDR_LENGTH in rxe_param.h). A peer's choice must be met exactly, so
// it is used as it is, although IPv4 and the longest headers need less.
const linkOverhead = 80

// Valid reports whether m is one of the five codes.
func (m PathMTU) Valid() bool { return m >= MTU256 && m <= MTU4096 }

// Bytes returns the payload bytes of m, 0 where m is not valid.
func (m PathMTU) Bytes() int {
	if !m.Valid() {
		return 0
	}
	return 128 << m
}

// PathMTUForLink returns the greatest path MTU that fits a network device with
// an MTU of linkMTU bytes, in the way of Linux rdma_rxe: 1500 gives 1024. ok is
// false below 336 bytes, where none fits.
func PathMTUForLink(linkMTU int) (m PathMTU, ok bool) {
	for m = MTU4096; m >= MTU256; m-- {
		if m.Bytes() <= linkMTU-linkOverhead {
			return m, true
		}
	}
	return 0, false
}
