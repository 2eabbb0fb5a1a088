package model

import (
	"ringcli/collective"
	"ringcli/collective/script"
	"ringcli/ring"
)

// script is the time of a call between ranks that need not be neighbours: recursive
// doubling, the tree, the inbox and the hierarchy. It has the ranks walk their scripts as they do, by
// [script.Walk], event by event, with what each message costs its two CPUs, its two ports and
// its edge. That is the textbook's formula where the number of ranks is a power of two and
// segments are one, and what it leaves out elsewhere: segments that go into the gaps of those
// before them, folded ranks, subtrees of two depths, an inbox's n-1 messages one after the
// other through one port.
//
// A rank has one CPU. It first takes what came, then sends what may be sent, then reduces or
// copies, which is the order of package collective. Of very many pieces of a move several go at
// a time.
//
// Ranks of one CPU take turns: who has it goes on until it waits, and of the others the first that
// came to something to do is next.
//
// Where what is sent was copied before, nobody waits for its acknowledgement. It rides behind data
// that goes back. Of what is not answered it goes by itself once its rank has nothing else to do.
//
// Of many groups of segments the first ones are played, and what a depth of them takes in
// their midst is what each depth of the others takes.
func (m *Machine) script(k *collective.Call) float64 {
	p := newPlay(m, k, 1)
	more := p.cut.Groups - p.groups
	if more == 0 || !p.ranks[0].script.Whole || m.Edges != nil {
		p.run()
		return p.end()
	}
	// Long vectors differ in how many groups are left alone.
	like := long{
		k.Op, k.Algorithm, k.Root, m.Ranks, p.groups, k.Segment, k.Depth, m.Edge, m.Handshake, m.Overhead,
		m.SendByte.At(p.vector), m.RecvByte.At(p.vector), m.Gamma.At(p.vector), m.Copy.At(p.vector), m.CPUs, m.Turn, m.Ack,
	}
	ends := m.played[like]
	if ends == nil {
		p.run()
		if m.played == nil {
			m.played = map[long][]float64{}
		}
		ends, m.played[like] = p.ends, p.ends
	}
	p.ends = ends
	return p.end()
}

// scriptRow is what each of many such calls takes that follow one another: as many are played as
// fill all slots of an edge, and as many again. Of long vectors, little of one is on its way.
func (m *Machine) scriptRow(k *collective.Call) float64 {
	const calls = 4 * ring.MeshSlots
	p := newPlay(m, k, calls)
	if p.groups < p.cut.Groups {
		return m.script(k)
	}
	p.run()
	return (p.calls[calls-1] - p.calls[calls/2-1]) / (calls / 2)
}

// long is what the play of a long vector follows from, where all edges are alike.
type long struct {
	op                              collective.Operation
	algorithm                       collective.Algorithm
	root, ranks                     int
	groups, segment, depth          int
	edge                            Edge
	handshake, overhead             float64
	sendByte, recvByte, gamma, copy float64
	cpus                            int
	turn, ack                       float64
}

// depths are how many depths of groups are played: two to fill the pipeline, some that show its
// pace, and one in which it empties. It is fewer where a group has many messages: they fill it by
// themselves.
func (p *play) depths() int {
	if p.ranks[0].script.Whole && p.Ranks <= 2048 {
		return 8
	}
	return 4
}

// parcel is how many pieces go at a time where a move has so many of them at most: one, but of
// vectors so long that their bytes count and not their pieces' latency.
func parcel(pieces int) int {
	if pieces <= 64 {
		return 1
	}
	return (pieces + 15) / 16
}

// play is a call's first groups.
type play struct {
	*Machine
	k        *collective.Call
	cut      script.Cut
	groups   int  // that are played
	each     int  // pieces of a parcel
	slots    int  // of an edge, in parcels
	detached bool // what is sent was copied before, and is not waited for
	vector   float64
	ranks    []walker
	cpus     []cpu
	now      float64
	events   queue
	ends     []float64 // of each group, of the first call
	calls    []float64 // when each call is through
}

