package bench

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"ringcli/cli/exit"
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
	if err := r.verdict(); exit.Code(err) != exit.Critical || !strings.Contains(err.Error(), "3 wrong bytes, the first at rank 1, element 5: got 0x00, want 0x01") {
		t.Errorf("%v", err)
	}
	if r := mergeP2P([]P2PResult{{}, {}}); !r.OK || r.Wrong != nil || r.verdict() != nil {
		t.Errorf("unchecked: %+v", r)
	}
}

func TestP2PSpans(t *testing.T) {
	last := int64(0) // when the youngest span of an earlier test began
	for _, e := range trace.Record().Events {
		last = max(last, e.Start)
	}
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
		if e.Name == "p2p read" && e.Start > last {
			found++
		}
	}
	if found != int(s.done) || s.post != s.done {
		t.Errorf("%d spans of %d messages", found, s.done)
	}
}

func TestP2PVerbs(t *testing.T) {
	v := p2pOpsFlag(pflag.NewFlagSet("", pflag.ContinueOnError))
	if err := v.Set("send, WRITE"); err != nil || v.String() != "send,write" || !slices.Equal(*v.Value, []p2pOp{p2pOp(verbs.OpSend), p2pOp(verbs.OpWrite)}) {
		t.Errorf("%v, %v", v, err)
	}
	for text, says := range map[string]string{"": "expected write, read, send", "wrte": "expected write, read, send", "read,read": "read is there twice"} {
		if err := v.Set(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
	if v.String() != "send,write" {
		t.Errorf("a refused value has changed it to %v", v)
	}
}
