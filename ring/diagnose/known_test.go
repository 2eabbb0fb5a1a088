package diagnose

import (
	"encoding/json"
	"testing"

	"ringcli/verbs"
)

// What is not known is "", and no value.
func TestKnown(t *testing.T) {
	type both struct {
		State Known[verbs.QPState] `json:"state"`
		Op    Known[verbs.Opcode]  `json:"op"`
		Queue Queue                `json:"queue"`
	}
	for text, want := range map[string]both{
		`{"state":"","op":"","queue":"receive"}`:          {Queue: ReceiveQueue},
		`{"state":"RESET","op":"SEND","queue":"send"}`:    {State: Is(verbs.StateReset), Op: Is(verbs.OpSend)},
		`{"state":"ERR","op":"RDMA_READ","queue":"send"}`: {State: Is(verbs.StateErr), Op: Is(verbs.OpRead)},
	} {
		b, err := json.Marshal(want)
		if err != nil || string(b) != text {
			t.Errorf("%s, %v: expected %s", b, err, text)
		}
		var back both
		if err := json.Unmarshal(b, &back); err != nil || back != want {
			t.Errorf("%+v, %v: expected %+v", back, err, want)
		}
	}
	for _, text := range []string{`{"state":"x"}`, `{"op":"x"}`, `{"queue":""}`} {
		if err := json.Unmarshal([]byte(text), new(both)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
	if unknown := (Known[verbs.QPState]{}); unknown.Is(verbs.StateReset) || !Is(verbs.StateReset).Is(verbs.StateErr, verbs.StateReset) {
		t.Error("what is not known is RESET, or RESET is not")
	}
}
