// Command spoofer forges RoCEv2 packets for endpoints whose queue pair numbers and PSNs
// it does not know, as fast as the kernel takes them, and says how many went out. It
// needs no rights: on the host of a ring of soft devices any user may run it.
//
//	spoofer -from 127.1.2.2 -to 127.1.2.1:4791 -duration 10m
//
// It sends from a free port of the address that it is given, which may be that of the
// true peer. What it sends would be taken if it guessed right: ICRC and addresses are as
// they should be. The kinds take turns: NAKs of each code, ACKs, WRITEs, READs, SENDs, and
// every 16th train is wrong in its ICRC, cut short or noise.
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"time"

	"ringcli/verbs/soft/udp"
	"ringcli/verbs/soft/wire"
)

// train is how many packets go to the kernel in one send; the most that it takes.
const train = 64

func main() {
	from := flag.String("from", "127.0.0.1", "address to send from")
	to := flag.String("to", "127.0.0.1:4791", "endpoints, comma separated")
	duration := flag.Duration("duration", 10*time.Second, "how long")
	qpn := flag.Int("qpn", -1, "the queue pair's number, if it is known")
	flag.Parse()
	if err := run(*from, *to, *duration, *qpn); err != nil {
		fmt.Fprintln(os.Stderr, "spoofer:", err)
		os.Exit(1)
	}
}

func run(from, to string, duration time.Duration, qpn int) error {
	source, err := netip.ParseAddr(from)
	if err != nil {
		return err
	}
	conn, err := udp.Listen(netip.AddrPortFrom(source, 0))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	var victims []*victim
	for text := range strings.SplitSeq(to, ",") {
		at, err := netip.ParseAddrPort(text)
		if err != nil {
			return err
		}
		victims = append(victims, &victim{dst: udp.NewSockaddr(at), flow: wire.NewFlow(conn.LocalAddr(), at)})
	}
	rng := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(time.Now().UnixNano())))
	start, packets, refused := time.Now(), 0, 0
	for n := 0; time.Since(start) < duration; n++ {
		for _, v := range victims {
			sent, err := conn.Send(v.forge(rng, n, qpn))
			if packets += sent * train; err != nil || sent == 0 {
				refused++
			}
		}
	}
	took := time.Since(start)
	fmt.Printf("%d packets in %s, %.0f a second from %s as user %d; %d trains were not taken\n",
		packets, took.Round(time.Millisecond), float64(packets)/took.Seconds(), conn.LocalAddr(), os.Getuid(), refused)
	return nil
}

// victim is an endpoint, and the packets for it.
type victim struct {
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
func (v *victim) forge(rng *rand.Rand, n, qpn int) []udp.Message {
	k := kinds[n%len(kinds)]
	head := k.opcode.HeaderLen()
	size := head + k.payload + wire.ICRCLen
	for i := range train {
		b := v.buf[i*size:][:size]
		r := rng.Uint64()
		f := wire.BTHFields{Opcode: k.opcode, PKey: wire.DefaultPKey, DestQPN: uint32(r) & wire.PSNMask, PSN: uint32(r>>24) & wire.PSNMask, AckReq: true}
		if qpn >= 0 {
			f.DestQPN = uint32(qpn)
		}
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
