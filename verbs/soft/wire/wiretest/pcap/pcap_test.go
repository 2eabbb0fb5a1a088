package pcap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"
)

// file makes a pcap file of frames.
func file(order binary.AppendByteOrder, magic, link uint32, frames ...[]byte) []byte {
	b := order.AppendUint32(nil, magic)
	b = order.AppendUint16(b, 2)
	b = order.AppendUint16(b, 4)
	for _, v := range []uint32{0, 0, maxRecord, link} {
		b = order.AppendUint32(b, v)
	}
	for i, f := range frames {
		for _, v := range []uint32{1000, uint32(i), uint32(len(f)), uint32(len(f)) + 1} {
			b = order.AppendUint32(b, v)
		}
		b = append(b, f...)
	}
	return b
}

func ether(kind string, ip []byte) []byte {
	return append(append(make([]byte, 12), kind...), ip...)
}

func ip4(n int) []byte {
	b := make([]byte, n)
	b[0] = 0x45
	binary.BigEndian.PutUint16(b[2:], uint16(n))
	return b
}

func ip6(n int) []byte {
	b := make([]byte, n)
	b[0] = 0x60
	binary.BigEndian.PutUint16(b[4:], uint16(n-40))
	return b
}

func TestReader(t *testing.T) {
	for _, c := range []struct {
		order binary.AppendByteOrder
		magic uint32
		tick  time.Duration
	}{
		{binary.LittleEndian, magicMicro, time.Microsecond}, {binary.BigEndian, magicMicro, time.Microsecond},
		{binary.LittleEndian, magicNano, time.Nanosecond}, {binary.BigEndian, magicNano, time.Nanosecond},
	} {
		frames := [][]byte{ether("\x08\x00", ip4(30)), ether("\x86\xdd", ip6(60))}
		got, err := ReadAll(bytes.NewReader(file(c.order, c.magic, linkEthernet, frames...)))
		if err != nil || len(got) != 2 {
			t.Fatalf("%v %#x: %d records, %v; expected 2", c.order, c.magic, len(got), err)
		}
		for i, r := range got {
			if r.Number != i+1 || !bytes.Equal(r.Frame, frames[i]) || r.Len != len(frames[i])+1 ||
				!r.Time.Equal(time.Unix(1000, int64(i)*int64(c.tick))) {
				t.Errorf("%v %#x: record %d is %+v", c.order, c.magic, i, r)
			}
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	good := file(binary.LittleEndian, magicMicro, linkEthernet, ip4(30))
	long := bytes.Clone(good)
	binary.LittleEndian.PutUint32(long[fileHeaderLen+8:], maxRecord+1)
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "no file header"},
		{"text", []byte("no pcap file, but long enough"), "magic"},
		{"pcapng", append([]byte{0x0a, 0x0d, 0x0d, 0x0a}, make([]byte, 28)...), "editcap"},
		{"any interface", file(binary.LittleEndian, magicMicro, 113), "link type 113"},
		{"half a record header", good[:fileHeaderLen+3], "no whole header"},
		{"half a record", good[:len(good)-1], "ends early"},
		{"record header only", good[:fileHeaderLen+recordHeaderLen], "ends early"},
		{"huge record", long, "at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ReadAll(bytes.NewReader(c.file))
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, expected ErrFormat with %q", err, c.want)
			}
		})
	}
}

func TestIP(t *testing.T) {
	v4, v6 := ip4(30), ip6(60)
	for _, c := range []struct {
		name  string
		link  uint32
		frame []byte
		want  []byte
	}{
		{"ipv4", linkEthernet, ether("\x08\x00", v4), v4},
		{"ipv4 with Ethernet's padding", linkEthernet, append(ether("\x08\x00", v4), 0, 0), v4},
		{"ipv4 cut by the capture", linkEthernet, ether("\x08\x00", v4)[:40], v4[:26]},
		{"ipv6", linkEthernet, ether("\x86\xdd", v6), v6},
		{"vlan", linkEthernet, ether("\x81\x00\x00\x07\x08\x00", v4), v4},
		{"raw", linkRaw, v6, v6},
		{"arp", linkEthernet, ether("\x08\x06", v4), nil},
		{"half a header", linkEthernet, ether("\x08\x00", v4[:19]), nil},
		{"half an Ethernet header", linkEthernet, make([]byte, 13), nil},
		{"empty", linkRaw, nil, nil},
	} {
		r := Record{Frame: c.frame, link: c.link}
		if got := r.IP(); !bytes.Equal(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%s: IP packet is % x, expected % x", c.name, got, c.want)
		}
	}
}
