package exec

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"ringcli/collective/buffer"
	"ringcli/collective/plan"
	"ringcli/collective/program"
	"ringcli/collective/reduce"
	"ringcli/collective/sharedmem"
	"ringcli/collective/turns"
	"ringcli/ring"
	"ringcli/ring/diagnose"
	"ringcli/ring/message"
	"ringcli/trace"
	"ringcli/verbs/memory"
)

// pass is the engine of the ring: it runs one program.
type pass struct {
	*flow
	left, right ends    // the same where two ranks share one edge
	both        [2]ends // of the ring
	all         ends    // of both
	program.Counts
	from, cts, to turns.Counter         // what of a rendezvous lies in its place; CTS received; completed
	emptied       turns.Counter         // receiver-initiated: slots that the right neighbour is known to have emptied, with the positions between
	owners        [plan.MaxSlots]remote // receiver-initiated: by transfer, the receive buffer of the rank where its chunk set out
	reading       int                   // READs in flight

	owing *channel // whose slot was emptied, until what follows from that is posted

	clearance                  [2 * plan.MaxDepth]remote
	staging                    buffer.Vector // landings, as many as depth, then the partial results
	partialBase, stagingStride uint64        // address; bytes of one buffer

	landings    sums                       // of segments that lie in their places, if they are verified
	sends       [plan.MaxDepth]trace.Stamp // by position: when they were posted
	receives    [plan.MaxDepth]trace.Stamp // by position; of slots the channel keeps them
	phaseLogged bool
}

// remote is memory of another rank.
type remote struct {
	addr uint64
	rkey uint32
}

func (p *pass) init(x *Executor) {
	p.flow = &x.flow
	p.left, p.right = x.channels[ring.Left].turns, x.channels[ring.Right].turns
	for _, ch := range p.left {
		ch.rts = make([]message.Header, maxRTS)
	}
	p.both = [2]ends{p.left, p.right}
	p.all = slices.Concat(p.left, p.right)
	p.Program = program.Program{Rank: x.rank, Size: x.size, Steps: make([]program.Step, 0, 2*x.size)}
}

// start makes the pass ready to run a call.
func (p *pass) start(ctx context.Context, k *plan.Call, in, out buffer.Vector, fill func(*program.Program)) error {
	x := p.x
	k.LayOut(&p.Counts, fill)
	p.reading, p.owing, p.phaseLogged = 0, nil, false
	p.left, p.right = p.both[0], p.both[1]
	if k.Protocol == plan.ReceiverInitiated && x.size == 2 {
		// Both directions on one queue pair: what acknowledges rides behind data.
		p.left = p.both[1-x.rank]
		p.right = p.left
	}
	if k.Verify && k.Protocol != plan.Eager {
		p.landings.room(x.size, k.Depth)
	}
	for _, c := range []*turns.Counter{&p.from, &p.cts, &p.to, &p.emptied} {
		c.Reset(len(p.left))
	}
	for _, ch := range p.right {
		ch.emptied = ch.filled
	}
	if err := p.begin(ctx, p, k, in, out); err != nil {
		return err
	}
	p.uses, p.rendezvous = p.all, p
	p.stagingStride = (uint64(k.Segment) + 63) / 64 * 64
	staging, err := x.buffers.Grow(&x.staging, (uint64(k.Depth)+p.Partials)*p.stagingStride)
	if err != nil {
		return err
	}
	p.staging = staging.Vector()
	p.partialBase = staging.Addr() + uint64(k.Depth)*p.stagingStride
	return nil
}

// state is done when messages and credits have come and gone, too: no completion of
// this operation is left for others who poll the queue, such as a ping.
func (p *pass) state() state {
	left, right := p.left, p.right
	switch {
	case !p.Through():
		return running
	case p.Sent == p.Outgoing && left.idle() && right.idle() && (p.call.Protocol == plan.ReceiverInitiated || right.credited()):
		return done
	}
	return over
}

func (p *pass) progress() string {
	return fmt.Sprintf("%d of %d segments had come from rank %d (left), %d of %d had gone to rank %d (right)",
		max(p.Processed, p.Arrived), p.Incoming, p.left.peer(), p.Sent, p.Outgoing, p.right.peer())
}

// phase is what a position is part of.
func (p *pass) phase(position int) string {
	if position >= p.Positions() || !p.call.Op.OnVectors() {
		return ""
	}
	transfer, _, _ := p.At(position)
	return p.call.Op.Phase(p.Program.Steps[transfer+1].Do&program.DoReduce == 0).String()
}

