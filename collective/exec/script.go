package exec

import (
	"context"
	"fmt"

	"ringcli/collective/reduce"
	"ringcli/collective/script"
	"ringcli/collective/sharedmem"
	"ringcli/ring/device"
	"ringcli/ring/diagnose"
	"ringcli/trace"
	"ringcli/verbs/memory"
)

// scriptRun is the engine of the algorithms other than the ring: it plays a script
// over the edges of a mesh, eagerly. Up to depth groups of segments are on their
// way through the script at a time. None gets ahead of the one before it, neither
// in what it posts nor in what it works, so that the messages on an edge are in
// the order of the groups at both ends.
type scriptRun struct {
	*flow
	*Role
	script.Walk
	ctx       context.Context
	job       *Job
	processed int // segments received and worked

	memory   uint64      // of the partial results
	keys     device.Keys // of memory
	stride   uint64      // bytes of one group's
	areaBase []uint64    // where in that each area begins
}

// flight is a WRITE that was posted to a peer.
type flight struct {
	begun        trace.Stamp
	group, bytes int
	seq          uint64 // of its operation, and its number there: if it is detached
	message      int
}

// stream is the messages of one operation on the channel of a mesh. They are numbered
// from 0 in each direction.
type stream struct {
	posted, sent int // sent: completed
	took         int // worked
	flights      []flight
}

// start makes the run ready to run a call.
func (x *scriptRun) start(ctx context.Context, j *Job) error {
	k, in, out, r := &j.Call, j.ScriptIn, j.ScriptOut, j.Role
	x.ctx, x.job, x.Role, x.processed = ctx, j, r, 0
	x.SetOut(&r.Script, k.Count, k.Segment/k.Type.Size(), k.Depth, in.Base == out.Base)
	for _, ch := range r.used {
		ch.stream.posted, ch.stream.sent, ch.stream.took = 0, 0, 0
	}
	if err := x.begin(ctx, x, k, in, out); err != nil {
		return err
	}
	x.uses = r.used
	// What is sent is copied first, and not waited for.
	x.detached = x.Depth > 1 && k.Count*k.Type.Size() <= detachMost
	const line = 64
	x.stride, x.areaBase = 0, x.areaBase[:0]
	for _, area := range r.Areas {
		x.areaBase = append(x.areaBase, x.stride)
		x.stride += uint64(x.Room(area)*x.size+line-1) / line * line
	}
	staging, err := x.x.buffers.Grow(&x.x.staging, max(1, x.stride*uint64(min(x.Depth, x.Groups))))
	if err != nil {
		return err
	}
	x.memory, x.keys = staging.Addr(), staging.Vector().Keys
	return nil
}

// behind does what follows in the memory of this host. What was sent may not have come yet.
func (x *scriptRun) behind() (bool, error) {
	if x.job.Behind == nil {
		return false, nil
	}
	if err := x.x.Token.Progress(); err != nil {
		return false, fmt.Errorf("poll: %w", err)
	}
	return true, x.perform(x.job.Behind)
}

// perform performs what the ranks of this host do in its memory.
func (x *scriptRun) perform(s Stage) (err error) {
	if s == nil {
		return nil
	}
	x.step, err = s.Perform(x.ctx, x.step)
	return err
}

// state is done when all groups are through, and the peers have what was written, unless it is
// detached. Credits may still be on their way, to this rank, whoever polls next defers them, and
// from it: a peer that has nothing left to do here answers when it polls for something else.
func (x *scriptRun) state() state {
	switch {
	case !x.Made():
		return running
	case x.First < x.Groups:
		return over
	}
	for _, ch := range x.used {
		if ch.stream.posted > ch.stream.sent {
			return over
		}
	}
	return done
}

// addr returns where the piece of a move lies, whose first element is from, and the
// keys of that memory.
func (x *scriptRun) addr(p script.Operand, area, g int, m *script.Move, piece, from int) (addr uint64, keys *device.Keys) {
	switch p {
	case script.OperandInput:
		return x.in.Base + uint64(from*x.size), &x.in.Keys
	case script.OperandOutput:
		return x.out.Base + uint64(from*x.size), &x.out.Keys
	}
	offset := x.areaBase[area] + uint64(x.Offset(x.Areas[area], m.Lo, piece, from)*x.size)
	return x.memory + uint64(g%x.Depth)*x.stride + offset, &x.keys
}

// post sends what may be sent now.
func (x *scriptRun) post() (posted bool, err error) {
	for g := x.First; g < x.End(); g++ {
		for m := x.MayPost(g); m != nil; m = x.MayPost(g) {
			ch := x.at[x.Group(g).Posting]
			if !ch.free() || !ch.room() || ch.stream.posted-ch.stream.sent == len(ch.stream.flights) {
				break
			}
			if err := x.send(g, x.Group(g), m, ch); err != nil {
				return posted, err
			}
			x.PostedPiece(g)
			posted = true
		}
	}
	return posted, nil
}

