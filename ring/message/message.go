// Package message is what ranks send each other over queue pairs: the header of every message
// and of every slot, and the payload of pings.
package message

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Kind says what a message on an edge is for.
type Kind uint8

// The kinds of messages. Those from User on are the caller's.
const (
	Ping Kind = 1
	Pong Kind = 2
	User Kind = 16
)

var names = [256]string{Ping: "ping", Pong: "pong"}

// Name gives a message kind of the caller's a name for messages to people.
// It is for package initialisation: it is not synchronised.
func Name(k Kind, name string) { names[k] = name }

func (k Kind) String() string {
	if names[k] == "" {
		return fmt.Sprintf("message kind %d", uint8(k))
	}
	return names[k]
}

// HeaderSize is the size of a Header on the wire in bytes.
const HeaderSize = 64

// magic begins every header: "RM", and a version.
const magic = 0x03_4d52

// Header begins every message and every slot: what this is, and of which
// operation, so that ranks that disagree find out.
//
//	 0  magic "RM" 3, kind     4  epoch      8  sequence     16  digest
//	24  segment  28 root      32  length    36  checksum     40  address      48  rkey
//	52  sender   56 argument                       (all little-endian)
//
// Payloads have a checksum where their sender was asked for it; those of pings have one
// in their digest. What carries them has a CRC, and collectives can be checked element by
// element.
type Header struct {
	Kind    Kind
	Epoch   uint32
	Seq     uint64 // counts the operations of a ring
	Digest  uint64 // of the operation's parameters, equal on all ranks; of a ping, CRC32C of the payload
	Segment uint32
	Root    uint32 // rank, of an operation that has one
	Length  uint32 // bytes of payload, or of what Addr names
	Sum     uint32 // CRC32C of them, if the kind has one
	Addr    uint64
	RKey    uint32
	Sender  uint32 // rank
	Arg     uint64 // the kind's own
}

// Encode writes the header to b, which holds HeaderSize bytes or more.
func (h *Header) Encode(b []byte) {
	_ = b[HeaderSize-1]
	le := binary.LittleEndian
	le.PutUint32(b, magic|uint32(h.Kind)<<24)
	le.PutUint32(b[4:], h.Epoch)
	le.PutUint64(b[8:], h.Seq)
	le.PutUint64(b[16:], h.Digest)
	le.PutUint32(b[24:], h.Segment)
	le.PutUint32(b[28:], h.Root)
	le.PutUint32(b[32:], h.Length)
	le.PutUint32(b[36:], h.Sum)
	le.PutUint64(b[40:], h.Addr)
	le.PutUint32(b[48:], h.RKey)
	le.PutUint32(b[52:], h.Sender)
	le.PutUint64(b[56:], h.Arg)
}

// Decode reads a header and reports whether it is one.
func (h *Header) Decode(b []byte) bool {
	if len(b) < HeaderSize {
		return false
	}
	le := binary.LittleEndian
	first := le.Uint32(b)
	*h = Header{
		Kind: Kind(first >> 24), Epoch: le.Uint32(b[4:]), Seq: le.Uint64(b[8:]), Digest: le.Uint64(b[16:]),
		Segment: le.Uint32(b[24:]), Root: le.Uint32(b[28:]), Length: le.Uint32(b[32:]), Sum: le.Uint32(b[36:]), Addr: le.Uint64(b[40:]),
		RKey: le.Uint32(b[48:]), Sender: le.Uint32(b[52:]), Arg: le.Uint64(b[56:]),
	}
	return first&0xff_ffff == magic
}

// KindOf returns the kind of a message, or 0 if it is none.
func KindOf(b []byte) Kind {
	var h Header
	if !h.Decode(b) {
		return 0
	}
	return h.Kind
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the CRC32C of b. It allocates nothing.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// IsPing tells whether it is of a ping.
func (h *Header) IsPing() bool { return h.Kind == Ping || h.Kind == Pong }

// FillPattern writes the payload of a round trip and returns its checksum.
func FillPattern(payload []byte, rank int, trip uint32) uint32 {
	for i := range payload {
		payload[i] = Pattern(rank, trip, i)
	}
	return Checksum(payload)
}

// Pattern is byte i of a ping's payload: another for each rank and round trip, and
// at each offset.
func Pattern(rank int, trip uint32, i int) byte {
	v := uint32(rank+1)*0x9e3779b1 + trip*0x85ebca6b + uint32(i)*0xc2b2ae35
	v ^= v >> 15
	return byte(v * 0x2c1b3c6d >> 24)
}

// Verify checks a ping's message, of so many bytes, that has this header: its payload is the
// pattern of the rank that it comes from at first, and of its round trip.
func (h *Header) Verify(msg []byte, size, origin int) error {
	if len(msg) != size || int(h.Length) != size-HeaderSize {
		return fmt.Errorf("%d bytes: expected %d", len(msg), size)
	}
	payload := msg[HeaderSize:]
	for i, b := range payload {
		if w := Pattern(origin, h.Segment, i); b != w {
			return fmt.Errorf("wrong data: byte %d is %#02x, expected %#02x", i, b, w)
		}
	}
	if sum := uint64(Checksum(payload)); sum != h.Digest {
		return fmt.Errorf("checksum %#08x, expected %#08x", h.Digest, sum)
	}
	return nil
}
