package exec

import (
	"log/slog"

	"ringcli/collective/plan"
	"ringcli/ring/message"
	"ringcli/trace"
)

// What the flight recorder gets. A segment leaves one rank and arrives at its
// right neighbour under the same operation number and position, so that the
// two spans of a segment find each other; no receive ends before its send began.
//
//	operation        a pass over the ring; an all-reduce with --sync makes three. Or
//	                 a script over a mesh
//	step             a segment's width of the pipeline goes on by one rank; the
//	                 steps of an operation follow one another without a gap. In a
//	                 script, a move that is no send
//	segment send     the WRITE is posted, until it completes; rendezvous-read: the
//	                 RTS goes, until FIN comes
//	segment receive  through a slot: known, until reduced or copied out of it;
//	                 receiver-initiated: the instant when it is known to be in its place;
//	                 rendezvous-write: the CTS goes, until the WRITE is here;
//	                 rendezvous-read: the READ is posted, until it completes
//	segment reduce   the CPU reduces it, or copies it out of a slot
//	segment awaited  the operation failed before this segment was received
//
// All are recorded at their end, from time stamps that lie where the pass keeps
// its other state. A reading of the clock costs more than a record, so what
// happens together shares one: the completions of one poll, and the work that
// follows them at once.
var (
	operationSpan = trace.NewKind(trace.Collective, trace.OperationName, "$op", "seq", "bytes", "$protocol") // or algorithm, see carrierText
	stepSpan      = trace.NewKind(trace.Collective, trace.StepName, "seq", "phase", "step", "bytes")
	sendSpan      = trace.NewKind(trace.Collective, trace.SegmentSendName, "seq", "position", "bytes", "peer")
	receiveSpan   = trace.NewKind(trace.Collective, trace.SegmentReceiveName, "seq", "position", "bytes", "peer")
	reduceSpan    = trace.NewKind(trace.Collective, trace.SegmentReduceName, "seq", "position", "bytes")
	awaitedSpan   = trace.NewKind(trace.Collective, "segment awaited", "seq", "position", "bytes", "peer")
)

// The messages beside the data, as instants, when the events of the collective
// are traced: each costs a system call anyway, but four a segment would push
// the spans out of the recorder.
var (
	sentMessage     = messageKinds("sent")
	receivedMessage = messageKinds("received")
)

func messageKinds(what string) (kinds [kindWritten + 1]trace.Kind) {
	for k := kindRTS; k <= kindWritten; k++ {
		kinds[k] = trace.NewKind(trace.Collective, messageNames[k]+" "+what, "seq", "position", "bytes", "peer")
	}
	return kinds
}

// recordMessage records a message of this package's own.
func recordMessage(kinds *[kindWritten + 1]trace.Kind, h *message.Header, peer int) {
	if trace.Enabled(trace.Collective) && h.Kind >= kindRTS && h.Kind <= kindWritten {
		kinds[h.Kind].Instant(h.Seq, uint64(h.Segment), uint64(h.Length), uint64(peer))
	}
}

// Interned once, since that takes a lock.
var (
	operationTexts = interned[plan.Operation](len(plan.Operations()) + 1) // and the barrier
	protocolTexts  = interned[plan.Protocol](len(plan.Protocols()))
	algorithmTexts = interned[plan.Algorithm](len(plan.Algorithms()))
)

func interned[T interface {
	~uint8
	String() string
}](n int) []uint64 {
	texts := make([]uint64, n)
	for i := range texts {
		texts[i] = trace.Intern(T(i).String())
	}
	return texts
}

// timeline is when the things began that a pass has under way; 0 is that the
// recorder was off.
type timeline struct {
	now       trace.Stamp // read since the last post; 0: was not
	begun     trace.Stamp
	step      trace.Stamp // the step that runs
	stepBytes uint64      // received in it
}

// RecordOperation records a call that ran, or failed, on this rank.
func RecordOperation(begun, end trace.Stamp, k *plan.Call, seq uint64) {
	operationSpan.SpanAt(begun, end, operationTexts[k.Op], seq, uint64(k.Count*k.Type.Size()), carrierText(k))
}

