package sharedmem

import (
	"time"

	"ringcli/collective/reduce"
	"ringcli/verbs/memory"
)

// Pull performs a call over memory that the ranks read in place. Rank r reduces
// chunk r in the order of a ring,
//
//	((x[r+1] op x[r+2]) op ...) op x[r]     (ranks modulo the team's size)
//
// or, if the call has a root, in that of the root's chunk; of which the others reduce their
// part into slots, from where the root takes it. Sets are reduced from their owner on.
//
// step by step, a segment a step, from where the inputs are into its own receive
// buffer, and the others copy each segment from there while it is in a cache.
// Nobody writes into another rank's buffers. A buffer that is not mapped costs
// its owner a copy into slots of its board, which are then read instead: the steps
// are the same, whatever kinds of buffers the ranks have.
//
// Pull returns when no peer will read the buffers any more.
func (t *Team) Pull(c *Call) error {
	if c.Phases == 0 {
		return t.Inbox(c)
	}
	if err := t.begin(c, true); err != nil {
		return err
	}
	t.record(c, waitsAfterInPull, (t.ranks-1)*t.owned())
	t.prepare(c)
	total := c.count() * t.elem
	far, err := t.probe(total)
	if err != nil {
		return err
	}
	var choice *chooser
	if t.rank == 0 && !t.fixed {
		choice = t.choosers.of(c, far, total)
		t.stores = choice.choose(total)
	}
	if err := t.tellRefs(c); err != nil {
		return err
	}
	// The clock starts when all ranks are there.
	var begun time.Duration
	if choice != nil {
		begun = time.Since(t.made)
	}
	if err := t.steps(); err != nil {
		return err
	}
	if c.More { // in the next one's first round all are past this
		t.base += uint64(t.total)
	} else if err := t.finish(); err != nil {
		return err
	}
	if choice != nil {
		choice.observe(time.Since(t.made)-begun, total)
	}
	return nil
}

// steps makes all steps of the call.
func (t *Team) steps() error {
	t.phase = phaseSteps
	for loops := 1; ; loops++ {
		moved := t.advance()
		if t.complete() {
			t.wait.reset()
			return nil
		}
		var err error
		switch {
		case !moved:
			err = t.wait.step()
		case loops%busySteps == 0:
			t.wait.reset()
			err = t.wait.stopped()
		default:
			t.wait.reset()
		}
		if err != nil {
			return t.fail(err)
		}
	}
}

// busySteps without a wait may pass before stop is asked: a few milliseconds.
const busySteps = 128

// pulls is a Team's part of the pull engine.
type pulls struct {
	// base is the number of steps of all calls before. Counters and slots go by
	// base plus the step, so that they need no reset.
	base uint64
	// What lies in each slot: base plus step, plus one.
	sendUsed, resultUsed [slotDepth]uint64

	// Of the present call.
	typ          reduce.Type
	reduction    reduce.Op
	kernel       reduce.Kernel // nil in all-gather
	elem         int           // bytes of an element
	total, width int           // steps, and elements of each
	perRun       int           // steps
	first        int           // the rank after which the order of operands begins
	keeps        bool          // the own chunk's result is wanted in the receive buffer
	input        uint64        // address of element 0 of the own input
	output       uint64        // address of element 0 of the receive buffer
	sendSlots    bool          // the own input goes through slots
	resultSlots  bool          // the own chunk's result goes through slots
	inputRead    bool          // peers read the own input in place, to reduce it
	resultRead   bool          // peers read the own result in place
	gathers      bool          // the others' results are wanted
	announce     bool          // peers want to know of each step that is reduced
	release      bool          // peers want to know of each step that is taken
	stores       stores

	staged, reduced, taken int // own steps done
}

// view is where a peer's memory is in the present call.
type view struct {
	input  uint64           // address of element 0 of its input; 0: in its slots
	output uint64           // address of element 0 of its result; 0: in its slots
	ready  bool             // its result was there from the start
	got    int              // steps of its chunk taken
	seen   [ownLines]uint64 // its counters, as they were last
}

