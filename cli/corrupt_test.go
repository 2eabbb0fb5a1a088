package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"ringcli/collective"
)

// corrupt names the environment variable that has a test binary which is ringcli
// damage what arrives at a rank: flip@RANK one bit of the first segment of each
// operation, swap@RANK the first segment's bytes in the second's place.
const corrupt = "RINGTEST_CORRUPT"

// corruptOf is session.Options.Corrupt; nil where nothing is to be damaged.
func corruptOf() func(rank int) func(collective.Operation, int, []byte) {
	kind, at, given := strings.Cut(os.Getenv(corrupt), "@")
	if !given {
		return nil
	}
	return func(rank int) func(collective.Operation, int, []byte) {
		if at != fmt.Sprint(rank) {
			return nil
		}
		var first []byte
		return func(_ collective.Operation, segment int, payload []byte) {
			switch {
			case len(payload) == 0:
			case kind == "flip" && segment == 0:
				payload[len(payload)-1] ^= 0x80 // a sign: no rounding hides it
			case kind == "swap" && segment == 0:
				first = append(first[:0], payload...)
			case kind == "swap" && segment == 1:
				copy(payload, first)
			}
		}
	}
}

// finishCorrupted is finish with damage.
func finishCorrupted(t *testing.T, damage string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := program(t, args...)
	p.Env = append(p.Env, corrupt+"="+damage)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	code = p.end(t, hung)
	return code, p.stdout.String(), p.stderr.String()
}
