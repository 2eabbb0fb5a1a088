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
	return t.pull.run(c)
}

func (e *puller) run(c *Call) error {
	if err := e.t.begin(c, true); err != nil {
		return err
	}
	e.t.record(c, waitsAfterInPull, (e.t.ranks-1)*e.t.owned())
	e.prepare(c)
	total := c.count() * e.elem
	far, err := e.t.probe(total)
	if err != nil {
		return err
	}
	var choice *chooser
	if e.t.rank == 0 && !e.t.fixed {
		choice = e.t.choosers.of(c, far, total)
		e.stores = choice.choose(total)
	}
	if err := e.tellRefs(c); err != nil {
		return err
	}
	// The clock starts when all ranks are there.
	var begun time.Duration
	if choice != nil {
		begun = time.Since(e.t.made)
	}
	if err := e.steps(); err != nil {
		return err
	}
	if c.More { // in the next one's first round all are past this
		e.base += uint64(e.total)
	} else if err := e.finish(); err != nil {
		return err
	}
	if choice != nil {
		choice.observe(time.Since(e.t.made)-begun, total)
	}
	return nil
}

// steps makes all steps of the call.
func (e *puller) steps() error {
	e.t.phase = phaseSteps
	for loops := 1; ; loops++ {
		moved := e.advance()
		if e.complete() {
			e.t.wait.reset()
			return nil
		}
		var err error
		switch {
		case !moved:
			err = e.t.wait.step()
		case loops%busySteps == 0:
			e.t.wait.reset()
			err = e.t.wait.stopped()
		default:
			e.t.wait.reset()
		}
		if err != nil {
			return e.t.fail(err)
		}
	}
}

// busySteps without a wait may pass before stop is asked: a few milliseconds.
const busySteps = 128

