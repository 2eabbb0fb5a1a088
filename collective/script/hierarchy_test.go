package script

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"ringcli/collective/reduce"
	"ringcli/collective/topology"
)

// hosts are those of the tests: even and uneven, ranks that follow one another and ranks by turns.
var hosts = map[string]*topology.Hosts{
	"2x2": topology.Sized(2, 2), "3+1": topology.Sized(3, 1), "4x4": topology.Sized(4, 4, 4, 4), "1+7": topology.Sized(1, 7),
	"3+2": topology.Sized(3, 2), "2+4+1": topology.Sized(2, 4, 1), "one": topology.Sized(5), "1+1+1": topology.Sized(1, 1, 1),
	"by turns": topology.Of([]string{"a", "b", "c", "a", "b", "c", "a", "b"}), "2x9": topology.Sized(9, 9),
}

// players are the ranks of an operation on expressions in place of numbers.
type players struct {
	t      *testing.T
	rng    *rand.Rand
	ranks  []player
	wire   map[[2]int][]parcel
	slots  int
	name   string
	tosses int // against coin throws that keep a rank from what it could do
}

type player struct {
	Walk
	script  Script
	input   []string
	output  []string
	partial [][][]string // by group modulo depth and area
	flying  []flight
}

type parcel struct {
	group, from, to int
	values          []string
}

type flight struct{ group int }

func (p *players) values(r *player, o Operand, area, g int, m *Move, piece, from, to int) []string {
	switch o {
	case OperandInput:
		return r.input[from:to]
	case OperandOutput:
		return r.output[from:to]
	}
	at := r.Offset(r.script.Areas[area], m.Lo, piece, from)
	return r.partial[g%r.Depth][area][at:][:to-from]
}

// post posts a piece of a group, if it may be.
func (p *players) post(rank, g int) bool {
	r := &p.ranks[rank]
	m := r.MayPost(g)
	if m == nil {
		return false
	}
	edge := [2]int{rank, m.Peer}
	if len(p.wire[edge]) == p.slots {
		return false
	}
	piece := r.Group(g).Posted
	from, to := r.Piece(m.Lo, m.Hi, g, piece)
	p.wire[edge] = append(p.wire[edge], parcel{g, from, to, slices.Clone(p.values(r, m.From, m.Area, g, m, piece, from, to))})
	r.Group(g).Flying++
	r.flying = append(r.flying, flight{g})
	r.PostedPiece(g)
	return true
}

// work works a piece of a group, if it may and its message is there.
func (p *players) work(rank, g int) bool {
	r := &p.ranks[rank]
	m := r.MayWork(g)
	if m == nil {
		return false
	}
	piece := r.Group(g).Worked
	from, to := r.Piece(m.Lo, m.Hi, g, piece)
	if m.Do == MoveOutput {
		copy(p.values(r, m.To, m.Into, g, m, piece, from, to), p.values(r, m.From, m.Area, g, m, piece, from, to))
		r.WorkedPiece(g)
		return true
	}
	edge := [2]int{m.Peer, rank}
	if len(p.wire[edge]) == 0 {
		return false
	}
	got := p.wire[edge][0]
	if got.group != g || got.from != from || got.to != to {
		p.t.Fatalf("%s: rank %d expects elements [%d, %d) of group %d from rank %d: got [%d, %d) of group %d", p.name, rank, from, to, g, m.Peer, got.from, got.to, got.group)
	}
	p.wire[edge] = p.wire[edge][1:]
	result := p.values(r, m.To, m.Into, g, m, piece, from, to)
	if m.Do == MoveReduce {
		own := p.values(r, m.From, m.Area, g, m, piece, from, to)
		for i := range result {
			result[i] = "(" + own[i] + " " + got.values[i] + ")"
		}
	} else {
		copy(result, got.values)
	}
	r.WorkedPiece(g)
	return true
}

