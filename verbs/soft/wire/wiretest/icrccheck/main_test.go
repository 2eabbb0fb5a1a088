package main

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringcli/verbs/soft/wire/wiretest/pcap"
)

const captures = "../../testdata/captures"

func TestCaptures(t *testing.T) {
	t.Chdir(captures)
	files, err := filepath.Glob("*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("captures: %v, %v", files, err)
	}
	var out, errs bytes.Buffer
	if status := run(files, &out, &errs); status != 0 {
		t.Fatalf("exit status %d\n%s%s", status, &out, &errs)
	}
	want, err := os.ReadFile("icrccheck.txt")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("output differs from icrccheck.txt:\n%s", &out)
	}
}

// TestRefusesDamage flips each bit of a packet in turn. The bits that the ICRC
// leaves out, since routers may change them, must not matter; all others must.
func TestRefusesDamage(t *testing.T) {
	for _, c := range []struct {
		file   string
		masked []byte // per byte of IP, UDP and BTH, the bits left out
	}{
		{"verbs-ops.pcap", []byte{1: 0xff, 8: 0xff, 10: 0xff, 11: 0xff, 26: 0xff, 27: 0xff, 32: 0xff}},
		{"rc-pingpong-ipv6.pcap", []byte{0: 0x0f, 1: 0xff, 2: 0xff, 3: 0xff, 7: 0xff, 46: 0xff, 47: 0xff, 52: 0xff}},
	} {
		_, _, good := firstPacket(t, c.file)
		// No longer taken for RoCEv2 at all: a flip in the version, the next
		// protocol, the fragment offset or the port.
		elsewhere := 0
		for bit := range len(good) * 8 {
			i, mask := bit/8, byte(1)<<(bit%8)
			damaged := bytes.Clone(good)
			damaged[i] ^= mask
			if !isRoCE(damaged) {
				elsewhere++
				continue
			}
			_, err := check(damaged)
			if covered := i >= len(c.masked) || c.masked[i]&mask == 0; covered != (err != nil) {
				t.Errorf("%s, bit %d of byte %d: covered %v, verdict %v", c.file, bit%8, i, covered, err)
			}
		}
		if elsewhere > 8+8+13+16 {
			t.Errorf("%s: %d flips made no RoCEv2 packet", c.file, elsewhere)
		}
	}
}

// TestOrder gives the responses of a READ, with others among them.
func TestOrder(t *testing.T) {
	_, _, ip := firstPacket(t, "verbs-ops.pcap")
	h, _ := ipHeader(ip)
	type packet struct {
		opcode byte
		psn    uint32
	}
	const first, middle, last, only, ack = 13, 14, 15, 16, 17
	for _, c := range []struct {
		name    string
		packets []packet
		bad     int
	}{
		{"in order, around the end of the PSNs", []packet{{ack, 0xfffffd}, {first, 0xfffffe}, {middle, 0xffffff}, {last, 0}, {only, 1}, {ack, 2}}, 0},
		{"an ACK in the middle", []packet{{first, 5}, {middle, 6}, {ack, 9}, {middle, 7}, {last, 8}}, 1},
		{"an ACK around the end", []packet{{first, 0xfffffe}, {ack, 1}, {middle, 0xffffff}, {last, 0}}, 1},
		{"the next READ before the end of the first", []packet{{first, 5}, {only, 7}, {last, 6}}, 1},
		{"a NAK instead of the rest", []packet{{first, 5}, {ack, 6}}, 0},
		{"answered anew", []packet{{first, 5}, {middle, 6}, {first, 5}, {middle, 6}, {last, 7}, {ack, 8}, {first, 6}, {last, 7}}, 0},
		{"an ACK of what was before", []packet{{first, 5}, {ack, 4}, {last, 6}}, 0},
	} {
		o, bad := order{}, 0
		for _, p := range c.packets {
			b := bytes.Clone(ip)
			b[h+8] = p.opcode
			binary.BigEndian.PutUint32(b[h+16:], p.psn)
			if o.check(b) != nil {
				bad++
			}
		}
		if bad != c.bad {
			t.Errorf("%s: %d bad, expected %d", c.name, bad, c.bad)
		}
	}
}

