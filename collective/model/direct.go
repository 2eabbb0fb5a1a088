package model

import (
	"math"

	"ringcli/collective"
	"ringcli/collective/sharedmem"
)

// direct is the time of ranks that share memory: loads and stores, no messages.
//
// The inbox is a round in which a rank has a line of each other one: (n-1)λ. What is
// longer than a word is written into the peers' boards, (n-1)bκ for b bytes, and reduced
// from there; from a page for each peer on it is read where it is, for two rounds more:
// (n-1)bγ and 2(n-1)λ. In a large team, or one whose ranks take turns on the CPUs, each posts
// it once in its own board: bκ.
//
// A short vector of an operation with a root goes through queues. Who contributes posts it,
// bκ beyond a word, and is ahead of who takes it, so that in a row of them nobody waits for
// the way of a line: λ + bκ for a broadcast, and the root of a reduce has n-1 lines to take,
// (n-1)(λ + bγ).
//
// The ring is pulled: (n-1) chunks of c = V/n bytes reduced from where they lie, as many
// copied. The ranks meet before, to say where their buffers are, and after, when nobody
// reads them any more; between, each waits for the first step of the others, of which a
// chunk has four at least.
//
//	all-reduce      2(n-1)λ + (n-1)c(γ + κ) + cγ(n-1)/steps + 2λ
//	reduce-scatter  2(n-1)λ + (n-1)cγ
//	all-gather      2(n-1)λ + nc κ
//	broadcast       2(n-1)λ + Vκ
//	reduce          as all-reduce: the root alone gathers
func (m *Machine) direct(k *collective.Call) float64 {
	n, v := float64(m.Ranks), bytes(k)
	meet := (n - 1) * m.Line
	gamma, copied := m.Gamma.At(v), m.Copy.At(v)
	if k.Algorithm != collective.AlgorithmInbox {
		chunk := v / n
		if k.Op.Rooted() && !k.Op.Reduces() { // all copy it at once, the root too
			return m.Call + 2*meet + v*copied
		}
		t := m.Call + 2*meet + m.copyOwn(k)
		if k.Op.Reduces() {
			t += (n - 1) * chunk * gamma
		}
		if k.Op != collective.OpReduceScatter {
			t += (n - 1) * chunk * copied
		}
		if k.Op.Phases() == 2 || k.Op.Rooted() {
			steps := float64(sharedmem.Steps(int(math.Ceil(chunk)), m.Ranks))
			t += 2*m.Line + (n-1)*chunk*gamma/steps
		}
		return t
	}
	const word = 8
	if k.Op.Rooted() && v <= sharedmem.QueueMost {
		others, each := 1.0, copied
		if k.Op.Reduces() {
			others, each = n-1, gamma
		}
		t := m.Call + others*m.Line
		if v > word {
			t += others * v * each
		}
		return t
	}
	own := v
	if k.Op != collective.OpAllReduce && !k.Op.Rooted() {
		own = v / n
	}
	posts, posted := sharedmem.Posts(m.Ranks) || m.CPUs > 0 && m.Ranks > m.CPUs, own
	if posts && k.Op == collective.OpReduceScatter { // each takes its chunk of what was posted whole
		posted = v
	}
	pieces := max(1, math.Ceil(posted/sharedmem.InboxPiece))
	t := pieces * meet
	switch refers := own >= 4<<10*(n-1); {
	case own <= word:
	case posts:
		t += posted * copied
	case refers:
		t += (pieces + 1) * meet
	default:
		t += (n - 1) * own * copied
	}
	if own > word {
		if k.Op.Reduces() {
			t += (n - 1) * own * gamma
		} else if k.Op.Rooted() {
			t += own * copied
		} else {
			t += (n - 1) * own * copied
		}
	}
	return m.Call + t + m.copyOwn(k)
}
