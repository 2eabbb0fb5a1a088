package collective

import (
	"context"
	"fmt"
	"log/slog"

	"ringcli/collective/program"
	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/ring/diagnose"
	"ringcli/ring/message"
	"ringcli/trace"
	"ringcli/verbs/memory"
)

// pass is the engine of the ring: it runs one program.
type pass struct {
	*flow
	left, right *channel    // the same where two ranks share one
	both        [2]*channel // of the ring
	counts
	emptied uint64           // receiver-initiated: slots that the right neighbour is known to have emptied
	owners  [maxSlots]remote // receiver-initiated: by transfer, the receive buffer of the rank where its chunk set out
	reading int              // READs in flight

	clearance                  [2 * MaxDepth]remote
	staging                    vector // landings, as many as depth, then the partial results
	partialBase, stagingStride uint64 // address; bytes of one buffer

	landings    sums                  // of segments that lie in their places, if they are verified
	sends       [MaxDepth]trace.Stamp // by position: when they were posted
	receives    [MaxDepth]trace.Stamp // by position; of slots the channel keeps them
	phaseLogged bool
}

// remote is memory of another rank.
type remote struct {
	addr uint64
	rkey uint32
}

func (p *pass) init(c *Comm) {
	p.flow = &c.flow
	p.left, p.right = c.channels[ring.Left], c.channels[ring.Right]
	p.left.rts = make([]message.Header, maxRTS)
	p.both = [2]*channel{p.left, p.right}
	p.prog = program.Program{Rank: c.rank, Size: c.size, Steps: make([]program.Step, 0, 2*c.size)}
}

// start makes the pass ready to run a call.
func (p *pass) start(ctx context.Context, k *Call, in, out vector, fill func(*program.Program)) error {
	comm := p.c
	p.layOut(k, fill)
	p.reading, p.phaseLogged = 0, false
	p.left, p.right = p.both[0], p.both[1]
	if k.Protocol == ReceiverInitiated && comm.size == 2 {
		// Both directions on one queue pair: what acknowledges rides behind data.
		p.left = p.both[1-comm.rank]
		p.right = p.left
	}
	if k.Verify && k.Protocol != Eager {
		p.landings.room(comm.size, k.Depth)
	}
	p.emptied = p.right.filled
	if err := p.begin(ctx, p, k, in, out); err != nil {
		return err
	}
	p.uses, p.rendezvous = p.both[:], p
	p.stagingStride = (uint64(k.Segment) + 63) / 64 * 64
	staging, err := comm.grow(&comm.staging, (uint64(k.Depth)+p.partials)*p.stagingStride)
	if err != nil {
		return err
	}
	p.staging = vector{base: staging.addr, keys: staging.reg.Keys()}
	p.partialBase = staging.addr + uint64(k.Depth)*p.stagingStride
	return nil
}

// state is done when messages and credits have come and gone, too: no completion of
// this operation is left for others who poll the queue, such as a ping.
func (p *pass) state() state {
	left, right := p.left, p.right
	switch {
	case !p.through():
		return running
	case p.sent == p.total && left.outstanding == 0 && right.outstanding == 0 && (p.call.Protocol == ReceiverInitiated || right.credited()):
		return done
	}
	return over
}

func (p *pass) progress() string {
	return fmt.Sprintf("%d of %d segments had come from rank %d (left), %d of %d had gone to rank %d (right)",
		max(p.processed, p.arrived), p.total, p.left.edge.Peer, p.sent, p.total, p.right.edge.Peer)
}

// phase is what a position is part of.
func (p *pass) phase(position int) string {
	if position >= p.total || !p.call.Op.onVectors() {
		return ""
	}
	transfer, _, _ := p.At(position)
	if p.prog.Steps[transfer+1].Do&program.DoReduce != 0 {
		return OpReduceScatter.String()
	}
	return OpAllGather.String()
}