func (p *pass) where(place *diagnose.Place) {
	left, right := p.left.peer(), p.right.peer()
	await := func(from int, item diagnose.Item, number int, what string) {
		place.Awaits = append(place.Awaits, diagnose.Await{From: from, Item: item, Number: number, Phase: p.phase(number), Segment: number, What: what})
	}
	gave := func(to int, item diagnose.Item, count int) {
		place.Gave = append(place.Gave, diagnose.Given{To: to, Item: item, Count: count})
	}
	came := max(p.Arrived, p.left.next(p.Processed))
	read, write := p.call.Protocol == plan.RendezvousRead, p.call.Protocol == plan.RendezvousWrite
	switch {
	case p.Processed >= p.Incoming:
	case p.Granted > p.Arrived && read:
		await(left, diagnose.Answer, p.Arrived, fmt.Sprintf("the data of segment %d, for which it had its READ request", p.Arrived))
	case p.Granted > p.Arrived:
		await(left, diagnose.Data, p.Arrived, fmt.Sprintf("the data of segment %d, for which it had its CTS", p.Arrived))
	case p.Processed < p.Incoming && (p.from.Has(p.Processed) || p.left.at(p.Processed).head() != nil):
	case read || write:
		await(left, diagnose.RTS, p.Processed, fmt.Sprintf("segment %d", p.Processed))
	default:
		await(left, diagnose.Data, p.Processed, fmt.Sprintf("segment %d", p.Processed))
	}
	switch {
	case p.Sent >= p.Outgoing:
	case p.Posted > p.Sent && read:
		await(right, diagnose.FIN, p.Sent, fmt.Sprintf("the FIN of segment %d", p.Sent))
	case p.Posted > p.Sent:
		await(right, diagnose.Receipt, p.Sent, fmt.Sprintf("the acknowledgement of segment %d", p.Sent))
	case p.Announced > p.Cleared && write:
		await(right, diagnose.CTS, p.Cleared, fmt.Sprintf("the CTS of segment %d", p.Cleared))
	}
	switch p.call.Protocol {
	case plan.ReceiverInitiated:
		gave(right, diagnose.Data, p.Posted)
	case plan.Eager:
		gave(right, diagnose.Data, p.Posted)
		gave(left, diagnose.Credit, p.left.credits())
		if !p.right.credited() {
			filled, freed := p.right.passed()
			place.Awaits = append(place.Awaits, diagnose.Await{
				From: right, Item: diagnose.Credit, Number: freed, Segment: -1, What: fmt.Sprintf("credits for %d slots", filled-freed),
			})
		}
	case plan.RendezvousWrite:
		gave(right, diagnose.RTS, p.Announced)
		gave(right, diagnose.Data, p.Posted)
		gave(left, diagnose.CTS, p.Granted)
	case plan.RendezvousRead:
		gave(right, diagnose.RTS, p.Announced)
		gave(left, diagnose.FIN, p.Arrived)
	}
	gave(left, diagnose.Receipt, came)
}

// wroteInPlace notes that the left neighbour wrote a segment into its place.
func (p *pass) wroteInPlace(ch *channel, position int) error {
	if p.call.Protocol == plan.ReceiverInitiated {
		return p.resultWritten(ch, position)
	}
	if next := p.left.at(position); ch != next || position != p.from.Next(ch.number()) || position >= p.Granted {
		return fmt.Errorf("%w: %s wrote segment %d into place: expected %d of %d that %s was cleared for",
			sharedmem.ErrProtocol, ch, position, p.from.Next(next.number()), p.Granted, next)
	}
	p.landed(ch)
	return nil
}

// answered acts on a CTS or FIN of the right neighbour.
func (p *pass) answered(ch *channel, h message.Header) bool {
	position := int(h.Segment)
	switch {
	case ch != p.right.at(position):
		return false
	case h.Kind == kindCTS && position == p.cts.Next(ch.number()) && position < p.Announced:
		p.clearance[position%len(p.clearance)] = remote{h.Addr, h.RKey}
		p.cts.Take(ch.number())
		p.Cleared = p.cts.Whole()
		return true
	case h.Kind == kindFIN && position == p.to.Next(ch.number()) && position < p.Posted:
		p.delivered(ch)
		return true
	}
	return false
}

