package udp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLargeMessage sends more than one system call takes.
func TestLargeMessage(t *testing.T) {
	const segment = 1000
	data := random(200*segment + 1)
	for _, o := range []without{{}, {GSO: true}} {
		from, to := listening(t, loopback4, o), listening(t, loopback4, without{})
		dst := NewSockaddr(to.LocalAddr())
		iov := []Iovec{IovecOf(data[:777]), IovecOf(data[777:777]), IovecOf(data[777:])}
		if n, err := from.Send([]Message{{Dst: &dst, Iov: iov, SegmentSize: segment}}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		got, _ := receive(t, to, 201)
		var all []byte
		for i, d := range got {
			if len(d.data) != segment && i != 200 {
				t.Errorf("%+v: datagram %d of %d bytes", o, i, len(d.data))
			}
			all = append(all, d.data...)
		}
		if !bytes.Equal(all, data) {
			t.Errorf("%+v: %d bytes in %d datagrams arrived, expected %d in 201, or they differ", o, len(all), len(got), len(data))
		}
	}
}

// A train with a short last segment is one send where its bytes and its segments are
// not too many: an invariant CRC is made for a segment's place in it.
func TestTrainIsOneSend(t *testing.T) {
	const segments = 64
	data := random(MaxBytes + 1)
	for _, c := range []struct{ size, bytes, sends int }{
		{1040, 62 * 1040, 1},
		{1040, 62*1040 + 24, 1},
		{1040, 62*1040 + 1027, 1}, // MaxBytes
		{1040, 62*1040 + 1028, 2},
		{4112, 15*4112 + 20, 1},
		{100, segments * 100, 1},
		{100, segments*100 + 1, 2},
	} {
		var s sender
		dst := NewSockaddr(netip.MustParseAddrPort("127.0.0.1:4791"))
		msgs := []Message{{Dst: &dst, Iov: []Iovec{IovecOf(data[:10]), IovecOf(data[10:c.bytes])}, SegmentSize: c.size}}
		if n := s.fill(msgs, position{}, segments); n != c.sends {
			t.Errorf("%d bytes in segments of %d: %d sends, expected %d", c.bytes, c.size, n, c.sends)
		}
	}
}

// TestGSORefused makes the kernel refuse UDP_SEGMENT: it needs UDP checksums,
// and SO_NO_CHECK switches those off.
func TestGSORefused(t *testing.T) {
	from, to := listening(t, loopback4, without{}), listening(t, loopback4, without{})
	if !from.Features().GSO {
		t.Skip("this kernel has no UDP_SEGMENT")
	}
	if err := unix.SetsockoptInt(from.fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1); err != nil {
		t.Fatal(err)
	}
	dst := NewSockaddr(to.LocalAddr())
	data := random(3500)
	msgs := []Message{
		{Dst: &dst, Iov: []Iovec{IovecOf(data[:10])}},
		{Dst: &dst, Iov: []Iovec{IovecOf(data)}, SegmentSize: 1000},
		{Dst: &dst, Iov: []Iovec{IovecOf(data)}, SegmentSize: 1000},
	}
	if n, err := from.Send(msgs); n != len(msgs) || err != nil {
		t.Fatalf("%d of %d messages: %v", n, len(msgs), err)
	}
	if f := from.Features(); f.GSO || f.MaxSegments != 1 {
		t.Errorf("features afterwards: %+v", f)
	}
	if got, _ := receive(t, to, 9); len(got) != 9 || !bytes.Equal(got[4].data, data[3000:]) {
		t.Errorf("%d datagrams arrived, expected 9", len(got))
	}
}

// TestSendError has a message in the middle that cannot be sent: what is before
// it arrives, what is behind does not, and GSO stays on.
func TestSendError(t *testing.T) {
	for _, o := range []without{{}, {MMsg: true}} {
		from, to := listening(t, loopback4, o), listening(t, loopback4, o)
		dst, nowhere := NewSockaddr(to.LocalAddr()), NewSockaddr(netip.AddrPort{})
		data := random(MaxBytes + 1)
		small := []Iovec{IovecOf(data[:10])}
		for _, bad := range []struct {
			m    Message
			want error
		}{
			{Message{Dst: &dst, Iov: []Iovec{IovecOf(data)}}, unix.EMSGSIZE},
			{Message{Dst: &nowhere, Iov: []Iovec{IovecOf(data[:20])}, SegmentSize: 10}, unix.EDESTADDRREQ},
		} {
			n, err := from.Send([]Message{{Dst: &dst, Iov: small}, bad.m, {Dst: &dst, Iov: small}})
			if n != 1 || !errors.Is(err, bad.want) {
				t.Errorf("%+v: %d sent, %v; expected 1 and %v", o, n, err, bad.want)
			}
			if got, _ := receive(t, to, 1); len(got) != 1 {
				t.Errorf("%+v: %d datagrams arrived, expected 1", o, len(got))
			}
			if got, err := to.Recv(); len(got) != 0 || err != nil {
				t.Errorf("%+v: a message behind the refused one arrived: %v, %v", o, got, err)
			}
		}
		if from.Features().GSO != probed().GSO {
			t.Error("a message that cannot be sent at all switched GSO off")
		}
	}
}

// TestTruncated sends a datagram longer than the receive buffer.
func TestTruncated(t *testing.T) {
	for _, mmsg := range []bool{true, false} {
		from, to := listening(t, loopback4, without{}), listening(t, loopback4, without{GRO: true, MMsg: !mmsg})
		dst := NewSockaddr(to.LocalAddr())
		data := random(datagramBytes + 1)
		msgs := []Message{{Dst: &dst, Iov: []Iovec{IovecOf(data)}}, {Dst: &dst, Iov: []Iovec{IovecOf(data[1:])}}}
		if n, err := from.Send(msgs); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		if got, _ := receive(t, to, 1); len(got) != 1 || !bytes.Equal(got[0].data, data[1:]) {
			t.Errorf("%d datagrams, expected the second", len(got))
		}
		if n := to.recv.truncated; n != 1 {
			t.Errorf("%d truncated, expected 1", n)
		}
	}
}

// TestUnreachable has the network report a closed port; only a connected socket
// hears of it.
func TestUnreachable(t *testing.T) {
	gone := listening(t, loopback4, without{})
	dst := NewSockaddr(gone.LocalAddr())
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	c := listening(t, loopback4, without{})
	if err := dst.call(unix.SYS_CONNECT, c.fd); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Send([]Message{{Dst: &dst, Iov: []Iovec{IovecOf(random(10))}}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if _, err := c.Wait(time.Second); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Recv(); len(got) != 0 || err != nil {
		t.Errorf("got %v, %v; expected nothing", got, err)
	}
	if n := c.recv.refused; n != 1 {
		t.Errorf("%d errors, expected 1", n)
	}
}

// TestIdentification looks at the IPv4 headers: DF is set and the
// identification 0, which the invariant CRC relies on. On loopback a GSO send is
// one frame, whose header is that of its first segment; how the others count
// up shows on a device without segmentation offload only.
func TestIdentification(t *testing.T) {
	raw, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		t.Skipf("raw sockets take CAP_NET_RAW: %v", err)
	}
	defer func() { _ = unix.Close(raw) }()
	if err := unix.SetsockoptTimeval(raw, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}); err != nil {
		t.Fatal(err)
	}
	// An address of its own: what others send on loopback would fill the raw
	// socket's buffer.
	own := [4]byte{127, byte(1 + rand.IntN(250)), byte(rand.IntN(250)), 9}
	if err := unix.Bind(raw, &unix.SockaddrInet4{Addr: own}); err != nil {
		t.Fatal(err)
	}
	from, to := listening(t, loopback4, without{}), listening(t, netip.AddrPortFrom(netip.AddrFrom4(own), 0), without{})
	dst := NewSockaddr(to.LocalAddr())
	data := random(3000)
	if _, err := from.Send([]Message{
		{Dst: &dst, Iov: []Iovec{IovecOf(data)}},
		{Dst: &dst, Iov: []Iovec{IovecOf(data)}, SegmentSize: 1000},
		{Dst: &dst, Iov: []Iovec{IovecOf(data)}},
	}); err != nil {
		t.Fatal(err)
	}
	packet := make([]byte, 4096)
	for seen := 0; seen < 3; {
		n, _, err := unix.Recvfrom(raw, packet, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			t.Fatalf("%d packets seen, expected 3: %v", seen, err)
		}
		if n < 28 || binary.BigEndian.Uint16(packet[20:]) != from.LocalAddr().Port() {
			continue // another test's
		}
		seen++
		if id, flags := binary.BigEndian.Uint16(packet[4:]), binary.BigEndian.Uint16(packet[6:]); id != 0 || flags != 0x4000 {
			t.Errorf("packet %d: identification %d, flags %#x; expected 0 and 0x4000 (DF)", seen, id, flags)
		}
	}
}
