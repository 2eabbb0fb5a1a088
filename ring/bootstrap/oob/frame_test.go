package oob

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"unicode"
)

func TestFrameRoundTrip(t *testing.T) {
	in := Frame{Version: Version, Type: "info", Sender: 2, Receiver: 3, Edge: 2, Epoch: 7, Payload: json.RawMessage(`{"qpn":17}`)}
	b, err := AppendFrame(nil, &in)
	if err != nil {
		t.Fatal(err)
	}
	r := bytes.NewReader(append(b, b...))
	for range 2 {
		out, err := ReadFrame(r)
		if err != nil || out.Sender != 2 || out.Receiver != 3 || out.Epoch != 7 || string(out.Payload) != `{"qpn":17}` {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	if _, err := ReadFrame(r); !errors.Is(err, io.EOF) {
		t.Errorf("%v: expected io.EOF between frames", err)
	}
	for n := 1; n < len(b); n++ {
		if _, err := ReadFrame(bytes.NewReader(b[:n])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("frame cut to %d bytes: %v", n, err)
		}
	}
}

func TestFrameTooLong(t *testing.T) {
	big, err := json.Marshal(strings.Repeat("x", MaxFrame))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := AppendFrame(nil, &Frame{Payload: big}); err == nil {
		t.Error("a frame beyond MaxFrame was made")
	}
	head := binary.BigEndian.AppendUint32([]byte(magic), MaxFrame+1)
	if _, err := ReadFrame(bytes.NewReader(head)); !strings.Contains(fmt.Sprint(err), "more than") {
		t.Errorf("%v", err)
	}
}

// A header that claims the most and brings nothing costs next to nothing.
func TestFrameHeaderAloneAllocatesLittle(t *testing.T) {
	head := binary.BigEndian.AppendUint32([]byte(magic), MaxFrame)
	const rounds = 200
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		if _, err := ReadFrame(bytes.NewReader(head)); err == nil {
			t.Fatal("an empty frame was read")
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / rounds; each > 8192 {
		t.Errorf("%d bytes for a header without a frame: expected 8192 at most", each)
	}
}

func TestIdentify(t *testing.T) {
	for head, want := range map[string]string{
		pingpong: "ibv_rc_pingpong (52-byte",
		"0000:0000:000011:0a0b0c:00000000:00007f0000000000:00000000:":                                                     "perftest, such as ib_write_bw (59-byte",
		"0000:0000:000011:0a0b0c:00000000:00007f0000000000:00000000:00:00:00:00:00:00:00:00:00:00:ff:ff:7f:00:00:01:\x00": "perftest, such as ib_write_bw (108-byte",
		perftest:                        "perftest 6.06, such as ib_write_bw (16-byte version)",
		"6.06\x00":                      "unknown program", // of another length
		"GET / HTTP/1.1\r\nHost: a\r\n": `HTTP program ("GET / HTTP/1.1")`,
		"HTTP/1.1 400 Bad Request\r\n":  "HTTP",
		"\x16\x03\x01\x02\x00\x01\x00":  "TLS",
		"SSH-2.0-OpenSSH_9.2p1\r\n":     `SSH program ("SSH-2.0-OpenSSH_9.2p1")`,
		"\x00\x01\x02":                  "unknown program",
		"":                              "says nothing",
	} {
		if got := Identify([]byte(head)); !strings.Contains(got, want) {
			t.Errorf("%q is %q: expected %q", head, got, want)
		}
	}
}

// perftest is what ib_write_bw 6.06 and its like send first, at either end.
const perftest = "6.06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// pingpong is what ibv_rc_pingpong sends first, as a client.
const pingpong = "0000:000011:0a0b0c:00000000000000000000ffff7f000001\x00"

// What a stranger says drives no terminal, however it is spelt.
func TestFramesDriveNoTerminal(t *testing.T) {
	for said, want := range map[string]string{
		`a\u001b[2Jb\u009b1m\u0007`: "a\ufffd[2Jb\ufffd1m\ufffd", "x\u009b2J\x7f": "x\u00a02J?", `\b\r\f`: "\t\t\t",
		`one\ntwo\t\u000a\u0009`: "one\ntwo\t\n\t", `\\u001b`: `\u001b`, `\u00e9 \ud83d\ude00 é`: "é 😀 é", `\u`: "",
	} {
		b := fmt.Appendf(nil, `{"version":1,"type":"hello","payload":"%s"}`, said)
		f, err := ReadFrame(bytes.NewReader(append(binary.BigEndian.AppendUint32([]byte(magic), uint32(len(b))), b...)))
		if err != nil {
			if want != "" {
				t.Errorf("%q: %v", said, err)
			}
			continue
		}
		if got, err := Decode[string](f); err != nil || got != want {
			t.Errorf("%q is %q, %v: expected %q", said, got, err, want)
		}
	}
}

func FuzzReadFrame(f *testing.F) {
	ok, err := AppendFrame(nil, &Frame{Version: 1, Type: "hello", Payload: json.RawMessage(`{}`)})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{ok, ok[:9], []byte(pingpong), []byte("GET / HTTP/1.1\r\n\r\n"), []byte("RNGC\xff\xff\xff\xff"), []byte("RNGC\x00\x00\x00\x02{}")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		frame, err := ReadFrame(r)
		if err != nil {
			_ = err.Error()
			_ = Identify(b)
			return
		}
		if used := len(b) - r.Len(); used != headerSize+int(binary.BigEndian.Uint32(b[4:])) {
			t.Fatalf("read %d bytes", used)
		}
		if text, err := Decode[string](frame); err == nil && strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
			t.Fatalf("%q drives a terminal", text)
		}
		again, err := AppendFrame(nil, frame)
		if err != nil {
			return // escaping can make a frame longer than it was
		}
		back, err := ReadFrame(bytes.NewReader(again))
		if err != nil || back.Sender != frame.Sender || back.Type != frame.Type || back.Epoch != frame.Epoch {
			t.Fatalf("%+v became %+v, %v", frame, back, err)
		}
	})
}