// segment is the length in bytes of a step for chunks of so many: four steps at least, so
// that ranks overlap, of no more than a slot takes.
func (l *layout) segment(chunk int) int {
	const shortest, unit = 16 << 10, 4 << 10
	return min(max((chunk/4+unit-1)/unit*unit, shortest), int(l.slot))
}

// prepare lays the call out.
func (t *Team) prepare(c *Call) {
	t.typ, t.reduction, t.kernel = c.Type, c.Reduction, nil
	t.elem = c.Type.Size()
	t.width = t.layout.segment(t.longest*t.elem) / t.elem
	t.perRun = max(1, (t.longest+t.width-1)/t.width)
	t.total = t.perRun * t.most
	t.input, t.output = c.Send.Addr, c.Recv.Addr
	if c.reduces() {
		t.kernel = reduce.Lookup(c.Type, c.Reduction)
	}
	t.staged, t.reduced, t.taken = 0, 0, 0
	if t.first, t.keeps = t.rank, true; c.Rooted {
		t.first, t.keeps = int(c.Root), !c.reduces() || t.rank == int(c.Root)
	}
	if t.sets {
		t.first = t.rank + t.ranks - 1
	}
	for r := range t.peers {
		t.peers[r].got = 0
	}
}

// lay decides what goes through slots and which steps are told to the peers, once
// the references are there.
func (t *Team) lay(c *Call) {
	t.sendSlots = t.kernel != nil && !c.Send.Mapped
	t.gathers = c.gathers()
	t.inputRead, t.resultRead, t.resultSlots = t.kernel != nil && c.Send.Mapped, false, false
	t.announce, t.release = false, false
	switch {
	case t.kernel != nil && c.Rooted:
		if t.gathers = t.keeps; !t.gathers {
			t.resultSlots, t.announce = true, true
			t.takesNothing()
		}
	case t.kernel != nil && t.gathers:
		t.resultRead = t.resultMapped(c.Recv.Mapped)
		t.resultSlots = !t.resultRead
		t.announce = true
	case t.gathers && c.Rooted && t.rank != int(c.Root): // it has no chunk
	case t.gathers:
		t.resultRead = c.Send.Mapped
		t.resultSlots = !c.Send.Mapped
		t.announce = t.resultSlots
		if c.Gives {
			t.gathers = false
			t.takesNothing()
		}
	}
	for _, p := range t.others {
		t.announce = t.announce || t.kernel != nil && p.input == 0
		t.release = t.release || t.gathers && p.output == 0
	}
}

// takesNothing has nobody wait for that.
func (t *Team) takesNothing() { t.tell(t.own[takenLine], t.base+uint64(t.total)) }

// resultMapped tells whether the result of an all-reduce is read in a rank's
// receive buffer, given whether that can be mapped.
func (t *Team) resultMapped(mapped bool) bool { return mapped && t.stores != mixed }

// span is the part of a rank's chunk that a step moves, and the end of its run.
func (t *Team) span(p *peer, step int) (from, to, end int) {
	i := 0
	if t.most > 1 {
		i, step = step/t.perRun, step%t.perRun
	}
	if i >= len(p.runs) {
		return 0, 0, 0
	}
	run := p.runs[i]
	from = min(run.Lo+step*t.width, run.Hi)
	return from, min(from+t.width, run.Hi), run.Hi
}

// advance does what there is to do, once each, and reports whether there was
// anything: first what others wait for.
func (t *Team) advance() bool {
	moved := false
	if t.staged < t.reduced+2 && t.may((*Team).mayStage) {
		t.stage()
		moved = true
	}
	if t.may((*Team).mayReduce) {
		t.reduce()
		moved = true
	}
	if t.gathers && t.take() {
		moved = true
	}
	// With nothing else to do, work ahead.
	if !moved && t.may((*Team).mayStage) {
		t.stage()
		moved = true
	}
	return moved
}