func (p *pass) where(place *diagnose.Place) {
	left, right := p.left.edge.Peer, p.right.edge.Peer
	await := func(from int, item diagnose.Item, number int, what string) {
		place.Awaits = append(place.Awaits, diagnose.Await{From: from, Item: item, Number: number, Phase: p.phase(number), Segment: number, What: what})
	}
	gave := func(to int, item diagnose.Item, count int) {
		place.Gave = append(place.Gave, diagnose.Given{To: to, Item: item, Count: count})
	}
	came := max(p.arrived, p.processed+int(p.left.arrived-p.left.taken))
	read, write := p.call.Protocol == RendezvousRead, p.call.Protocol == RendezvousWrite
	switch {
	case p.processed >= p.total:
	case p.granted > p.arrived && read:
		await(left, diagnose.Answer, p.arrived, fmt.Sprintf("the data of segment %d, for which it had its READ request", p.arrived))
	case p.granted > p.arrived:
		await(left, diagnose.Data, p.arrived, fmt.Sprintf("the data of segment %d, for which it had its CTS", p.arrived))
	case p.arrived > p.processed || p.left.head() != nil:
	case read || write:
		await(left, diagnose.RTS, p.processed, fmt.Sprintf("segment %d", p.processed))
	default:
		await(left, diagnose.Data, p.processed, fmt.Sprintf("segment %d", p.processed))
	}
	switch {
	case p.sent >= p.total:
	case p.posted > p.sent && read:
		await(right, diagnose.FIN, p.sent, fmt.Sprintf("the FIN of segment %d", p.sent))
	case p.posted > p.sent:
		await(right, diagnose.Receipt, p.sent, fmt.Sprintf("the acknowledgement of segment %d", p.sent))
	case p.announced > p.cleared && write:
		await(right, diagnose.CTS, p.cleared, fmt.Sprintf("the CTS of segment %d", p.cleared))
	}
	switch p.call.Protocol {
	case ReceiverInitiated:
		gave(right, diagnose.Data, p.posted)
	case Eager:
		gave(right, diagnose.Data, p.posted)
		gave(left, diagnose.Credit, int(p.left.taken-p.left.taken%creditBatch(p.left.slots)))
		if !p.right.credited() {
			place.Awaits = append(place.Awaits, diagnose.Await{
				From: right, Item: diagnose.Credit, Number: int(p.right.freed), Segment: -1,
				What: fmt.Sprintf("credits for %d slots", p.right.filled-p.right.freed),
			})
		}
	case RendezvousWrite:
		gave(right, diagnose.RTS, p.announced)
		gave(right, diagnose.Data, p.posted)
		gave(left, diagnose.CTS, p.granted)
	case RendezvousRead:
		gave(right, diagnose.RTS, p.announced)
		gave(left, diagnose.FIN, p.arrived)
	}
	gave(left, diagnose.Receipt, came)
}

// wroteInPlace notes that the left neighbour wrote a segment into its place.
func (p *pass) wroteInPlace(ch *channel, position int) error {
	if p.call.Protocol == ReceiverInitiated {
		return p.resultWritten(ch, position)
	}
	if ch != p.left || position != p.arrived || p.arrived == p.granted {
		return fmt.Errorf("%w: %s wrote segment %d into place: expected %d of %d that %s was cleared for",
			ErrProtocol, ch, position, p.arrived, p.granted, p.left)
	}
	p.landed()
	return nil
}

// answered acts on a CTS or FIN of the right neighbour.
func (p *pass) answered(ch *channel, h message.Header) bool {
	switch {
	case ch != p.right:
		return false
	case h.Kind == kindCTS && int(h.Segment) == p.cleared && p.cleared < p.announced:
		p.clearance[p.cleared%len(p.clearance)] = remote{h.Addr, h.RKey}
		p.cleared++
		return true
	case h.Kind == kindFIN && int(h.Segment) == p.sent && p.sent < p.posted:
		p.delivered(ch)
		return true
	}
	return false
}