// cpu is that of ranks that take turns.
type cpu struct {
	free float64
	rank int // that had it last
}

// walker is a rank. It walks by groups whose moves have one piece, whatever they have.
type walker struct {
	script.Walk
	script   script.Script
	byGroup  script.Script
	call     int
	waking   bool    // until its CPU is free
	own      float64 // what it is to copy, once all is sent that may be
	sending  event
	sends    float64 // when its port is free to send
	receives float64
	came     []event // and was not taken
	edges    []edgeState
	at       []int // by move: its edge
	// By group: parcels of its moves.
	posted, worked [script.MaxDepth]int
}

// edgeState counts parcels as package collective counts messages on an edge of a mesh.
type edgeState struct {
	peer, back          int // the rank there, and its index of this edge
	posted, sent, freed int
	came, took, told    int
	answers             bool // this rank sends to the peer, too
	owes                bool // an acknowledgement
}

func newPlay(m *Machine, k *collective.Call, calls int) *play {
	p := &play{Machine: m, k: k, vector: bytes(k), ranks: make([]walker, m.Ranks), each: 1, calls: make([]float64, calls)}
	if m.crowd() > 1 {
		p.cpus = make([]cpu, m.CPUs)
	}
	p.detached = k.Depth > 1 && p.vector <= ring.MeshSlotSize
	most := 1
	for r := range p.ranks {
		k.Script(&p.ranks[r].script, r, m.Ranks, m.Hosts)
	}
	p.cut = script.NewCut(k.Count, max(1, k.Segment/k.Type.Size()), m.Ranks, &p.ranks[0].script)
	if p.groups = p.cut.Groups; p.groups > p.depths()*k.Depth { // whole depths of them are left
		p.groups = p.depths()*k.Depth + p.groups%k.Depth
	}
	p.ends = make([]float64, p.groups)
	for r := range p.ranks {
		w := &p.ranks[r]
		w.byGroup = w.script
		w.byGroup.Whole = true
		p.setOut(w)
		w.at = make([]int, len(w.Moves))
		for i := range w.Moves {
			mv := &w.Moves[i]
			most = max(most, p.cut.Pieces(mv.Lo, mv.Hi))
			if w.at[i] = w.edge(mv.Peer); w.at[i] < 0 && mv.Peer != r {
				w.at[i] = len(w.edges)
				w.edges = append(w.edges, edgeState{peer: mv.Peer})
			}
			if mv.Do == script.MoveSend {
				w.edges[w.at[i]].answers = true
			}
		}
	}
	p.each = parcel(most)
	p.slots = max(2, ring.MeshSlots/p.each)
	for r := range p.ranks {
		for i := range p.ranks[r].edges {
			e := &p.ranks[r].edges[i]
			e.back = p.ranks[e.peer].edge(r)
		}
	}
	return p
}

// setOut has a rank begin a call.
func (p *play) setOut(w *walker) {
	w.SetOut(&w.byGroup, p.groups, 1, p.k.Depth, false)
	w.own = p.copyOwn(p.k)
}

// edge is the index of that to a peer, -1 if there is none.
func (w *walker) edge(peer int) int {
	for i := range w.edges {
		if w.edges[i].peer == peer {
			return i
		}
	}
	return -1
}

// end is when the last of all groups is through.
func (p *play) end() float64 {
	end, depth := p.ends[p.groups-1], p.k.Depth
	if more := p.cut.Groups - p.groups; more > 0 {
		depths := p.depths()
		end += float64(more/depth) * (p.ends[(depths-1)*depth-1] - p.ends[2*depth-1]) / float64(depths-3)
	}
	return end
}

