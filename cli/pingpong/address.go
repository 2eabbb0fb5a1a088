package pingpong

import (
	"bytes"
	"encoding/hex"
	"fmt"

	"ringcli/verbs"
)

// Address is what an end tells the other of its queue pair.
type Address struct {
	LID uint16    `json:"lid"`
	QPN uint32    `json:"qpn"`
	PSN uint32    `json:"psn"` // of its first packet
	GID verbs.GID `json:"gid"` // zero where there is no GRH
}

// addressLen is the length of an address on the wire: as text, and its NUL
// (rdma-core, libibverbs/examples/rc_pingpong.c and pingpong.c).
const addressLen = len("0000:000000:000000:00000000000000000000000000000000\x00")

func (a Address) wire() []byte {
	return fmt.Appendf(make([]byte, 0, addressLen), "%04x:%06x:%06x:%s\x00", a.LID, a.QPN, a.PSN, hex.EncodeToString(a.GID[:]))
}

// parse reads an address as it is on the wire; it tells whether it is one.
func parse(b []byte) (Address, bool) {
	var a Address
	var gid []byte
	if n, _ := fmt.Sscanf(string(bytes.TrimSuffix(b, []byte{0})), "%4x:%6x:%6x:%32x", &a.LID, &a.QPN, &a.PSN, &gid); n != 4 {
		return a, false
	}
	copy(a.GID[:], gid)
	return a, bytes.Equal(a.wire(), b)
}

// String is what the stock tool prints of an address.
func (a Address) String() string {
	gid := "::" // of inet_ntop(3), as a GID prints it
	if !a.GID.IsZero() {
		gid = a.GID.String()
	}
	return fmt.Sprintf("LID 0x%04x, QPN 0x%06x, PSN 0x%06x, GID %s", a.LID, a.QPN, a.PSN, gid)
}
