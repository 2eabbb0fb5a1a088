package lab

import (
	"bytes"
	"testing"

	"ringcli/ring/bootstrap"
)

// Whatever comes over the connection of two ends is a report or an error.
func FuzzReport(f *testing.F) {
	for _, r := range []report{
		{Version: controlVersion, Phase: "x"}, {Version: controlVersion, Phase: "x", Error: "no", Gone: true, Status: 12},
		{Version: controlVersion, Phase: "exchange", Info: &ConnInfo{}}, {Version: 9},
	} {
		b, err := bootstrap.Encode(frameType, 0, 1, 0, 1, r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("SSH-2.0-x\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := readReport(bytes.NewReader(b))
		if err == nil && r.Version != controlVersion {
			t.Errorf("%q is a report of version %d", b, r.Version)
		}
	})
}
