package pair

import (
	"testing"

	"ringcli/trace"
	"ringcli/verbs"
)

func TestSpans(t *testing.T) {
	last := int64(0) // when the youngest span of an earlier test began
	for _, e := range trace.Record().Events {
		last = max(last, e.Start)
	}
	var s spans
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
