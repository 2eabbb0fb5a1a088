package pair

import (
	"ringcli/trace"
	"ringcli/verbs"
)

// The flight recorder sees each message of a p2p bench from its work request to
// its completion.
var (
	spanWrite = trace.NewKind(trace.Verbs, "p2p write", "number", "bytes", "peer")
	spanRead  = trace.NewKind(trace.Verbs, "p2p read", "number", "bytes", "peer")
	spanSend  = trace.NewKind(trace.Verbs, "p2p send", "number", "bytes", "peer")
)

// spans are the sends in flight, oldest first: they complete in order
// (InfiniBand specification 1.4, volume 1, 10.8.5).
type spans struct {
	ring [Queue + 1]span
	post uint64 // sends posted
	done uint64 // sends completed
}

type span struct {
	start trace.Stamp // 0 if the recorder was off
	kind  trace.Kind
	bytes uint32
}

// posted notes n messages.
func (s *spans) posted(op verbs.Opcode, bytes uint32, n int) {
	now := trace.Now()
	kind := spanWrite
	switch op {
	case verbs.OpRead:
		kind = spanRead
	case verbs.OpSend:
		kind = spanSend
	}
	for range n {
		s.ring[s.post%uint64(len(s.ring))] = span{now, kind, bytes}
		s.post++
	}
}

// completed records the oldest.
func (s *spans) completed(now trace.Stamp, peer int) {
	m := &s.ring[s.done%uint64(len(s.ring))]
	m.kind.SpanAt(m.start, now, s.done, uint64(m.bytes), uint64(peer), 0)
	s.done++
}