// send posts the next piece of a move. What has been taken of the peer's slots is
// credited with it.
func (x *scriptRun) send(g int, q *script.Group, m *script.Move, ch *channel) error {
	from, to := x.Piece(m.Lo, m.Hi, g, q.Posted)
	n := (to - from) * x.size
	addr, keys := x.addr(m.From, m.Area, g, m, q.Posted, from)
	h := x.header(kindSlot, ch.stream.posted, n)
	h.Addr, h.Sum = ch.taken, x.sumOf(ch, addr, n)
	if x.detached {
		if err := ch.detach(&h, memory.Bytes(addr, n), flight{begun: trace.Now(), bytes: n, seq: x.seq, message: ch.stream.posted}); err != nil {
			return err
		}
		ch.told = ch.taken
		ch.stream.posted++
		ch.stream.sent++
		x.x.Live.EagerWrites++
		x.x.Live.Sent += uint64(n)
		return nil
	}
	ch.stream.flights[ch.stream.posted%len(ch.stream.flights)] = flight{begun: trace.Now(), group: g, bytes: n}
	if err := ch.fill(&h, addr, n, keys.LKey(ch.edge.Device())); err != nil {
		return err
	}
	ch.told = ch.taken
	ch.stream.posted++
	q.Flying++
	x.x.Live.EagerWrites++
	return nil
}

// delivered notes that the oldest WRITE on a channel is the peer's, and its memory
// ours again.
func (x *scriptRun) delivered(ch *channel) {
	s := &ch.stream
	f := &s.flights[s.sent%len(s.flights)]
	sendSpan.SpanAt(f.begun, x.now, x.seq, uint64(s.sent), uint64(f.bytes), uint64(ch.edge.Peer))
	ch.out.Add(f.begun, x.now)
	x.x.Live.Sent += uint64(f.bytes)
	x.Group(f.group).Flying--
	s.sent++
}

// work takes the next piece of the oldest group that has one.
func (x *scriptRun) work() (worked bool, err error) {
	for g := x.First; g < x.End() && !worked; g++ {
		if m := x.MayWork(g); m != nil {
			if worked, err = x.workOn(g, x.Group(g), m); err != nil {
				return worked, err
			}
		}
	}
	x.Leave()
	return worked, nil
}

// workOn does the next piece of a group's move, if the message is there.
func (x *scriptRun) workOn(g int, q *script.Group, m *script.Move) (bool, error) {
	from, to := x.Piece(m.Lo, m.Hi, g, q.Worked)
	n := (to - from) * x.size
	ch := x.at[q.Working]
	var data []byte
	if ch != nil {
		var err error
		if data, err = x.received(ch, n); data == nil || err != nil {
			return false, err
		}
		if corrupt := x.x.corrupt; corrupt != nil {
			corrupt(x.call.Op, x.processed, data)
		}
		if x.sums {
			if err := x.sumArrived(ch, data, ch.head().Sum, ch.stream.took, from, m.Gathers); err != nil {
				return false, err
			}
		}
		x.x.Live.Received += uint64(n)
	}
	if x.now == 0 {
		x.now = trace.Now()
	}
	begun := x.now
	x.apply(m, data, g, q.Worked, from, n)
	x.recordWork(ch, m, begun, n, x.WorkedPiece(g))
	if ch == nil {
		return true, nil
	}
	x.processed++
	return true, x.take(ch)
}

// received returns the n bytes of the next message on a channel, if it is there.
func (x *scriptRun) received(ch *channel, n int) ([]byte, error) {
	h := ch.head()
	if h == nil || h.Seq != x.seq {
		return nil, nil
	}
	if int(h.Segment) != ch.stream.took || h.Length != uint32(n) {
		return nil, fmt.Errorf("%w: %s sent message %d of operation %d, of %d bytes: expected message %d of %d",
			sharedmem.ErrProtocol, ch, h.Segment, h.Seq, h.Length, ch.stream.took, n)
	}
	return ch.payload(n), nil
}

// take gives the oldest slot back. The peer hears of it with the next message to
// it; if there is none for long, with a message of its own.
func (x *scriptRun) take(ch *channel) error {
	ch.stream.took++
	ch.take()
	if ch.taken-ch.told < max(1, ch.slots/2) {
		return nil
	}
	h := x.header(kindCredit, 0, 0)
	h.Addr, h.RKey = ch.taken, x.x.Nonce
	if err := ch.send(&h); err != nil {
		return err
	}
	ch.told = ch.taken
	x.x.Live.Credits++
	return nil
}

