package model

import (
	"math"

	"ringcli/collective"
	"ringcli/collective/sharedmem"
)

// direct is the time of ranks that share memory: loads and stores, no messages.
//
// The inbox is a round in which a rank has a line of each other one: (n-1)λ. Vectors longer than a
// word are written into the peers' boards, (n-1)bκ for b bytes, and taken from there, (n-1)bκ, or
// (n-1)bγ to be reduced. In a large team each posts it once in its own board, bκ. From some length
// on it is read where it is, for two rounds more.
//
// A short vector of an operation with a root goes through queues, and nobody waits for its way:
// λ + bκ for a broadcast, (n-1)(λ + bγ) for a reduce, by its root.
//
// The ring is pulled: (n-1) chunks of c = V/n bytes are reduced from where they lie, as many
// copied. The ranks meet before and after; between, each waits for the first step of the others.
//
//	all-reduce      2(n-1)λ + (n-1)c(γ + κ) + cγ(n-1)/steps + 2λ
//	reduce-scatter  2(n-1)λ + (n-1)cγ
//	all-gather      2(n-1)λ + nc κ
//	broadcast       2(n-1)λ + Vκ
//	reduce          as all-reduce: the root alone gathers
func (m *Machine) direct(k *collective.Call) float64 {
	const word = 8
	n, v := float64(m.Ranks), bytes(k)
	others, meet := n-1, (n-1)*m.Line
	reduces, rooted, scatters := k.Op.Reduces(), k.Op.Rooted(), k.Op == collective.OpReduceScatter
	taken := m.Copy // of each byte that another rank gives
	if reduces {
		taken = m.Gamma
	}
	if k.Algorithm != collective.AlgorithmInbox {
		chunk := v / n
		t := 2*meet + others*chunk*taken + m.copyOwn(k)
		if reduces && !scatters { // then gathered
			steps := float64(sharedmem.Steps(int(math.Ceil(chunk)), m.Ranks))
			t += 2*m.Line + others*chunk*(m.Copy+m.Gamma/steps)
		} else if rooted { // all copy the whole at once
			t = 2*meet + m.copyOwn(k)
		}
		return t
	}
	if rooted && v <= sharedmem.QueueMost {
		if !reduces {
			others = 1
		}
		if v <= word {
			v = 0
		}
		return others * (m.Line + v*taken)
	}
	own := v
	if k.Op != collective.OpAllReduce && !rooted {
		own = v / n
	}
	posted := own
	if sharedmem.Posts(m.Ranks) && scatters { // each takes its chunk of what was posted whole
		posted = v
	}
	pieces := max(1, math.Ceil(posted/sharedmem.InboxPiece))
	t := pieces * meet
	if own <= word {
		return t + m.copyOwn(k)
	}
	switch {
	case posted >= sharedmem.ReferBytes*others:
		t += (pieces + 1) * meet
	case sharedmem.Posts(m.Ranks):
		t += posted * m.Copy
	default:
		t += others * own * m.Copy
	}
	if rooted && !reduces {
		return t + own*taken
	}
	if rooted {
		return t + others*own*taken // by the root, and no other
	}
	return t + others*own*taken + m.copyOwn(k)
}
