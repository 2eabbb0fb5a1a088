package collective

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"ringcli/collective/plan"
	"ringcli/collective/script"
)

// symbols numbers expressions over the ranks' contributions, so that equal
// expressions have equal numbers. A step commutes, brackets stay.
type symbols struct {
	n     int // 0 to n-1 are the contributions
	shift int
	pairs map[[2]int]int
}

const nothing = -1

func (y *symbols) op(a, b int) int {
	if a == nothing || b == nothing {
		return nothing
	}
	k := [2]int{min(a, b), max(a, b)}
	id, ok := y.pairs[k]
	if !ok {
		id = y.n + len(y.pairs)
		y.pairs[k] = id
	}
	return id
}

// rank is which rank has a place: ranks are turned where a root is to have a place of its own.
func (y *symbols) rank(place int) int { return (place + y.shift) % y.n }

// want is the order that the algorithm documents.
func (y *symbols) want(a Algorithm, k *Call) int {
	y.shift = 0
	if k.Op.Rooted() {
		y.shift = map[Algorithm]int{AlgorithmRecursiveDoubling: k.Root, AlgorithmTree: k.Root + y.n - y.n/2}[a]
	}
	switch a {
	case AlgorithmRecursiveDoubling:
		folded := y.n - 1<<(bits.Len(uint(y.n))-1)
		var v []int
		for r := 0; r < y.n; r++ {
			if r < 2*folded {
				v = append(v, y.op(y.rank(r), y.rank(r+1)))
				r++
				continue
			}
			v = append(v, y.rank(r))
		}
		for dist := len(v) / 2; dist > 0; dist /= 2 {
			for i := range dist {
				v[i] = y.op(v[i], v[i+dist])
			}
		}
		return v[0]
	case AlgorithmTree:
		return y.subtree(0, y.n)
	default:
		value := 0
		for r := 1; r < y.n; r++ {
			value = y.op(value, r)
		}
		return value
	}
}

func (y *symbols) subtree(lo, hi int) int {
	root := (lo + hi) / 2
	value := y.rank(root)
	if lo < root {
		value = y.op(y.subtree(lo, root), y.rank(root))
	}
	if root+1 < hi {
		value = y.op(value, y.subtree(root+1, hi))
	}
	return value
}

// actor plays one rank's script for several groups of segments, by the rules of
// package collective's scriptRun: moves in order within a group, and no group
// ahead of the one before it.
type actor struct {
	script.Script
	rank, size int
	input      []int     // by chunk: of all groups the same
	output     [][]int   // by group and chunk
	partial    [][][]int // by group, area and chunk of the area
	posting    []int     // by group: the next move to be posted, if it is a send
	working    []int     // by group: the next move to be done, if it is not
}

// parcel is a message.
type parcel struct {
	group  int
	what   script.Span
	values []int
}

// scriptCall is a call whose root, if it has one, is somewhere.
func scriptCall(a Algorithm, op Operation, n int) *Call {
	k := &Call{Op: op, Count: n, CallOptions: CallOptions{Algorithm: a}}
	if op.Rooted() {
		k.Root = (3*n + 1) / 4 % n
	}
	return k
}

func newActor(k *Call, rank, n, groups int) *actor {
	sent, _ := k.Buffers(n, rank) // a chunk has an element
	x := &actor{rank: rank, size: n, input: make([]int, n), posting: make([]int, groups), working: make([]int, groups)}
	k.Script(&x.Script, rank, n, nil)
	for c := range x.input {
		x.input[c] = nothing
		if c >= sent.Lo && c < sent.Hi {
			x.input[c] = rank
		}
	}
	for range groups {
		output := slices.Repeat([]int{nothing}, n)
		if !k.Op.Reduces() { // what is here is copied
			copy(output[sent.Lo:sent.Hi], x.input[sent.Lo:sent.Hi])
		}
		x.output = append(x.output, output)
		var areas [][]int
		for _, s := range x.Areas {
			areas = append(areas, slices.Repeat([]int{nothing}, s.Hi-s.Lo))
		}
		x.partial = append(x.partial, areas)
	}
	return x
}

func (x *actor) values(g int, p script.Operand, area int, r script.Span) []int {
	switch p {
	case script.OperandInput:
		return x.input[r.Lo:r.Hi]
	case script.OperandOutput:
		return x.output[g][r.Lo:r.Hi]
	}
	return x.partial[g][area][r.Lo-x.Areas[area].Lo : r.Hi-x.Areas[area].Lo]
}