func (p *play) run() {
	for r := range p.ranks {
		p.turn(r)
	}
	for len(p.events.heap) > 0 {
		e := p.events.pop()
		p.now = e.at
		w := &p.ranks[e.rank]
		switch e.what {
		case wakes:
			w.waking = false
		case acked:
			w.edges[e.edge].sent++
			w.Group(e.group).Flying--
		case reaches:
			w.receives = max(e.at, w.receives) + e.wire
			e.at, e.what = w.receives, comes
			p.events.push(e)
			continue
		default:
			w.came = append(w.came, e)
			if from := &w.edges[e.edge]; e.pieces > 0 && !p.detached { // behind what the port is sending
				p.events.push(event{at: max(p.now, w.sends) + p.control(e.rank, from.peer) + 2*p.Ack, rank: from.peer, edge: from.back, group: e.group, what: acked})
			}
		}
		if !w.waking {
			p.turn(e.rank)
		}
	}
}

// turn lets a rank go on until its CPU is busy or it waits.
func (p *play) turn(r int) {
	w := &p.ranks[r]
	for {
		p.transmit(r, w)
		group := w.First
		for w.Leave(); group < w.First; group++ {
			if w.call == 0 {
				p.ends[group] = max(p.ends[group], p.now)
			}
		}
		if w.First == p.groups && w.own == 0 && w.call < len(p.calls) {
			p.calls[w.call] = max(p.calls[w.call], p.now)
			if w.call++; w.call < len(p.calls) {
				p.setOut(w)
			}
		}
		var c *cpu
		if p.cpus != nil {
			if c = &p.cpus[r%len(p.cpus)]; c.free > p.now { // another rank's turn
				w.waking = true
				p.events.push(event{at: c.free, rank: r, what: wakes})
				return
			}
		}
		cost, did := p.take(w)
		if !did {
			cost, did = p.post(w)
		}
		if !did && w.own > 0 {
			cost, did, w.own = w.own, true, 0
		}
		if !did {
			cost, did = p.work(r, w)
		}
		if !did {
			cost, did = p.acknowledge(w)
		}
		if c != nil && cost > 0 {
			if c.rank != r {
				cost += p.Turn
			}
			c.rank, c.free = r, p.now+cost
		}
		switch {
		case !did:
			return
		case cost > 0:
			w.waking = true
			p.events.push(event{at: p.now + cost, rank: r, what: wakes})
			return
		}
	}
}

// load is what the next parcel of a move carries in a group, of which so many have gone: its
// pieces and bytes. It tells whether that is the last one.
func (p *play) load(mv *script.Move, group, gone int) (pieces, total float64, last bool) {
	n := p.cut.Pieces(mv.Lo, mv.Hi)
	first := gone * p.each
	from, to := p.cut.Piece(mv.Lo, mv.Hi, group, first)
	size := float64(p.k.Type.Size())
	if p.each == 1 {
		return 1, float64(to-from) * size, gone == n-1
	}
	count := min(p.each, n-first)
	return float64(count), float64(count*(to-from)) * size, first+count == n
}

// take takes what came.
func (p *play) take(w *walker) (cost float64, did bool) {
	for i := range w.came {
		m := &w.came[i]
		e := &w.edges[m.edge]
		e.freed = max(e.freed, m.took)
		if m.acknowledges {
			cost += p.Ack
			continue
		}
		cost += p.Overhead
		if m.pieces > 0 {
			e.owes = p.Ack > 0 && p.detached && !e.answers
			e.came++
			cost += (m.pieces-1)*p.Overhead + m.bytes*p.RecvByte.At(p.vector)
		}
	}
	did = len(w.came) > 0
	w.came = w.came[:0]
	return cost, did
}

// acknowledge sends an acknowledgement by itself.
func (p *play) acknowledge(w *walker) (cost float64, did bool) {
	for i := range w.edges {
		if e := &w.edges[i]; e.owes {
			e.owes = false
			w.sending = event{what: reaches, rank: e.peer, edge: i, took: e.told, acknowledges: true}
			return p.Ack, true
		}
	}
	return 0, false
}

