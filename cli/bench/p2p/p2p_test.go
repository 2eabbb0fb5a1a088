package p2p

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"ringcli/cli/bench/corruption"
	"ringcli/cli/exit"
	"ringcli/verbs"
)

func TestMergeP2P(t *testing.T) {
	none, wrong := uint64(0), uint64(3)
	first := &corruption.WrongElement{Rank: 1, Offset: 5, Got: "0x00", Want: "0x01"}
	r := merge([]P2PResult{{Op: "WRITE", Bytes: 64, BW: 1, Wrong: &none}, {Wrong: &wrong, First: first}, {}})
	if r.OK || *r.Wrong != 3 || r.First != first || r.BW != 1 {
		t.Errorf("%+v", r)
	}
	if err := r.verdict(); exit.Code(err) != exit.Critical || !strings.Contains(err.Error(), "3 wrong bytes, the first at rank 1, element 5: got 0x00, want 0x01") {
		t.Errorf("%v", err)
	}
	if r := merge([]P2PResult{{}, {}}); !r.OK || r.Wrong != nil || r.verdict() != nil {
		t.Errorf("unchecked: %+v", r)
	}
}

func TestP2PVerbs(t *testing.T) {
	v := verbsFlag(pflag.NewFlagSet("", pflag.ContinueOnError))
	if err := v.Set("send, WRITE"); err != nil || v.String() != "send,write" || !slices.Equal(*v.Value, []measured{measured(verbs.OpSend), measured(verbs.OpWrite)}) {
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