// apply does a move to one piece, n bytes from element from on; data is what came.
func (x *scriptRun) apply(m *script.Move, data []byte, g, piece, from, n int) {
	at := func(p script.Operand, area int) []byte {
		addr, _ := x.addr(p, area, g, m, piece, from)
		return memory.Bytes(addr, n)
	}
	result := at(m.To, m.Into)
	switch m.Do {
	case script.MoveReduce:
		x.kernel(result, data, at(m.From, m.Area))
	case script.MoveReduceOwn:
		x.kernel(result, at(m.From, m.Area), x.in.Bytes(from, n, x.size))
	case script.MoveOutput:
		copy(result, at(m.From, m.Area))
		x.x.Live.CopiedOwn += uint64(n)
		return
	default:
		copy(result, data)
		x.x.Live.CopiedAllGather += uint64(n)
		return
	}
	if m.Last {
		reduce.Finish(x.call.Type, x.call.Reduction, x.x.size, result)
	}
	x.x.Live.Reductions++
	for _, ch := range x.used {
		if ch.stream.posted > ch.stream.sent {
			x.x.Live.Overlapped++
			break
		}
	}
}

func (x *scriptRun) progress() string {
	return fmt.Sprintf("%d of %d groups of segments were through", x.First, x.Groups)
}

func (x *scriptRun) where(p *diagnose.Place) {
	phase := func(m *script.Move) string {
		name := "reduction"
		if m.Gathers {
			name = "gathering"
		}
		return fmt.Sprintf("step %d of the %s", m.Step, name)
	}
	if x.First < x.Groups {
		q := x.Group(x.First)
		if q.Working < len(x.Moves) && x.at[q.Working] != nil && x.at[q.Working].head() == nil {
			ch := x.at[q.Working]
			p.Awaits = append(p.Awaits, diagnose.Await{
				From: ch.edge.Peer, Item: diagnose.Data, Number: ch.stream.took, Phase: phase(&x.Moves[q.Working]), Segment: ch.stream.took,
				What: fmt.Sprintf("message %d", ch.stream.took),
			})
		}
		if q.Posting < len(x.Moves) && x.Moves[q.Posting].Do == script.MoveSend {
			if ch := x.at[q.Posting]; !ch.free() {
				p.Awaits = append(p.Awaits, diagnose.Await{
					From: ch.edge.Peer, Item: diagnose.Credit, Number: int(ch.freed), Phase: phase(&x.Moves[q.Posting]), Segment: -1,
					What: fmt.Sprintf("credits for %d slots", ch.filled-ch.freed),
				})
			}
		}
	}
	for _, ch := range x.used {
		s, peer := &ch.stream, ch.edge.Peer
		if s.posted > s.sent && !x.detached {
			p.Awaits = append(p.Awaits, diagnose.Await{
				From: peer, Item: diagnose.Receipt, Number: s.sent, Segment: s.sent, What: fmt.Sprintf("the acknowledgement of message %d", s.sent),
			})
		}
		p.Gave = append(p.Gave, diagnose.Given{To: peer, Item: diagnose.Data, Count: s.posted},
			diagnose.Given{To: peer, Item: diagnose.Receipt, Count: s.took + int(ch.arrived-ch.taken)}, diagnose.Given{To: peer, Item: diagnose.Credit, Count: int(ch.told)})
	}
}

// recordWork records what was done with a piece, and the step that it completes.
func (x *scriptRun) recordWork(ch *channel, m *script.Move, begun trace.Stamp, n int, last bool) {
	if begun == 0 {
		return
	}
	end := trace.Now()
	x.now = end
	x.x.Times.Reduced(begun, end)
	if ch == nil {
		reduceSpan.SpanAt(begun, end, x.seq, uint64(x.processed), uint64(n), 0)
	} else {
		x.stepBytes += uint64(n)
		reduceSpan.SpanAt(begun, end, x.seq, uint64(ch.stream.took), uint64(n), 0)
		x.recordSlot(ch, end, ch.stream.took, n)
	}
	if last {
		x.recordStep(end, m)
	}
}

// recordStep ends the step that a move is and begins the next.
func (x *scriptRun) recordStep(end trace.Stamp, m *script.Move) {
	phase := 0
	if m.Gathers {
		phase = 1
	}
	x.nextStep(end, phase, m.Step)
}

// recordOpen records what is open in the script when it ends.
func (x *scriptRun) recordOpen(end trace.Stamp) {
	for _, ch := range x.used {
		s := &ch.stream
		for i := s.sent; i < s.posted; i++ {
			f := &s.flights[i%len(s.flights)]
			sendSpan.SpanAt(f.begun, end, x.seq, uint64(i), uint64(f.bytes), uint64(ch.edge.Peer))
		}
	}
	if x.First == x.Groups {
		return
	}
	q := x.Group(x.First)
	if q.Working == len(x.Moves) || x.Moves[q.Working].Do == script.MoveSend {
		return
	}
	m, ch := &x.Moves[q.Working], x.at[q.Working]
	if ch != nil && ch.head() == nil {
		from, to := x.Piece(m.Lo, m.Hi, x.First, q.Worked)
		awaitedSpan.SpanAt(x.step, end, x.seq, uint64(ch.stream.took), uint64((to-from)*x.size), uint64(ch.edge.Peer))
	}
	x.recordStep(end, m)
}