// post posts what one group may send, if the slot is free.
func (x *actor) post(g int, wire map[[2]int][]parcel, slots int) (moved bool) {
	for x.posting[g] < len(x.Moves) && (g == 0 || x.posting[g-1] > x.posting[g]) {
		m := x.Moves[x.posting[g]]
		if m.Do == script.MoveSend {
			edge := [2]int{x.rank, m.Peer}
			if len(wire[edge]) == slots {
				return moved
			}
			r := script.Span{Lo: m.Lo, Hi: m.Hi}
			wire[edge] = append(wire[edge], parcel{g, r, slices.Clone(x.values(g, m.From, m.Area, r))})
		} else if x.working[g] <= x.posting[g] {
			return moved
		}
		x.posting[g]++
		moved = true
	}
	return moved
}

// takesMessage tells whether a move takes a message.
func takesMessage(m script.Move) bool {
	return m.Do == script.MoveReduce || m.Do == script.MoveStore || m.Do == script.MoveCopy
}

// work does one group's next move that is no send, if its message is there.
func (x *actor) work(t *testing.T, y *symbols, g int, wire map[[2]int][]parcel) bool {
	for x.working[g] < len(x.Moves) && x.Moves[x.working[g]].Do == script.MoveSend {
		x.working[g]++
	}
	if x.working[g] == len(x.Moves) || g > 0 && x.working[g-1] <= x.working[g] {
		return false
	}
	m := x.Moves[x.working[g]]
	r := script.Span{Lo: m.Lo, Hi: m.Hi}
	var got []int
	if takesMessage(m) {
		edge := [2]int{m.Peer, x.rank}
		if len(wire[edge]) == 0 {
			return false
		}
		p := wire[edge][0]
		wire[edge] = wire[edge][1:]
		if p.group != g || p.what != r {
			t.Fatalf("rank %d of %d expects %v of group %d from rank %d: got %v of group %d", x.rank, x.size, r, g, m.Peer, p.what, p.group)
		}
		got = p.values
	}
	to := x.values(g, m.To, m.Into, r)
	switch m.Do {
	case script.MoveReduce:
		own := x.values(g, m.From, m.Area, r)
		for i := range to {
			to[i] = y.op(got[i], own[i])
		}
	case script.MoveReduceOwn:
		own := x.values(g, m.From, m.Area, r)
		for i := range to {
			to[i] = y.op(own[i], x.input[r.Lo+i])
		}
	case script.MoveStore, script.MoveCopy:
		copy(to, got)
	case script.MoveOutput:
		copy(to, x.values(g, m.From, m.Area, r))
	}
	x.working[g]++
	return true
}

func (x *actor) done() bool {
	last := len(x.posting) - 1
	for x.working[last] < len(x.Moves) && x.Moves[x.working[last]].Do == script.MoveSend {
		x.working[last]++
	}
	return x.posting[last] == len(x.Moves) && x.working[last] == len(x.Moves)
}

var (
	scripted  = []Algorithm{AlgorithmRecursiveDoubling, AlgorithmTree, AlgorithmInbox}
	scriptOps = plan.Operations()
)

// forScripts calls f for every script's algorithm, operation and size.
func forScripts(t *testing.T, f func(t *testing.T, a Algorithm, op Operation, n int)) {
	sizes := []int{64}
	for n := 2; n <= 33; n++ {
		sizes = append(sizes, n)
	}
	for _, a := range scripted {
		for _, op := range scriptOps {
			t.Run(fmt.Sprint(a, " ", op), func(t *testing.T) {
				for _, n := range sizes {
					f(t, a, op, n)
				}
			})
		}
	}
}