// play has all ranks do what they may, in any order, until nobody can do more.
func (p *players) play() {
	for moved := true; moved; {
		moved = false
		for _, rank := range p.rng.Perm(len(p.ranks)) {
			r := &p.ranks[rank]
			for len(r.flying) > 0 && (moved || p.rng.IntN(2) == 0) {
				r.Group(r.flying[0].group).Flying--
				r.flying = r.flying[1:]
				moved = true
			}
			for g := r.First; g < r.End(); g++ {
				for p.rng.IntN(4) > 0 && p.post(rank, g) {
					moved = true
				}
				for p.rng.IntN(4) > 0 && p.work(rank, g) {
					moved = true
				}
			}
			r.Leave()
		}
		if moved {
			p.tosses = 0
		} else if p.tosses++; p.tosses < 100 {
			moved = true
		}
	}
}

// wantAlong is the order of operands that is documented, of the chunk of a rank.
func wantAlong(h *topology.Hosts, owner int) string {
	total := ""
	join := func(a, b string) string {
		if a == "" {
			return b
		}
		return "(" + a + " " + b + ")"
	}
	for k := range h.Number() {
		host := (h.Host(owner) + k) % h.Number()
		ranks := h.Ranks(host)
		first := h.Place(owner) * len(ranks) / len(h.On(owner))
		sum := ""
		for i := range ranks {
			sum = join(sum, fmt.Sprint(ranks[(first+i)%len(ranks)]))
		}
		total = join(total, sum)
	}
	return total
}

// TestHierarchy plays every operation along hosts of many kinds, with vectors of fewer elements
// than there are ranks and of many segments, at any depth: no rank waits for ever or gets a
// message that it does not expect, and the results are in the order of operands that is
// documented. So it is where the ranks of each host share memory, and there are messages between hosts alone.
func TestHierarchy(t *testing.T) {
	for _, between := range []bool{false, true} {
		for name, h := range hosts {
			if !between || h.Number() > 1 {
				hierarchy(t, name, h, between)
			}
		}
	}
}

func hierarchy(t *testing.T, name string, h *topology.Hosts, between bool) {
	if between {
		name += " in memory"
	}
	n := len(h.Order())
	for op, write := range map[string]func(Operations){
		"all-reduce": Operations.AllReduce, "reduce-scatter": Operations.ReduceScatter, "all-gather": Operations.AllGather,
		"broadcast": Operations.Broadcast, "reduce": Operations.Reduce,
	} {
		t.Run(name+" "+op, func(t *testing.T) {
			for round, shape := range []struct{ count, segment, depth, slots int }{
				{n - 1, 4, 4, 8}, {n*3 + 1, 1000, 2, 1}, {n*29 + 3, 2, 2, 1}, {n*29 + 3, 2, 3, 2}, {n*29 + 3, 3, 8, 8}, {n*29 + 3, 3, 16, 1},
			} {
				for _, inPlace := range []bool{false, true} {
					root := round % n
					p := &players{t: t, rng: rand.New(rand.NewPCG(uint64(round), 7)), ranks: make([]player, n), wire: map[[2]int][]parcel{}, slots: shape.slots,
						name: fmt.Sprintf("%+v, root %d, in place %v", shape, root, inPlace)}
					for rank := range p.ranks {
						p.ranks[rank].script.Between = between
						p.ranks[rank].begin(Hierarchical, write, op, h, rank, root, shape.count, shape.segment, shape.depth, inPlace)
					}
					if between {
						p.before(op, h, root, shape.count, shape.segment, shape.depth)
					}
					p.play()
					if between {
						p.behind(op, h, root, shape.count)
					}
					for rank := range p.ranks {
						r := &p.ranks[rank]
						if !r.Made() {
							t.Fatalf("%s: rank %d waits for ever in group %d, %+v", p.name, rank, r.First, r.Group(r.First))
						}
						for i, got := range r.output {
							chunk := 0
							for c := range n {
								if lo, hi := reduce.Chunk(shape.count, n, c); i >= lo && i < hi {
									chunk = c
								}
							}
							owner := h.Order()[chunk]
							var want string
							switch op {
							case "all-reduce":
								want = wantAlong(h, owner)
							case "reduce-scatter":
								if want = got; chunk == rank {
									want = wantAlong(h, chunk)
								}
							case "all-gather":
								want = fmt.Sprint(chunk)
							case "broadcast":
								want = fmt.Sprint(root)
							case "reduce":
								if want = got; rank == root {
									want = wantAlong(h, owner)
								}
							}
							if got != want {
								t.Fatalf("%s: rank %d has %s as element %d, want %s", p.name, rank, got, i, want)
							}
						}
					}
					for edge, left := range p.wire {
						if len(left) > 0 {
							t.Fatalf("%s: %d messages from rank %d to %d were not received", p.name, len(left), edge[0], edge[1])
						}
					}
				}
			}
		})
	}
}