// delivered notes that the oldest posted segment is the right neighbour's, and
// its memory ours again.
func (p *pass) delivered(*channel) {
	n := uint64(p.leaving(p.sent))
	sendSpan.SpanAt(p.sends[p.sent%MaxDepth], p.now, p.seq, uint64(p.sent), n, uint64(p.right.edge.Peer))
	if p.call.Protocol != RendezvousRead { // there it takes the right neighbour's readiness as well
		p.right.out.Add(p.sends[p.sent%MaxDepth], p.now)
	}
	p.c.live.Sent += n
	p.acknowledged()
}

// landed notes that the oldest granted segment lies in its place.
func (p *pass) landed() {
	if begun := p.receives[p.arrived%MaxDepth]; begun != 0 {
		receiveSpan.SpanAt(begun, p.now, p.seq, uint64(p.arrived), uint64(p.arriving(p.arrived)), uint64(p.left.edge.Peer))
		if p.call.Protocol == RendezvousRead {
			p.left.in.Add(begun, p.now)
		}
	}
	p.arrived++
}

// work reduces or copies the next segment that is ready, at most one that costs
// anything, and reports whether it got on.
func (p *pass) work() (bool, error) {
	moved := false
	for p.processed < p.total {
		transfer, segment, width := p.At(p.processed)
		st := p.prog.Steps[transfer+1]
		lo, hi := p.Span(st.Chunk, segment)
		n := (hi - lo) * p.size
		reduces := st.Do&program.DoReduce != 0
		slotted := p.slotted(transfer)
		if !p.mayWork(st, p.reading > 0) {
			return moved, nil
		}
		data, ok, err := p.received(transfer, lo, n)
		if !ok || err != nil {
			return moved, err
		}
		if corrupt := p.c.options.Corrupt; corrupt != nil {
			corrupt(p.call.Op, p.processed, data)
		}
		if p.sums {
			if err := p.arrivedNext(data, slotted, transfer, lo); err != nil {
				return moved, err
			}
		}
		p.c.live.Received += uint64(n)
		if p.now == 0 {
			p.now = trace.Now()
		}
		switch {
		case reduces:
			p.reduce(st, data, lo)
		case slotted:
			copy(p.out.bytes(lo, n, p.size), data)
			p.c.live.CopiedAllGather += uint64(n)
		}
		p.recordWork(slotted, reduces, transfer, n, segment%p.Depth == width-1)
		p.processed++
		moved = true
		if slotted {
			p.left.take()
			if err := p.credit(); err != nil {
				return moved, err
			}
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
	own := p.in.bytes(lo, len(data), p.size)
	var result []byte
	if st.Do&program.DoCopy != 0 {
		result = p.out.bytes(lo, len(data), p.size)
	} else {
		result = memory.Bytes(p.partialBase+p.partialsMade%p.partials*p.stagingStride, len(data))
		p.partialsMade++
	}
	p.kernel(result, data, own)
	if st.Do&program.DoCopy != 0 {
		reduce.Finish(p.call.Type, p.call.Reduction, p.Ranks, result)
	}
	p.c.live.Reductions++
	if p.inFlight() {
		p.c.live.Overlapped++
	}
}

// inFlight tells whether this rank's own WRITE or READ is on the wire for sure:
// an RTS that the neighbour may not have looked at does not count.
func (p *pass) inFlight() bool {
	return p.reading > 0 || p.call.Protocol != RendezvousRead && p.posted > p.sent
}

// logPhase traces the passage from reduce-scatter to all-gather, once.
func (p *pass) logPhase() {
	if p.phaseLogged || p.call.Op.Phases() != 2 || !trace.Enabled(trace.Collective) {
		return
	}
	p.phaseLogged = true
	trace.Debug(trace.Collective, "first segment of the all-gather phase", slog.Uint64("number", p.seq))
}
