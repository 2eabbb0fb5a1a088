package collective

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/trace"
)

// TestTrace: an operation tells when it starts, how it is going to run, when it
// comes to its second phase, and when it ends.
func TestTrace(t *testing.T) {
	w := newWorld(t, 2, ring.Options{}, nil)
	k := newKit(w, 1000, reduce.Float32, reduce.Sum)
	before := trace.Spec()
	var out bytes.Buffer
	if err := trace.SetOutput(&out, trace.Text); err != nil {
		t.Fatal(err)
	}
	if err := trace.Set("off,collective=debug"); err != nil {
		t.Fatal(err)
	}
	k.runs(1, 1000, CallOptions{Protocol: RendezvousWrite})
	if err := trace.Set(before); err != nil {
		t.Fatal(err)
	}
	if err := trace.SetOutput(os.Stderr, trace.Auto); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{
		"operation starts", `call="all-reduce of 1000 float32, sum, rendezvous-write in segments of 2000 bytes, depth 4"`,
		"algorithm=ring", "first segment of the all-gather phase", "operation ends",
	} {
		if got := strings.Count(out.String(), words); got != 2 {
			t.Errorf("%q was traced %d times by two ranks:\n%s", words, got, &out)
		}
	}
}