// set calls f for the elements of which a rank takes care.
func (p *players) set(h *topology.Hosts, rank, count int, f func(i int)) {
	for at := h.Set(rank).Lo; at < h.Set(rank).Hi; at++ {
		chunk := at
		if order := p.ranks[rank].script.Order; order != nil {
			chunk = order[at]
		}
		lo, hi := reduce.Chunk(count, len(p.ranks), chunk)
		for i := lo; i < hi; i++ {
			f(i)
		}
	}
}

// before is what the ranks of each host do in memory before the script.
func (p *players) before(op string, h *topology.Hosts, root, count, segment, depth int) {
	sums := make([][]string, len(p.ranks))
	for rank := range p.ranks {
		here := h.On(rank)
		sums[rank] = slices.Repeat([]string{"nothing"}, count)
		p.set(h, rank, count, func(i int) {
			sum := p.ranks[rank].input[i]
			for k := 1; k < len(here); k++ {
				sum = "(" + sum + " " + p.ranks[here[(h.Place(rank)+k)%len(here)]].input[i] + ")"
			}
			sums[rank][i] = sum
		})
	}
	for rank := range p.ranks {
		r := &p.ranks[rank]
		there := h.Host(rank) == h.Host(root)
		switch {
		case len(h.On(rank)) == 1 || op == "all-gather":
		case op == "broadcast":
			if there && rank != root {
				r.output = slices.Clone(p.ranks[root].input)
			}
		case op == "all-reduce" || op == "reduce" && there:
			r.input = sums[rank]
			r.output = r.input
			r.SetOut(&r.script, count, segment, depth, true)
		default:
			r.input = sums[rank]
			r.SetOut(&r.script, count, segment, depth, false)
		}
	}
}

// behind is what they do behind it.
func (p *players) behind(op string, h *topology.Hosts, root, count int) {
	for rank := range p.ranks {
		if op == "reduce-scatter" || op == "reduce" && rank != root || op == "broadcast" && h.Host(rank) == h.Host(root) {
			continue
		}
		for _, peer := range h.On(rank) {
			p.set(h, peer, count, func(i int) { p.ranks[rank].output[i] = p.ranks[peer].output[i] })
		}
	}
}

// begin has a player begin an operation.
func (r *player) begin(by Algorithm, write func(Operations), op string, h *topology.Hosts, rank, root, count, segment, depth int, inPlace bool) {
	n := len(h.Order())
	r.script.Compile(by, write, op != "reduce-scatter" && op != "all-gather", root, rank, n, h)
	r.SetOut(&r.script, count, segment, depth, inPlace)
	lo, hi := 0, count
	switch {
	case op == "all-gather":
		lo, hi = reduce.Chunk(count, n, rank)
	case op == "broadcast" && rank != root:
		hi = 0
	}
	r.input, r.output = slices.Repeat([]string{"nothing"}, count), slices.Repeat([]string{"garbage"}, count)
	if inPlace {
		r.output = r.input
	}
	for i := lo; i < hi; i++ {
		r.input[i] = fmt.Sprint(rank)
		if op == "all-gather" || op == "broadcast" {
			r.output[i] = r.input[i] // which is copied
		}
	}
	for range depth {
		var areas [][]string
		for _, a := range r.script.Areas {
			areas = append(areas, slices.Repeat([]string{"stale"}, r.Room(a)))
		}
		r.partial = append(r.partial, areas)
	}
}

