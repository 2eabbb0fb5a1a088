package timeline

import (
	"bytes"
	"testing"

	"ringcli/trace"
	"ringcli/trace/align"
)

// FuzzRead gives files to everything that takes one: whatever they hold, there
// is an error or a result, and what was read can be written and read again.
func FuzzRead(f *testing.F) {
	trace.NewKind(trace.Ring, trace.BringUpName, "$step").Span(trace.Now(), trace.Intern("open"), 0, 0, 0)
	trace.NewKind(trace.Wire, "packet sent", "$opcode", "qpn", "psn", "bytes").Instant(trace.Intern("SEND_ONLY"), 17, 1<<24-1, ^uint64(0))
	trace.NewKind(trace.Collective, trace.OperationName, "$op", "seq", "bytes", "$protocol").Span(trace.Now(), trace.Intern("all-reduce"), 1, 4096, trace.Intern("a \"protocol\" <&> \x1b ä"))
	trace.AddClockSample(3, trace.Clock(), -5_000_000, 40_000)
	trace.Warn(trace.Ring, "neighbour is \x1b slow")
	for _, list := range [][]trace.Recording{{trace.Record()}, fourRanks()} {
		var b bytes.Buffer
		if err := trace.WriteRecordings(&b, list); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		list, err := trace.Read(bytes.NewReader(file))
		if err != nil {
			return
		}
		_ = show(&bytes.Buffer{}, list, 80, false) // there may be no operation
		var b bytes.Buffer
		if err := trace.WriteRecordings(&b, list); err != nil {
			t.Fatal(err)
		}
		if _, err := trace.Read(&b); err != nil {
			t.Fatal(err)
		}
		for i := range list {
			list[i].Aligned = false // align.Merge takes only what is not
		}
		m, err := align.Merge(list)
		if err != nil {
			return
		}
		if err := m.Write(&bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
	})
}
