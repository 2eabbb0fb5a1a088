package model

import (
	"math"

	"ringcli/collective"
	"ringcli/collective/sharedmem"
)

// direct is the time of ranks that share memory: loads and stores, no messages.
//
// The inbox is a round in which a rank has a line of each other one: (n-1)λ, and a turn if there
// are fewer CPUs. What is longer than a word is written into the peers' boards, (n-1)bκ for b
// bytes, and taken from there, (n-1)bφ, or to be reduced (n-1)b(φ + γ - κ). In a large team each
// posts it once in its own board, bκ, and so does one whose ranks take turns on the CPUs with
// what is the same for all. From some length on it is read where it is, for two rounds more:
// (n-1)bγ and 2(n-1)λ. What all ranks of a CPU do takes as many times as long.
//
// A short vector of an operation with a root goes through queues. Who contributes posts it,
// bκ beyond a word, and is ahead of who takes it, so that in a row of them nobody waits for
// the way of a line: λ + bφ for a broadcast, and the root of a reduce has n-1 lines to take,
// (n-1)(λ + b(φ + γ - κ)).
//
// The ring is pulled: (n-1) chunks of c = V/n bytes reduced from where they lie, as many
// copied. The ranks meet before, to say where their buffers are, and after, when nobody
// reads them any more; between, each waits for the first step of the others, of which a
// chunk has four at least.
//
//	all-reduce      2(n-1)λ + (n-1)c(γ + φ) + cγ(n-1)/steps + 2λ
//	reduce-scatter  2(n-1)λ + (n-1)cγ
//	all-gather      2(n-1)λ + nc κ
//	broadcast       2(n-1)λ + Vκ
//	reduce          as all-reduce: the root alone gathers
func (m *Machine) direct(k *collective.Call) float64 {
	n, v := float64(m.Ranks), bytes(k)
	meet, all := (n-1)*m.Line+m.turn(), m.crowd() // what all do at once takes so many times as long
	gamma, copied, fetched := m.Gamma.At(v), m.Copy.At(v), m.fetch(v)
	if k.Algorithm != collective.AlgorithmInbox {
		chunk := v / n
		if k.Op.Rooted() && !k.Op.Reduces() { // all copy it at once, the root too
			return m.Call + 2*meet + all*v*copied
		}
		t := m.Call + 2*meet + all*m.copyOwn(k)
		if k.Op.Reduces() {
			t += all * (n - 1) * chunk * gamma
		}
		switch {
		case k.Op == collective.OpReduceScatter:
		case k.Op.Rooted():
			t += (n - 1) * chunk * fetched
		case k.Op.Reduces():
			t += all * (n - 1) * chunk * fetched
		default:
			t += all * (n - 1) * chunk * copied
		}
		if k.Op.Phases() == 2 || k.Op.Rooted() {
			steps := float64(sharedmem.Steps(int(math.Ceil(chunk)), m.Ranks))
			t += 2*m.Line + all*(n-1)*chunk*gamma/steps
		}
		return t
	}
	const word = 8
	if k.Op.Rooted() && v <= sharedmem.QueueMost {
		others, each := 1.0, fetched
		if k.Op.Reduces() {
			others, each = n-1, gamma+fetched-copied
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
	scatters := k.Op == collective.OpReduceScatter
	posts, posted := sharedmem.Posts(m.Ranks) || all > 1 && !scatters, own
	if posts && scatters { // each takes its chunk of what was posted whole
		posted = v
	}
	refers := posted >= sharedmem.ReferBytes*(n-1)
	if !posts && all > 1 {
		refers = v >= sharedmem.ReferTurns
	}
	pieces := max(1, math.Ceil(posted/sharedmem.InboxPiece))
	t := m.Call + pieces*meet
	if own <= word {
		return t + m.copyOwn(k)
	}
	taken := fetched // of each byte that another rank gives
	switch {
	case refers:
		t += (pieces + 1) * meet
		taken = copied
	case posts && k.Op.Rooted() && !k.Op.Reduces():
		t += posted * copied
	case posts:
		t += all * posted * copied
	default:
		t += (n - 1) * own * copied
	}
	if k.Op.Reduces() {
		taken += gamma - copied
	}
	switch {
	case !k.Op.Rooted():
		return t + all*((n-1)*own*taken+m.copyOwn(k))
	case k.Op.Reduces():
		return t + (n-1)*own*taken // by the root, and no other
	}
	return t + all*own*taken
}
