package verbs

import (
	"crypto/rand"
	"encoding/binary"
)

// Random32 returns 32 bits that nobody can guess: for queue pair numbers, keys and PSNs,
// which are all that RoCE has against forged packets.
func Random32() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.NativeEndian.Uint32(b[:])
}

// RandomPSN returns the PSN that a queue pair begins with.
func RandomPSN() uint32 { return Random32() >> 8 }