// TraceStart and TraceEnd trace an operation, if that is wanted.
func TraceStart(number uint64, k *plan.Call) {
	if trace.Enabled(trace.Collective) {
		trace.Debug(trace.Collective, "operation starts", slog.Uint64("number", number), slog.String("call", k.String()),
			slog.String("algorithm", k.Algorithm.String()), slog.String("protocol", k.Protocol.String()))
	}
}

func TraceEnd(number uint64) {
	if trace.Enabled(trace.Collective) {
		trace.Debug(trace.Collective, "operation ends", slog.Uint64("number", number))
	}
}

// carrierText is the protocol round the ring, which has several, and of the other
// algorithms, which are eager, the name.
func carrierText(k *plan.Call) uint64 {
	if k.Algorithm == plan.AlgorithmRing {
		return protocolTexts[k.Protocol]
	}
	return algorithmTexts[k.Algorithm]
}

// recordStep ends the step that a transfer is part of and begins the next. In
// all-reduce the second half of the transfers gathers.
func (p *pass) recordStep(end trace.Stamp, transfer int) {
	phase, first := 0, 0
	switch scatters := p.Ranks - 1; {
	case p.Program.Chain:
		if !p.call.Op.Reduces() {
			phase = 1
		}
	case p.Program.Steps[0].Chunk == p.Program.Rank: // it begins with its own chunk: all-gather
		phase = 1
	case transfer >= scatters:
		phase, first = 1, scatters
	}
	p.nextStep(end, phase, transfer-first)
}

// nextStep ends a step of a phase and begins the next.
func (f *flow) nextStep(end trace.Stamp, phase, step int) {
	stepSpan.SpanAt(f.step, end, f.seq, uint64(phase), uint64(step), f.stepBytes)
	f.step, f.stepBytes = end, 0
}

// recordSlot records that n bytes came in the oldest slot of a channel. Of a peer that
// was ahead the slot may have come before the operation began here.
func (f *flow) recordSlot(ch *channel, end trace.Stamp, position, n int) {
	if known := ch.since[ch.taken%ch.slots]; known != 0 {
		receiveSpan.SpanAt(max(known, f.begun), end, f.seq, uint64(position), uint64(n), uint64(ch.edge.Peer))
	}
}

// recordWork records what was done with the segment that is processed now, and
// its step if it is the last of it. The last step of all ends with the pass.
func (p *pass) recordWork(slotted, reduces bool, transfer, n int, last bool) {
	if p.now == 0 {
		return
	}
	p.stepBytes += uint64(n)
	last = last && p.Processed+1 < p.Incoming
	if !slotted && !reduces && !last {
		return
	}
	begun, end := p.now, trace.Now()
	p.now = end
	if slotted || reduces {
		reduceSpan.SpanAt(begun, end, p.seq, uint64(p.Processed), uint64(n), 0)
		p.x.Times.Reduced(begun, end)
	}
	if slotted {
		p.recordSlot(p.left.at(p.Processed), end, p.Processed, n)
	}
	if last {
		p.recordStep(end, transfer)
	}
}

func (p *pass) recordAwaited(since, end trace.Stamp, position int) {
	awaitedSpan.SpanAt(since, end, p.seq, uint64(position), uint64(p.Arriving(position)), uint64(p.left.peer()))
}

// recordOpen records what is open in the pass when it ends.
func (p *pass) recordOpen(end trace.Stamp) {
	for i := p.Sent; i < p.Posted; i++ {
		sendSpan.SpanAt(p.sends[i%plan.MaxDepth], end, p.seq, uint64(i), uint64(p.Leaving(i)), uint64(p.right.peer()))
	}
	for i := p.Arrived; i < p.Granted; i++ {
		p.recordAwaited(p.receives[i%plan.MaxDepth], end, i)
	}
	if !p.call.Protocol.Handshakes() && p.Processed < p.Incoming && p.left.at(p.Processed).head() == nil {
		p.recordAwaited(p.step, end, p.Processed)
	}
	transfer, _, _ := p.At(min(p.Processed, p.Positions()-1))
	p.recordStep(end, transfer)
}
