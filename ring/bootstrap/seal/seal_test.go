package seal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"ringcli/configs/usage"
)

func token(t testing.TB, secret string) *Token {
	t.Helper()
	k, err := New([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

const (
	oneSecret     = "a secret of some length"
	anotherSecret = "another secret, as long"
)

func TestTokenIsHidden(t *testing.T) {
	k := token(t, oneSecret)
	text, err := json.Marshal(map[string]any{"token": k})
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{fmt.Sprint(k), fmt.Sprintf("%v %+v %#v %s %q", k, k, k, k, k), fmt.Sprintf("%+v", struct{ Token *Token }{k}), string(text)} {
		if !strings.Contains(shown, hidden) && !strings.Contains(shown, "0x") || strings.Contains(shown, string(k.key)) {
			t.Errorf("shown as %s", shown)
		}
	}
	if _, err := New([]byte("short")); !errors.Is(err, usage.Err) || !strings.Contains(err.Error(), "5 bytes") {
		t.Errorf("a short token: %v", err)
	}
	if a, b := Random(), Random(); bytes.Equal(a, b) || len(a) < 2*minToken {
		t.Errorf("random tokens of %d bytes", len(a))
	}
}

// pipeline is what one end writes, and the other is given.
type pipeline struct {
	net.Conn
	bytes.Buffer
}

func (p *pipeline) Read(b []byte) (int, error)  { return p.Buffer.Read(b) }
func (p *pipeline) Write(b []byte) (int, error) { return p.Buffer.Write(b) }

// records splits what was written.
func records(b []byte) (list [][]byte) {
	for len(b) > 0 {
		n := recordHead + int(binary.BigEndian.Uint32(b)) + macLen
		list, b = append(list, b[:n]), b[n:]
	}
	return list
}

// Each change of what was written is noticed, before any of it is taken.
func TestSealed(t *testing.T) {
	k := token(t, oneSecret)
	s := &Handshake{Purpose: "hello", Sender: 0, Receiver: 1, Dialler: [32]byte{1}, Listener: [32]byte{2}}
	ends := func(s *Handshake, key *Token) (a, b net.Conn, wire *pipeline) {
		wire = &pipeline{}
		a, err := key.Seal(wire, s, Dialler, Listener)
		if err != nil {
			t.Fatal(err)
		}
		b, err = key.Seal(wire, s, Listener, Dialler)
		if err != nil {
			t.Fatal(err)
		}
		return a, b, wire
	}
	write := func(s *Handshake, key *Token) [][]byte {
		a, _, wire := ends(s, key)
		for _, text := range []string{"one", "two", "three"} {
			if _, err := io.WriteString(a, text); err != nil {
				t.Fatal(err)
			}
		}
		return records(wire.Bytes())
	}
	good := write(s, k)
	other := *s
	other.Listener[0]++
	reversed := *s
	reversed.Sender, reversed.Receiver = 1, 0
	flipped := bytes.Clone(good[1])
	flipped[recordHead] ^= 1
	shorter := append([]byte{0, 0, 0, 2}, good[1][recordHead:]...)
	long := append([]byte{0x7f, 0xff, 0xff, 0xff}, good[1][recordHead:]...)
	for _, c := range []struct {
		name    string
		records [][]byte
		want    string
	}{
		{"as written", good, "onetwothree"},
		{"doubled", [][]byte{good[0], good[0]}, "one"},
		{"exchanged", [][]byte{good[1], good[0]}, ""},
		{"one left out", [][]byte{good[0], good[2]}, "one"},
		{"changed", [][]byte{good[0], flipped, good[2]}, "one"},
		{"length changed", [][]byte{good[0], shorter}, "one"},
		{"2 GiB", [][]byte{good[0], long}, "one"},
		{"of another connection", [][]byte{good[0], write(&other, k)[1]}, "one"},
		{"of other ranks", [][]byte{good[0], write(&reversed, k)[1]}, "one"},
		{"of another token", [][]byte{good[0], write(s, token(t, anotherSecret))[1]}, "one"},
	} {
		_, b, wire := ends(s, k)
		wire.Buffer.Write(bytes.Join(c.records, nil))
		got, err := io.ReadAll(b)
		if string(got) != c.want || (c.name == "as written") != (err == nil) || err != nil && !errors.Is(err, ErrForged) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %q, %v; expected %q", c.name, got, err, c.want)
		}
	}
	// What an end has written itself does not come back as the other's.
	_, b, wire := ends(s, k)
	if _, err := io.WriteString(b, "one"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(b); !errors.Is(err, ErrForged) {
		t.Errorf("reflected: %q, %v, of %d bytes", got, err, wire.Len())
	}
}

// Whatever comes in the place of sealed records, no byte is taken that the other end has
// not written there.
func FuzzSealed(f *testing.F) {
	k := token(f, oneSecret)
	s := &Handshake{Purpose: "hello", Receiver: 1, Dialler: [32]byte{1}, Listener: [32]byte{2}}
	wire := &pipeline{}
	out, err := k.Seal(wire, s, Dialler, Listener)
	if err != nil {
		f.Fatal(err)
	}
	const text = "one and two and three"
	for word := range strings.SplitAfterSeq(text, " ") {
		if _, err := io.WriteString(out, word); err != nil {
			f.Fatal(err)
		}
	}
	good := bytes.Clone(wire.Bytes())
	f.Add(good)
	f.Add(good[20:])
	f.Add(append(bytes.Clone(good[:24]), good...))
	f.Add([]byte("\x7f\xff\xff\xff"))
	f.Add(make([]byte, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := k.Seal(&pipeline{Buffer: *bytes.NewBuffer(b)}, s, Listener, Dialler)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(in)
		if !strings.HasPrefix(text, string(got)) || err == nil && !bytes.HasPrefix(good, b) {
			t.Errorf("%q is read as %q, %v", b, got, err)
		}
	})
}
