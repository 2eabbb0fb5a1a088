package pingpong

import (
	"bytes"
	"testing"

	"ringcli/ring/bootstrap/oob"
	"ringcli/verbs"
)

// Whatever a caller says is an address, which is written as it was read, or is told in a
// few words.
func FuzzAddress(f *testing.F) {
	frame, err := oob.AppendFrame(nil, &oob.Frame{Version: oob.Version, Type: "lab"})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{
		Address{LID: 1, QPN: 0xfffffe, PSN: 7, GID: verbs.GID{10: 0xff, 11: 0xff}}.wire(), frame,
		[]byte("GET / HTTP/1.0\r\n\r\n"), []byte("SSH-2.0-x\r\n"), []byte("-001:+00002:000003:"), nil,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, ok := parse(b); ok && !bytes.Equal(a.wire(), b) {
			t.Errorf("%q is read as %+v, which is written %q", b, a, a.wire())
		}
		if text := identify(b); text == "" || len(text) > 200 {
			t.Errorf("%q is %q", b, text)
		}
	})
}