// TestScripts plays every script on all ranks at once, with one slot on every
// edge and in any order: nothing waits for ever, every message is the one that
// is expected, and every rank ends up with what it must have, in the order of
// operands that the algorithm documents.
func TestScripts(t *testing.T) {
	forScripts(t, func(t *testing.T, a Algorithm, op Operation, n int) {
		const groups = 3
		k := scriptCall(a, op, n)
		rng := rand.New(rand.NewPCG(uint64(n), uint64(op)))
		for round := range 2 {
			y := &symbols{n: n, pairs: map[[2]int]int{}}
			wire := map[[2]int][]parcel{}
			actors := make([]*actor, n)
			for r := range actors {
				actors[r] = newActor(k, r, n, groups)
			}
			for moved := true; moved; {
				moved = false
				for _, r := range rng.Perm(n) {
					for g := range groups {
						if (rng.IntN(2) == 0 || round == 0) && actors[r].post(g, wire, 1) {
							moved = true
						}
						if actors[r].work(t, y, g, wire) {
							moved = true
						}
						if actors[r].post(g, wire, 1) {
							moved = true
						}
					}
				}
			}
			want := y.want(a, k)
			for r, x := range actors {
				if !x.done() {
					t.Fatalf("%d ranks: rank %d waits for ever at move %d and %d of %d", n, r, x.posting, x.working, len(x.Moves))
				}
				for g := range groups {
					for c, got := range x.output[g] {
						want := want
						switch _, received := k.Buffers(n, r); {
						case c < received.Lo || c >= received.Hi:
							want = nothing
						case op == OpBroadcast:
							want = k.Root
						case !op.Reduces():
							want = c
						}
						if got != want {
							t.Fatalf("%d ranks: rank %d has expression %d in chunk %d of group %d, want %d", n, r, got, c, g, want)
						}
					}
				}
			}
			for edge, left := range wire {
				if len(left) > 0 {
					t.Fatalf("%d ranks: %d messages from rank %d to %d were not received", n, len(left), edge[0], edge[1])
				}
			}
		}
	})
}

// TestScriptSteps: messages take one step each; the inbox takes one, the others
// O(log n), and no rank has more than O(log n) peers.
func TestScriptSteps(t *testing.T) {
	forScripts(t, func(t *testing.T, a Algorithm, op Operation, n int) {
		y, k := &symbols{n: n, pairs: map[[2]int]int{}}, scriptCall(a, op, n)
		actors := make([]*actor, n)
		for r := range actors {
			actors[r] = newActor(k, r, n, 1)
		}
		log := bits.Len(uint(n - 1))
		steps := 0
		wire := map[[2]int][]parcel{}
		for moved := true; moved; {
			moved = false
			next := map[[2]int][]parcel{}
			for _, x := range actors {
				for x.work(t, y, 0, wire) {
					moved = true
				}
				moved = x.post(0, next, 1) || moved
			}
			if len(next) > 0 {
				steps++
			}
			for edge, p := range wire { // what is not taken yet
				next[edge] = append(p, next[edge]...)
			}
			wire = next
		}
		most := map[Algorithm]int{AlgorithmInbox: 1, AlgorithmRecursiveDoubling: log + 1, AlgorithmTree: 2 * log}[a]
		if steps > most || steps == 0 {
			t.Errorf("%d ranks: %d steps, want at most %d", n, steps, most)
		}
		for r, x := range actors {
			peers := map[int]bool{}
			x.Peers(peers)
			most := map[Algorithm]int{AlgorithmInbox: n - 1, AlgorithmRecursiveDoubling: log, AlgorithmTree: 3}[a]
			if len(peers) > most || len(peers) == 0 || peers[r] {
				t.Errorf("%d ranks: rank %d has to do with %v, want at most %d others", n, r, peers, most)
			}
			for p := range peers {
				back := map[int]bool{}
				actors[p].Peers(back)
				if !back[r] {
					t.Errorf("%d ranks: rank %d has to do with %d, but not %d with %d", n, r, p, p, r)
				}
			}
		}
	})
}

// TestScriptOneMessage: there is at most one message from one rank to another,
// which is what keeps the groups of an edge in order.
func TestScriptOneMessage(t *testing.T) {
	forScripts(t, func(t *testing.T, a Algorithm, op Operation, n int) {
		for r := range n {
			var s script.Script
			scriptCall(a, op, n).Script(&s, r, n, nil)
			sent, received, areas := map[int]bool{}, map[int]bool{}, map[int]bool{}
			for _, m := range s.Moves {
				if m.Do == script.MoveSend && m.From == script.OperandPartial {
					areas[m.Area] = true
				}
				if m.Do != script.MoveSend && m.To == script.OperandPartial && areas[m.Into] {
					t.Fatalf("%d ranks: rank %d overwrites partial results that may be on their way", n, r)
				}
				set := received
				switch {
				case m.Do == script.MoveSend:
					set = sent
				case !takesMessage(m):
					continue
				}
				if set[m.Peer] {
					t.Fatalf("%d ranks: rank %d has two messages with rank %d one way", n, r, m.Peer)
				}
				set[m.Peer] = true
				if s.Whole && (m.Lo != 0 || m.Hi != n) || m.Lo >= m.Hi {
					t.Fatalf("%d ranks: rank %d moves the chunks [%d, %d)", n, r, m.Lo, m.Hi)
				}
			}
		}
	})
}