// TestHierarchyBytes: of an all-reduce each host sends 2(H-1)/H of the vector to others, where
// hosts are alike.
func TestHierarchyBytes(t *testing.T) {
	for _, h := range []*topology.Hosts{hosts["2x2"], hosts["4x4"], hosts["2x9"], topology.Of([]string{"a", "b", "a", "b", "b", "a"})} {
		n := len(h.Order())
		count := n * 12
		sent := make([]int, h.Number())
		for rank := range n {
			var s Script
			s.Compile(Hierarchical, Operations.AllReduce, true, 0, rank, n, h)
			cut := NewCut(count, 5, n, &s)
			for _, m := range s.Moves {
				if m.Do == MoveSend && h.Host(m.Peer) != h.Host(rank) {
					sent[h.Host(rank)] += cut.Start(m.Hi) - cut.Start(m.Lo)
				}
			}
		}
		for host, got := range sent {
			if want := 2 * count * (h.Number() - 1) / h.Number(); got != want {
				t.Errorf("%s: host %d sends %d of %d elements, want %d", h, host, got, count, want)
			}
		}
	}
}

// TestHierarchyOneMessage: of each lap there is at most one message from one rank to another, and
// what was sent from is not written again.
func TestHierarchyOneMessage(t *testing.T) {
	for name, h := range hosts {
		for _, write := range []func(Operations){
			Operations.AllReduce, Operations.ReduceScatter, Operations.AllGather, Operations.Broadcast, Operations.Reduce,
		} {
			n := len(h.Order())
			most := 0
			for rank := range n {
				var s Script
				s.Compile(Hierarchical, write, true, n/2, rank, n, h)
				seen, from, peers := map[[3]int]bool{}, map[int]bool{}, map[int]bool{}
				for _, m := range s.Moves {
					way := [3]int{m.Peer, m.lap, 0}
					if m.Do == MoveSend {
						way[2] = 1
						from[m.Area] = from[m.Area] || m.From == OperandPartial
					} else if m.To == OperandPartial && from[m.Into] {
						t.Fatalf("%s: rank %d overwrites partial results that may be on their way", name, rank)
					}
					if seen[way] {
						t.Fatalf("%s: rank %d has two messages of lap %d with rank %d one way", name, rank, m.lap, m.Peer)
					}
					seen[way] = true
				}
				s.Peers(peers)
				most = max(most, len(peers))
			}
			if most > h.Peers() {
				t.Errorf("%s: a rank has to do with %d others, want at most %d", name, most, h.Peers())
			}
		}
	}
}

// TestHierarchyBarrier: at the end of a barrier every rank has heard of all.
func TestHierarchyBarrier(t *testing.T) {
	for name, h := range hosts {
		n := len(h.Order())
		scripts, known, next := make([]Script, n), make([]map[int]bool, n), make([]int, n)
		for r := range scripts {
			scripts[r].Compile(Hierarchical, Operations.Barrier, true, 0, r, n, h)
			known[r] = map[int]bool{r: true}
		}
		wire := map[[2]int]map[int]bool{}
		for moved := true; moved; {
			moved = false
			for r := range scripts {
				if next[r] == len(scripts[r].Moves) {
					continue
				}
				m := scripts[r].Moves[next[r]]
				if came := wire[[2]int{m.Peer, r}]; m.Do == MoveSend {
					wire[[2]int{r, m.Peer}] = maps.Clone(known[r])
				} else if came == nil {
					continue
				} else {
					maps.Copy(known[r], came)
				}
				next[r]++
				moved = true
			}
		}
		for r := range scripts {
			if len(known[r]) != n || next[r] != len(scripts[r].Moves) {
				t.Errorf("%s: rank %d has heard of %d of %d, after %d of %d moves", name, r, len(known[r]), n, next[r], len(scripts[r].Moves))
			}
		}
	}
}