// TestRunRefusesDamage flips one payload bit in a capture.
func TestRunRefusesDamage(t *testing.T) {
	file, at, ip := firstPacket(t, "rc-pingpong.pcap")
	file[at+len(ip)-5] ^= 0x10
	name := filepath.Join(t.TempDir(), "damaged.pcap")
	if err := os.WriteFile(name, file, 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if status := run([]string{name}, &out, &errs); status != 1 {
		t.Errorf("exit status %d, expected 1", status)
	}
	if got := out.String(); !strings.Contains(got, "66 RoCEv2 packets, 1 bad") || !strings.Contains(got, "RC_SEND_FIRST has ICRC") {
		t.Errorf("the damaged packet is not named in\n%s", got)
	}
}

// firstPacket returns a capture, and the first RoCEv2 packet in it with its
// offset.
func firstPacket(t *testing.T, name string) (file []byte, at int, ip []byte) {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(captures, name))
	if err != nil {
		t.Fatal(err)
	}
	records, err := pcap.ReadAll(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if ip := r.IP(); isRoCE(ip) {
			return file, bytes.Index(file, ip), ip
		}
	}
	t.Fatalf("%s has no RoCEv2 packet", name)
	return nil, 0, nil
}

// TestRefusesForm gives packets a right ICRC and a wrong form.
func TestRefusesForm(t *testing.T) {
	for _, c := range []struct {
		name    string
		udp     []byte // BTH to pad
		verdict string
	}{
		{"good", []byte{4, 0x30, 0xff, 0xff, 0, 0, 0, 9, 0, 0, 0, 1, 7, 0, 0, 0}, ""},
		{"pad not zero", []byte{4, 0x30, 0xff, 0xff, 0, 0, 0, 9, 0, 0, 0, 1, 7, 0, 0, 1}, "pad bytes"},
		{"more pad than payload", []byte{4, 0x30, 0xff, 0xff, 0, 0, 0, 9, 0, 0, 0, 1}, "pad count 3"},
		{"length no multiple of four", []byte{4, 0x10, 0xff, 0xff, 0, 0, 0, 9, 0, 0, 0, 1, 7, 0}, "pad count 1"},
		{"version", []byte{4, 1, 0xff, 0xff, 0, 0, 0, 9, 0, 0, 0, 1}, "version 1"},
		{"opcode", []byte{0x15, 0, 0xff, 0xff, 0, 0, 0, 9, 0, 0, 0, 1}, "unknown opcode"},
		{"extension cut", []byte{10, 0, 0xff, 0xff, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0}, "behind the headers"},
		{"no BTH", []byte{4, 0, 0xff, 0xff, 0, 0, 0, 9}, "no room"},
	} {
		ip := packet(c.udp)
		if _, err := check(ip); c.verdict == "" && err != nil || c.verdict != "" && (err == nil || !strings.Contains(err.Error(), c.verdict)) {
			t.Errorf("%s: verdict %v, expected %q", c.name, err, c.verdict)
		}
		if _, err := check(ip[:len(ip)-1]); err == nil || !strings.Contains(err.Error(), "snap length") {
			t.Errorf("%s, cut: verdict %v", c.name, err)
		}
	}
}

// packet wraps what stands behind a UDP header in an IPv4 packet with an ICRC.
func packet(udp []byte) []byte {
	n := len(udp) + 4
	ip := []byte{0x45, 0, 0, byte(28 + n), 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
		0xc0, 1, rocePort >> 8, rocePort & 0xff, 0, byte(8 + n), 0, 0}
	ip = append(ip, udp...)
	return binary.LittleEndian.AppendUint32(ip, icrcOf(ip, 20))
}

func TestRunRefuses(t *testing.T) {
	dir := t.TempDir()
	text, empty := filepath.Join(dir, "text"), filepath.Join(dir, "empty.pcap")
	head, err := os.ReadFile(filepath.Join(captures, "verbs-ops.pcap"))
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{text: []byte("this is a text and no capture"), empty: head[:24]} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		files  []string
		status int
	}{
		{"no file given", nil, 2},
		{"no such file", []string{filepath.Join(dir, "none")}, 2},
		{"no capture", []string{text}, 2},
		{"nothing to verify", []string{empty}, 1},
	} {
		var out, errs bytes.Buffer
		if status := run(c.files, &out, &errs); status != c.status {
			t.Errorf("%s: exit status %d, expected %d: %s%s", c.name, status, c.status, &out, &errs)
		}
	}
}

func TestCRC32(t *testing.T) {
	const checkValue = 0xcbf43926 // of the CRC catalogue, for "123456789"
	if got := ieee([]byte("123456789")); got != checkValue {
		t.Errorf("CRC is %#x, expected %#x", got, checkValue)
	}
	if got, want := ieee([]byte("ring")), crc32.ChecksumIEEE([]byte("ring")); got != want {
		t.Errorf("CRC is %#x, expected %#x", got, want)
	}
}