// complete tells whether the own part is done.
func (t *Team) complete() bool {
	return t.reduced == t.total && (!t.gathers || t.taken == t.total) && (!t.sendSlots || t.staged == t.total)
}

// reached tells whether a peer's counter is as high as that. It looks at it if what
// was last seen is too low.
func (p *peer) reached(which int, want uint64) bool {
	if p.seen[which] < want {
		p.seen[which] = p.lines[which].load()
	}
	return p.seen[which] >= want
}

// mayStage tells whether there is a step to stage, and this peer has read what is in its
// slot.
func (t *Team) mayStage(p *peer) bool {
	return t.sendSlots && t.staged < t.total && p.reached(reducedLine, t.sendUsed[(t.base+uint64(t.staged))%slotDepth])
}

// mayReduce tells whether there is a step to reduce, and this peer has what that takes and
// has read what is in its slot.
func (t *Team) mayReduce(p *peer) bool {
	at := t.base + uint64(t.reduced)
	return t.reduced < t.total && (t.kernel == nil || p.input != 0 || p.reached(stagedLine, at+1)) &&
		(!t.resultSlots || p.reached(takenLine, t.resultUsed[at%slotDepth]))
}

// mayTake tells whether a peer has a step to take.
func (t *Team) mayTake(p *peer) bool {
	return p.got < t.total && (p.ready || p.reached(reducedLine, t.base+uint64(p.got)+1))
}

// needs tells whether a peer needs the own buffers still, in the end.
func (t *Team) needs(p *peer) bool {
	all := t.base + uint64(t.total)
	return t.inputRead && !p.reached(reducedLine, all) || t.resultRead && !p.reached(takenLine, all)
}

// may tells whether something may be done for all peers.
func (t *Team) may(do func(*Team, *peer) bool) bool {
	for _, p := range t.others {
		if !do(t, p) {
			return false
		}
	}
	return true
}

// stage copies the next segment of each peer's chunk into the slots.
func (t *Team) stage() {
	at := t.base + uint64(t.staged)
	for _, p := range t.others {
		from, to, _ := t.span(p, t.staged)
		slot := memory.Bytes(t.layout.send(t.board, at, t.rank, p.rank), (to-from)*t.elem)
		t.copy(slot, elems(t.input, from, to, t.elem), t.stores == streaming)
	}
	t.sendUsed[at%slotDepth] = at + 1
	t.staged++
	t.tell(t.own[stagedLine], at+1)
}

// take copies the next segment of each peer that has one ready.
func (t *Team) take() bool {
	moved := false
	least := t.total
	for _, p := range t.others {
		if t.mayTake(p) {
			at := t.base + uint64(p.got)
			from, to, _ := t.span(p, p.got)
			var data []byte
			if p.output == 0 {
				data = memory.Bytes(t.layout.result(p.board, at), (to-from)*t.elem)
			} else {
				data = elems(p.output, from, to, t.elem)
			}
			t.copy(elems(t.output, from, to, t.elem), data, t.stores != ordinary)
			p.got++
			moved = true
		}
		least = min(least, p.got)
	}
	if least > t.taken {
		t.taken = least
		if t.release || least == t.total {
			t.tell(t.own[takenLine], t.base+uint64(least))
		}
	}
	return moved
}

// reduce makes the next segment of the own chunk: the result, or in all-gather
// the input where it has to go.
func (t *Team) reduce() {
	at := t.base + uint64(t.reduced)
	from, to, last := t.span(&t.peers[t.rank], t.reduced)
	var slot uint64 // where element 0 would be
	if t.resultSlots {
		slot = t.layout.result(t.board, at) - uint64(from*t.elem)
		t.resultUsed[at%slotDepth] = at + 1
	}
	if t.kernel == nil {
		own := elems(t.input, from, to, t.elem)
		if t.resultSlots {
			t.copy(elems(slot, from, to, t.elem), own, t.stores == streaming)
		}
		if t.input != t.output {
			t.copy(elems(t.output, from, to, t.elem), own, t.stores != ordinary)
		}
	} else {
		for block := t.block() / t.elem; from < to; from += block {
			end := min(from+block, to)
			t.reduceBlock(from, end, min(end+block, last), slot)
		}
	}
	t.reduced++
	if t.announce || t.reduced == t.total {
		t.tell(t.own[reducedLine], at+1)
	}
	if t.reduced == t.total && t.gathers && t.kernel != nil && t.wait.timeline.records() {
		t.wait.timeline.enter(Gather, t.foreign()*t.elem)
	}
}