// delivered notes that the oldest segment posted on a channel is the right neighbour's, and
// its memory ours again.
func (p *pass) delivered(ch *channel) {
	position := p.to.Next(ch.number())
	n := uint64(p.Leaving(position))
	sendSpan.SpanAt(p.sends[position%plan.MaxDepth], p.now, p.seq, uint64(position), n, uint64(p.right.peer()))
	if p.call.Protocol != plan.RendezvousRead { // there it takes the right neighbour's readiness as well
		ch.out.Add(p.sends[position%plan.MaxDepth], p.now)
	}
	p.x.Live.Sent += n
	p.to.Take(ch.number())
	for whole := p.to.Whole(); p.Sent < whole; {
		p.Acknowledged()
	}
}

// landed notes that the oldest segment granted on a channel lies in its place.
func (p *pass) landed(ch *channel) {
	position := p.from.Next(ch.number())
	if begun := p.receives[position%plan.MaxDepth]; begun != 0 {
		receiveSpan.SpanAt(begun, p.now, p.seq, uint64(position), uint64(p.Arriving(position)), uint64(p.left.peer()))
		if p.call.Protocol == plan.RendezvousRead {
			ch.in.Add(begun, p.now)
		}
	}
	p.from.Take(ch.number())
	p.Arrived = p.from.Whole()
}

// work reduces or copies the next segment that is ready, at most one that costs
// anything, and reports whether it got on.
func (p *pass) work() (bool, error) {
	moved := false
	for p.Processed < p.Incoming {
		transfer, segment, width := p.At(p.Processed)
		st := p.Program.Steps[transfer+1]
		lo, hi := p.Span(st.Chunk, segment)
		n := (hi - lo) * p.size
		reduces := st.Do&program.DoReduce != 0
		slotted, ch := p.InSlot(transfer), p.left.at(p.Processed)
		if !p.MayWork(st, p.reading > 0) {
			return moved, nil
		}
		data, ok, err := p.received(transfer, lo, n)
		if !ok || err != nil {
			return moved, err
		}
		if corrupt := p.x.corrupt; corrupt != nil {
			corrupt(p.call.Op, p.Processed, data)
		}
		if p.sums {
			if err := p.arrivedNext(data, slotted, transfer, lo); err != nil {
				return moved, err
			}
		}
		p.x.Live.Received += uint64(n)
		if p.now == 0 {
			p.now = trace.Now()
		}
		switch {
		case reduces:
			p.reduce(st, data, lo)
		case slotted:
			copy(p.out.Bytes(lo, n, p.size), data)
			p.x.Live.CopiedAllGather += uint64(n)
		}
		p.recordWork(slotted, reduces, transfer, n, segment%p.Depth == width-1)
		p.Processed++
		moved = true
		if slotted {
			ch.take()
			p.owing = ch
		}
		if !reduces {
			p.logPhase()
		}
		if reduces || slotted {
			return moved, nil
		}
	}
	return moved, nil
}

// reduce combines a received segment with the own contribution.
func (p *pass) reduce(st program.Step, data []byte, lo int) {
	own := p.in.Bytes(lo, len(data), p.size)
	var result []byte
	if st.Do&program.DoCopy != 0 {
		result = p.out.Bytes(lo, len(data), p.size)
	} else {
		result = memory.Bytes(p.partialBase+p.PartialsMade%p.Partials*p.stagingStride, len(data))
		p.PartialsMade++
	}
	p.kernel(result, data, own)
	if st.Do&program.DoCopy != 0 {
		reduce.Finish(p.call.Type, p.call.Reduction, p.x.size, result)
	}
	p.x.Live.Reductions++
	if p.inFlight() {
		p.x.Live.Overlapped++
	}
}

// inFlight tells whether this rank's own WRITE or READ is on the wire for sure:
// an RTS that the neighbour may not have looked at does not count.
func (p *pass) inFlight() bool {
	return p.reading > 0 || p.call.Protocol != plan.RendezvousRead && p.Posted > p.Sent
}

// logPhase traces the passage from reduce-scatter to all-gather, once.
func (p *pass) logPhase() {
	if p.phaseLogged || p.call.Op.Phases() != 2 || !trace.Enabled(trace.Collective) {
		return
	}
	p.phaseLogged = true
	trace.Debug(trace.Collective, "first segment of the all-gather phase", slog.Uint64("number", p.seq))
}