// puller is the engine of Pull.
type puller struct {
	t *Team
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

// Steps is how many steps Pull makes of a chunk of so many bytes among so many ranks.
func Steps(chunk, ranks int) int {
	l := layoutOf(ranks)
	segment := l.segment(chunk)
	return max(1, (chunk+segment-1)/segment)
}

// prepare lays the call out.
func (e *puller) prepare(c *Call) {
	e.typ, e.reduction, e.kernel = c.Type, c.Reduction, nil
	e.elem = c.Type.Size()
	e.width = e.t.layout.segment(e.t.longest*e.elem) / e.elem
	e.perRun = max(1, (e.t.longest+e.width-1)/e.width)
	e.total = e.perRun * e.t.most
	e.input, e.output = c.Send.Addr, c.Recv.Addr
	if c.reduces() {
		e.kernel = reduce.Lookup(c.Type, c.Reduction)
	}
	e.staged, e.reduced, e.taken = 0, 0, 0
	if e.first, e.keeps = e.t.rank, true; c.Rooted {
		e.first, e.keeps = int(c.Root), !c.reduces() || e.t.rank == int(c.Root)
	}
	if e.t.sets {
		e.first = e.t.rank + e.t.ranks - 1
	}
	for r := range e.t.peers {
		e.t.peers[r].got = 0
	}
}

// lay decides what goes through slots and which steps are told to the peers, once
// the references are there.
func (e *puller) lay(c *Call) {
	e.sendSlots = e.kernel != nil && !c.Send.Mapped
	e.gathers = c.gathers()
	e.inputRead, e.resultRead, e.resultSlots = e.kernel != nil && c.Send.Mapped, false, false
	e.announce, e.release = false, false
	switch {
	case e.kernel != nil && c.Rooted:
		if e.gathers = e.keeps; !e.gathers {
			e.resultSlots, e.announce = true, true
			e.takesNothing()
		}
	case e.kernel != nil && e.gathers:
		e.resultRead = e.resultMapped(c.Recv.Mapped)
		e.resultSlots = !e.resultRead
		e.announce = true
	case e.gathers && c.Rooted && e.t.rank != int(c.Root): // it has no chunk
	case e.gathers:
		e.resultRead = c.Send.Mapped
		e.resultSlots = !c.Send.Mapped
		e.announce = e.resultSlots
		if c.Gives {
			e.gathers = false
			e.takesNothing()
		}
	}
	for _, p := range e.t.others {
		e.announce = e.announce || e.kernel != nil && p.input == 0
		e.release = e.release || e.gathers && p.output == 0
	}
}

// takesNothing has nobody wait for that.
func (e *puller) takesNothing() { e.tell(e.t.own[takenLine], e.base+uint64(e.total)) }

// resultMapped tells whether the result of an all-reduce is read in a rank's
// receive buffer, given whether that can be mapped.
func (e *puller) resultMapped(mapped bool) bool { return mapped && e.stores != mixed }

// span is the part of a rank's chunk that a step moves, and the end of its run.
func (e *puller) span(p *peer, step int) (from, to, end int) {
	i := 0
	if e.t.most > 1 {
		i, step = step/e.perRun, step%e.perRun
	}
	if i >= len(p.runs) {
		return 0, 0, 0
	}
	run := p.runs[i]
	from = min(run.Lo+step*e.width, run.Hi)
	return from, min(from+e.width, run.Hi), run.Hi
}

// advance does what there is to do, once each, and reports whether there was
// anything: first what others wait for.
func (e *puller) advance() bool {
	moved := false
	if e.staged < e.reduced+2 && e.may((*puller).mayStage) {
		e.stage()
		moved = true
	}
	if e.may((*puller).mayReduce) {
		e.reduce()
		moved = true
	}
	if e.gathers && e.take() {
		moved = true
	}
	// With nothing else to do, work ahead.
	if !moved && e.may((*puller).mayStage) {
		e.stage()
		moved = true
	}
	return moved
}

// complete tells whether the own part is done.
func (e *puller) complete() bool {
	return e.reduced == e.total && (!e.gathers || e.taken == e.total) && (!e.sendSlots || e.staged == e.total)
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
func (e *puller) mayStage(p *peer) bool {
	return e.sendSlots && e.staged < e.total && p.reached(reducedLine, e.sendUsed[(e.base+uint64(e.staged))%slotDepth])
}

// mayReduce tells whether there is a step to reduce, and this peer has what that takes and
// has read what is in its slot.
func (e *puller) mayReduce(p *peer) bool {
	at := e.base + uint64(e.reduced)
	return e.reduced < e.total && (e.kernel == nil || p.input != 0 || p.reached(stagedLine, at+1)) &&
		(!e.resultSlots || p.reached(takenLine, e.resultUsed[at%slotDepth]))
}

// mayTake tells whether a peer has a step to take.
func (e *puller) mayTake(p *peer) bool {
	return p.got < e.total && (p.ready || p.reached(reducedLine, e.base+uint64(p.got)+1))
}

// needs tells whether a peer needs the own buffers still, in the end.
func (e *puller) needs(p *peer) bool {
	all := e.base + uint64(e.total)
	return e.inputRead && !p.reached(reducedLine, all) || e.resultRead && !p.reached(takenLine, all)
}

// may tells whether something may be done for all peers.
func (e *puller) may(do func(*puller, *peer) bool) bool {
	for _, p := range e.t.others {
		if !do(e, p) {
			return false
		}
	}
	return true
}

// stage copies the next segment of each peer's chunk into the slots.
func (e *puller) stage() {
	at := e.base + uint64(e.staged)
	for _, p := range e.t.others {
		from, to, _ := e.span(p, e.staged)
		slot := memory.Bytes(e.t.layout.send(e.t.board, at, e.t.rank, p.rank), (to-from)*e.elem)
		e.copy(slot, elems(e.input, from, to, e.elem), e.stores == streaming)
	}
	e.sendUsed[at%slotDepth] = at + 1
	e.staged++
	e.tell(e.t.own[stagedLine], at+1)
}

// take copies the next segment of each peer that has one ready.
func (e *puller) take() bool {
	moved := false
	least := e.total
	for _, p := range e.t.others {
		if e.mayTake(p) {
			at := e.base + uint64(p.got)
			from, to, _ := e.span(p, p.got)
			var data []byte
			if p.output == 0 {
				data = memory.Bytes(e.t.layout.result(p.board, at), (to-from)*e.elem)
			} else {
				data = elems(p.output, from, to, e.elem)
			}
			e.copy(elems(e.output, from, to, e.elem), data, e.stores != ordinary)
			p.got++
			moved = true
		}
		least = min(least, p.got)
	}
	if least > e.taken {
		e.taken = least
		if e.release || least == e.total {
			e.tell(e.t.own[takenLine], e.base+uint64(least))
		}
	}
	return moved
}

// reduce makes the next segment of the own chunk: the result, or in all-gather
// the input where it has to go.
func (e *puller) reduce() {
	at := e.base + uint64(e.reduced)
	from, to, last := e.span(&e.t.peers[e.t.rank], e.reduced)
	var slot uint64 // where element 0 would be
	if e.resultSlots {
		slot = e.t.layout.result(e.t.board, at) - uint64(from*e.elem)
		e.resultUsed[at%slotDepth] = at + 1
	}
	if e.kernel == nil {
		own := elems(e.input, from, to, e.elem)
		if e.resultSlots {
			e.copy(elems(slot, from, to, e.elem), own, e.stores == streaming)
		}
		if e.input != e.output {
			e.copy(elems(e.output, from, to, e.elem), own, e.stores != ordinary)
		}
	} else {
		for block := e.block() / e.elem; from < to; from += block {
			end := min(from+block, to)
			e.reduceBlock(from, end, min(end+block, last), slot)
		}
	}
	e.reduced++
	if e.announce || e.reduced == e.total {
		e.tell(e.t.own[reducedLine], at+1)
	}
	if e.reduced == e.total && e.gathers && e.kernel != nil && e.t.wait.timeline.records() {
		e.t.wait.timeline.enter(Gather, e.t.foreign()*e.elem)
	}
}

// blockBytes is what is reduced at a time: with the partial results of more than
// two ranks, and the result that is written twice, it stays in L1. Where the result
// is streamed, the next block's operands come at the same time, and shorter blocks
// keep both ways to memory busy: 16 MiB on two ranks take 1.4 ms and not 1.7.
const blockBytes, streamedBlockBytes = 8 << 10, 2 << 10

func (e *puller) block() int {
	if e.stores == ordinary {
		return blockBytes
	}
	return streamedBlockBytes
}

// reduceBlock reduces the elements [from, to) of the own chunk; the next block is
// [to, ahead), which may be of the next step. slot is 0, or where element 0 of a slot
// would be.
func (e *puller) reduceBlock(from, to, ahead int, slot uint64) {
	me := &e.t.peers[e.t.rank]
	n := (to - from) * e.elem
	var result []byte
	if e.keeps {
		result = elems(e.output, from, to, e.elem)
	}
	target := result
	switch {
	case e.stores == streaming:
		target = me.inArea[1][:n:n]
	case slot != 0:
		target = elems(slot, from, to, e.elem)
	}
	partial := e.operand(1, from, to)
	for k := 2; k <= e.t.ranks; k++ {
		dst := target
		if k < e.t.ranks {
			dst = me.inArea[0][:n:n]
		}
		e.kernel(dst, partial, e.operand(k, from, to))
		partial = dst
	}
	reduce.Finish(e.typ, e.reduction, e.t.ranks, target)
	if e.stores != ordinary {
		for k := 1; k <= e.t.ranks; k++ {
			reduce.Prefetch(e.operand(k, to, ahead))
		}
	}
	switch {
	case !e.keeps:
		if e.stores == streaming {
			e.copy(elems(slot, from, to, e.elem), target, true)
		}
	case e.stores == streaming:
		if slot != 0 {
			e.copy(elems(slot, from, to, e.elem), target, true)
		}
		e.copy(result, target, true)
	case slot != 0:
		e.copy(result, target, e.stores == mixed)
	}
}

// operand is operand k of the order, from 1 on.
func (e *puller) operand(k, from, to int) []byte {
	rank := (e.first + k) % e.t.ranks
	if rank == e.t.rank {
		return elems(e.input, from, to, e.elem)
	}
	p := &e.t.peers[rank]
	if p.input != 0 {
		return elems(p.input, from, to, e.elem)
	}
	segment, _, _ := e.span(&e.t.peers[e.t.rank], e.reduced)
	slot := e.t.layout.send(p.board, e.base+uint64(e.reduced), p.rank, e.t.rank)
	return elems(slot-uint64(segment*e.elem), from, to, e.elem)
}

// tell stores a counter, after everything that it stands for.
func (e *puller) tell(l *line, value uint64) {
	if e.stores != ordinary {
		reduce.Fence()
	}
	l.store(value)
}

func (e *puller) copy(dst, src []byte, stream bool) {
	if stream {
		reduce.Stream(dst, src)
	} else {
		copy(dst, src)
	}
}

// finish waits until no peer needs the own buffers any more.
func (e *puller) finish() error {
	e.t.phase = phaseFinish
	e.t.wait.reset()
	for _, p := range e.t.others {
		for e.needs(p) {
			if err := e.t.wait.step(); err != nil {
				return e.t.fail(err)
			}
		}
		e.t.wait.reset()
	}
	e.base += uint64(e.total)
	return nil
}