// blockBytes is what is reduced at a time: with the partial results of more than
// two ranks, and the result that is written twice, it stays in L1. Where the result
// is streamed, the next block's operands come at the same time, and shorter blocks
// keep both ways to memory busy: 16 MiB on two ranks take 1.4 ms and not 1.7.
const blockBytes, streamedBlockBytes = 8 << 10, 2 << 10

func (t *Team) block() int {
	if t.stores == ordinary {
		return blockBytes
	}
	return streamedBlockBytes
}

// reduceBlock reduces the elements [from, to) of the own chunk; the next block is
// [to, ahead), which may be of the next step. slot is 0, or where element 0 of a slot
// would be.
func (t *Team) reduceBlock(from, to, ahead int, slot uint64) {
	me := &t.peers[t.rank]
	n := (to - from) * t.elem
	var result []byte
	if t.keeps {
		result = elems(t.output, from, to, t.elem)
	}
	target := result
	switch {
	case t.stores == streaming:
		target = me.inArea[1][:n:n]
	case slot != 0:
		target = elems(slot, from, to, t.elem)
	}
	partial := t.operand(1, from, to)
	for k := 2; k <= t.ranks; k++ {
		dst := target
		if k < t.ranks {
			dst = me.inArea[0][:n:n]
		}
		t.kernel(dst, partial, t.operand(k, from, to))
		partial = dst
	}
	reduce.Finish(t.typ, t.reduction, t.ranks, target)
	if t.stores != ordinary {
		for k := 1; k <= t.ranks; k++ {
			reduce.Prefetch(t.operand(k, to, ahead))
		}
	}
	switch {
	case !t.keeps:
		if t.stores == streaming {
			t.copy(elems(slot, from, to, t.elem), target, true)
		}
	case t.stores == streaming:
		if slot != 0 {
			t.copy(elems(slot, from, to, t.elem), target, true)
		}
		t.copy(result, target, true)
	case slot != 0:
		t.copy(result, target, t.stores == mixed)
	}
}

// operand is operand k of the order, from 1 on.
func (t *Team) operand(k, from, to int) []byte {
	rank := (t.first + k) % t.ranks
	if rank == t.rank {
		return elems(t.input, from, to, t.elem)
	}
	p := &t.peers[rank]
	if p.input != 0 {
		return elems(p.input, from, to, t.elem)
	}
	segment, _, _ := t.span(&t.peers[t.rank], t.reduced)
	slot := t.layout.send(p.board, t.base+uint64(t.reduced), p.rank, t.rank)
	return elems(slot-uint64(segment*t.elem), from, to, t.elem)
}

// tell stores a counter, after everything that it stands for.
func (t *Team) tell(l *line, value uint64) {
	if t.stores != ordinary {
		reduce.Fence()
	}
	l.store(value)
}

func (t *Team) copy(dst, src []byte, stream bool) {
	if stream {
		reduce.Stream(dst, src)
	} else {
		copy(dst, src)
	}
}

// finish waits until no peer needs the own buffers any more.
func (t *Team) finish() error {
	t.phase = phaseFinish
	t.wait.reset()
	for _, p := range t.others {
		for t.needs(p) {
			if err := t.wait.step(); err != nil {
				return t.fail(err)
			}
		}
		t.wait.reset()
	}
	t.base += uint64(t.total)
	return nil
}