// post has the CPU send what may be sent.
func (p *play) post(w *walker) (cost float64, did bool) {
	for g := w.First; g < w.End(); g++ {
		mv := w.MayPost(g)
		if mv == nil {
			continue
		}
		i := w.at[w.Group(g).Posting]
		e := &w.edges[i]
		if e.posted-min(e.freed, e.sent) == p.slots {
			continue
		}
		posted := &w.posted[g%p.k.Depth]
		pieces, total, last := p.load(mv, g, *posted)
		cost = pieces*p.Overhead + total*p.SendByte.At(p.vector)
		e.posted++
		e.told = e.took
		if p.detached {
			cost += total * p.Copy.At(p.vector)
			e.sent++
		} else {
			w.Group(g).Flying++
		}
		w.sending = event{what: reaches, rank: mv.Peer, edge: i, group: g, pieces: pieces, bytes: total, took: e.took}
		if *posted++; last {
			*posted = 0
			w.PostedPiece(g)
		}
		return cost, true
	}
	return 0, false
}

// transmit gives what the CPU has sent to the port. A port sends and receives one message after
// the other.
func (p *play) transmit(r int, w *walker) {
	m := w.sending
	if m.what != reaches {
		return
	}
	w.sending = event{}
	way := p.edge(r, m.rank)
	var wire float64
	if m.bytes > 0 {
		wire = m.bytes * way.Beta
	}
	m.at = max(p.now, w.sends) + way.Alpha
	m.edge, m.wire = w.edges[m.edge].back, wire
	w.sends = m.at - way.Alpha + wire
	p.events.push(m)
}

// work reduces or copies what is there.
func (p *play) work(r int, w *walker) (cost float64, did bool) {
	for g := w.First; g < w.End(); g++ {
		mv := w.MayWork(g)
		if mv == nil {
			continue
		}
		worked := &w.worked[g%p.k.Depth]
		_, total, last := p.load(mv, g, *worked)
		each := p.Copy.At(p.vector)
		if mv.Do == script.MoveReduce || mv.Do == script.MoveReduceOwn {
			each = p.Gamma.At(p.vector)
		}
		cost = total * each
		if mv.Peer != r {
			i := w.at[w.Group(g).Working]
			e := &w.edges[i]
			if e.came == e.took {
				continue
			}
			e.took++
			if e.took-e.told >= p.slots/2 {
				e.told = e.took
				cost += p.Overhead
				w.sending = event{what: reaches, rank: mv.Peer, edge: i, took: e.took}
			}
		}
		if *worked++; last {
			*worked = 0
			w.WorkedPiece(g)
		}
		return cost, true
	}
	return 0, false
}

// event is what happens to a rank.
type event struct {
	at         float64
	order      uint64 // events of one time happen as they were made
	rank, edge int
	group      int
	took       int     // credited
	pieces     float64 // 0 is a credit alone
	bytes      float64
	wire       float64 // s, at each of the two ports
	what       what

	acknowledges bool // and nothing else
}

type what uint8

const (
	comes   what = iota
	reaches      // the receiver's port, where it queues
	acked
	wakes // the CPU is free
)

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.order < o.order }

// queue is a heap of what is to happen.
type queue struct {
	heap  []event
	order uint64
}

func (q *queue) push(e event) {
	q.order++
	e.order = q.order
	q.heap = append(q.heap, e)
	h, i := q.heap, len(q.heap)-1
	for up := (i - 1) / 2; i > 0 && e.before(&h[up]); up = (i - 1) / 2 {
		h[i] = h[up]
		i = up
	}
	h[i] = e
}

func (q *queue) pop() event {
	top, n := q.heap[0], len(q.heap)-1
	e := q.heap[n]
	q.heap = q.heap[:n]
	h, i := q.heap, 0
	for child := 1; child < n; child = 2*i + 1 {
		if child+1 < n && h[child+1].before(&h[child]) {
			child++
		}
		if !h[child].before(&e) {
			break
		}
		h[i] = h[child]
		i = child
	}
	if n > 0 {
		h[i] = e
	}
	return top
}
