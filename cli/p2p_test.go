package cli

import (
	"strings"
	"testing"

	"ringcli/cli/render"
	"ringcli/trace"
	"ringcli/verbs"
)

func TestPatternTellsBytesApart(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 4099} {
		b := make([]byte, n)
		fillPattern(b, 1, 7)
		if wrong, _, _, _ := verifyPattern(b, 1, 7); wrong != 0 {
			t.Fatalf("%d bytes: %d wrong", n, wrong)
		}
		for at := range n {
			b[at] ^= 0x10
			wrong, first, got, want := verifyPattern(b, 1, 7)
			if wrong != 1 || first != at || got != b[at] || want != b[at]^0x10 {
				t.Fatalf("byte %d of %d: %d wrong, the first at %d: 0x%x, want 0x%x", at, n, wrong, first, got, want)
			}
			b[at] ^= 0x10
		}
	}
	// Another rank's, an earlier test's, and the right bytes in the wrong place.
	b := make([]byte, 4096)
	fillPattern(b, 1, 7)
	for what, wrong := range map[string]uint64{"rank": check(b, 0, 7), "seed": check(b, 1, 8), "place": check(b[8:], 1, 7)} {
		if wrong < 3900 {
			t.Errorf("another %s: %d bytes wrong", what, wrong)
		}
	}
}

func check(b []byte, rank int, seed uint64) uint64 {
	wrong, _, _, _ := verifyPattern(b, rank, seed)
	return wrong
}

func TestMergeP2P(t *testing.T) {
	none, wrong := uint64(0), uint64(3)
	first := &WrongElement{Rank: 1, Offset: 5, Got: "0x00", Want: "0x01"}
	r := mergeP2P([]P2PResult{{Op: "WRITE", Bytes: 64, BW: 1, Wrong: &none}, {Wrong: &wrong, First: first}, {}})
	if r.OK || *r.Wrong != 3 || r.First != first || r.BW != 1 {
		t.Errorf("%+v", r)
	}
	if err := r.verdict(); ExitCode(err) != ExitCritical || !strings.Contains(err.Error(), "3 wrong bytes, the first at rank 1, element 5: got 0x00, want 0x01") {
		t.Errorf("%v", err)
	}
	if r := mergeP2P([]P2PResult{{}, {}}); !r.OK || r.Wrong != nil || r.verdict() != nil {
		t.Errorf("unchecked: %+v", r)
	}
}

func TestP2PSpans(t *testing.T) {
	var s p2pSpans
	post := func() {
		s.posted(verbs.OpRead, 64, 16)
		for range 16 {
			s.completed(trace.Now(), 1)
		}
	}
	if n := testing.AllocsPerRun(100, post); n != 0 {
		t.Errorf("%g allocations for 16 messages", n)
	}
	found := 0
	for _, e := range trace.Record().Events {
		if e.Name == "p2p read" {
			found++
		}
	}
	if found != int(s.done) || s.post != s.done {
		t.Errorf("%d spans of %d messages", found, s.done)
	}
}

// A size may take longer than the timeout: whoever only watches takes part in a
// turn for each batch. Long messages take a busy machine a few times as long; short
// ones, which change hands each time, hundreds of times.
func TestP2PBystandersWait(t *testing.T) {
	if testing.Short() {
		t.Skip("takes several seconds")
	}
	code, stdout, stderr := finish(t, "bench", "p2p", "-n", "3", "--verbs", "write", "--timeout", "2s", "-b", "1M", "-e", "1M", "--iters", "1200", "--output", "json")
	all := objects(t, stdout)
	if code != ExitOK || len(all) != 1 || all[0]["wrong"] != 0.0 || all[0]["iters"] != 1200.0 {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

func TestP2PColumnsFit(t *testing.T) {
	r := P2PResult{}
	width := len(render.Columns(r)) - 1
	for _, c := range render.Columns(r) {
		width += max(c.Width, len(c.Name))
	}
	if width > 80 || len(render.Cells(r)) != len(render.Columns(r)) {
		t.Errorf("%d columns wide, %d cells", width, len(render.Cells(r)))
	}
}
