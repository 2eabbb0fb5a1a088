package wire

// PSNMask covers the 24 bits of a packet or message sequence number.
const PSNMask = mask24

// PSNDiff returns a-b modulo 2^24 as a signed number, -2^23 to 2^23-1: negative
// where a comes before b.
func PSNDiff(a, b uint32) int32 { return int32((a-b)<<8) >> 8 }

// PSNAdd returns a+n modulo 2^24; n may be negative.
func PSNAdd(a uint32, n int) uint32 { return (a + uint32(n)) & PSNMask }
