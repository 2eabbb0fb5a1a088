package ring

import (
	"strings"
	"testing"
)

// TestCorruptionWords: which bytes changed, also where a segment has none.
func TestCorruptionWords(t *testing.T) {
	for bytes, want := range map[uint64]string{8: "segment 3, bytes 64 to 71 of the vector", 0: "segment 3, without bytes, at byte 64 of the vector"} {
		e := &CorruptionError{Doing: Doing{Segment: 3}, From: 64, Bytes: bytes}
		if !strings.Contains(e.Error(), want) {
			t.Errorf("%v: expected %q", e, want)
		}
	}
}
