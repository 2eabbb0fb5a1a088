// Package narrow finds what wrong elements have in common.
package narrow

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// Word is an element that is not what it must be, as it was found by a check.
type Word struct {
	Element int    `json:"element"`
	Got     uint64 `json:"got"` // bits
	Want    uint64 `json:"want"`
	// Where it came from, if that was found.
	Rank  int `json:"-"` // that found it
	From  int `json:"-"` // the edge; the same as To if it is not known
	To    int `json:"-"`
	Check int `json:"-"` // counts the checks of a run
}

// Pattern is what wrong words have in common. The JSON names are a contract with scripts.
type Pattern struct {
	Words   int    `json:"words"` // that were looked at, and
	Of      int    `json:"of"`    // how many there were
	Kind    string `json:"kind"`  // bit-set, bit-cleared, bit-flipped, bits-flipped, one-bit, operand-bit, zeroed, constant, shifted or none
	Fits    int    `json:"fits"`  // words that it is true of
	Bit     *int   `json:"bit,omitempty"`
	Mask    uint64 `json:"mask,omitempty"`        // of the bits that changed
	Shift   int    `json:"shift_bytes,omitempty"` // from where the data belongs to where it is
	Longest int    `json:"longest_bytes"`         // of the runs of wrong words
	Checks  int    `json:"checks"`                // that found some
	Text    string `json:"text"`
}

// most is the share of the words that a pattern has to fit: a run of faults may have one
// of another kind in it.
const most = 0.9

// Down finds what wrong words have in common. size is that of an element in bytes, checks
// how many checks there were, took how long they took. of is how many words were wrong, of
// which words are a sample.
func Down(words []Word, of, size, checks int, took time.Duration) Pattern {
	p := Pattern{Words: len(words), Of: of, Kind: "none"}
	if len(words) == 0 {
		return p
	}
	slices.SortStableFunc(words, func(a, b Word) int { return cmp.Or(a.Check-b.Check, a.Element-b.Element) })
	what := p.bits(words, size)
	parts := []string{fmt.Sprintf("%d of %d wrong words: %s", p.Fits, p.Words, what)}
	if p.runs(words, size); p.Longest > size {
		parts = append(parts, fmt.Sprintf("in runs of up to %d bytes", p.Longest))
	}
	parts = append(parts, origins(words), fmt.Sprintf("in %d of %d checks within %s", p.Checks, checks, took.Round(100*time.Millisecond)))
	p.Text = strings.Join(parts, ", ")
	if of > len(words) {
		p.Text += fmt.Sprintf(" (%d more words were wrong)", of-len(words))
	}
	return p
}

// bits looks at how words differ from what they must be: the most particular pattern that
// fits most of them counts.
func (p *Pattern) bits(words []Word, size int) string {
	count := func(fits func(w Word) bool) int {
		n := 0
		for _, w := range words {
			if fits(w) {
				n++
			}
		}
		return n
	}
	enough := func(n int) bool { return float64(n) >= most*float64(len(words)) }
	single := func(w Word) bool { return bits.OnesCount64(w.Got^w.Want) == 1 }
	mask := commonest(words, func(w Word) uint64 { return w.Got ^ w.Want })
	if n := count(func(w Word) bool { return w.Got^w.Want == mask }); enough(n) {
		p.Fits, p.Mask = n, mask
		if bits.OnesCount64(mask) > 1 {
			if n := count(func(w Word) bool { return w.Got == 0 }); !enough(n) {
				p.Kind = "bits-flipped"
				return fmt.Sprintf("the bits %#x flipped", mask)
			}
		} else {
			bit := bits.TrailingZeros64(mask)
			p.Bit = &bit
			switch count(func(w Word) bool { return w.Got^w.Want == mask && w.Got&mask != 0 }) {
			case n:
				p.Kind = "bit-set"
				return fmt.Sprintf("bit %d set", bit)
			case 0:
				p.Kind = "bit-cleared"
				return fmt.Sprintf("bit %d cleared", bit)
			}
			p.Kind = "bit-flipped"
			return fmt.Sprintf("bit %d flipped", bit)
		}
	}
	p.Mask = 0
	if n := count(single); enough(n) {
		p.Kind, p.Fits = "one-bit", n
		return "one bit flipped, not always the same"
	}
	if n := count(func(w Word) bool { return w.Got == 0 }); enough(n) {
		p.Kind, p.Fits = "zeroed", n
		return "zero"
	}
	value := commonest(words, func(w Word) uint64 { return w.Got })
	if n := count(func(w Word) bool { return w.Got == value }); enough(n) && n > 1 {
		p.Kind, p.Fits = "constant", n
		return fmt.Sprintf("always %#x", value)
	}
	if shift, n := shifted(words); enough(n) {
		p.Kind, p.Fits, p.Shift = "shifted", n, shift*size
		if p.Shift < 0 {
			return fmt.Sprintf("data that belongs %d bytes further on", -p.Shift)
		}
		return fmt.Sprintf("data that belongs %d bytes before", p.Shift)
	}
	full := ^uint64(0) >> (64 - 8*size)
	step := commonest(words, func(w Word) uint64 { return stepOf(w, full) })
	if n := count(func(w Word) bool { return stepOf(w, full) == step }); step != 0 && enough(n) {
		bit := bits.TrailingZeros64(step)
		p.Kind, p.Fits, p.Bit = "operand-bit", n, &bit
		return fmt.Sprintf("off by 2^%d, as from bit %d of an operand of the sum", bit, bit)
	}
	p.Fits = len(words)
	return "no pattern in the bits"
}

// stepOf is the power of two that a sum is off by; 0 if it is off by anything else.
func stepOf(w Word, full uint64) uint64 {
	for _, d := range [...]uint64{(w.Got - w.Want) & full, (w.Want - w.Got) & full} {
		if bits.OnesCount64(d) == 1 {
			return d
		}
	}
	return 0
}

// commonest is the value that most words have.
func commonest(words []Word, of func(w Word) uint64) (value uint64) {
	counts := map[uint64]int{}
	best := 0
	for _, w := range words {
		v := of(w)
		if counts[v]++; counts[v] > best {
			best, value = counts[v], v
		}
	}
	return value
}

// shifted finds how many elements before its place data belongs, by what other words of the
// same check must be; and of how many words that is true. Words near the edge of a run
// have no such neighbour, and count if the run has others.
func shifted(words []Word) (shift, fits int) {
	const farthest = 1 << 10
	type place struct{ check, element int }
	want := map[place]uint64{}
	for _, w := range words {
		want[place{w.Check, w.Element}] = w.Want
	}
	votes := map[int]int{}
	for i, w := range words {
		for _, o := range words[max(0, i-64):min(len(words), i+64)] {
			if d := w.Element - o.Element; o.Check == w.Check && d != 0 && max(d, -d) <= farthest && o.Want == w.Got && w.Got != 0 {
				votes[d]++
			}
		}
	}
	for d, n := range votes {
		if n > votes[shift] || n == votes[shift] && d < shift {
			shift = d
		}
	}
	if votes[shift] < 2 {
		return 0, 0
	}
	for _, w := range words {
		if v, ok := want[place{w.Check, w.Element - shift}]; !ok || v == w.Got {
			fits++
		}
	}
	return shift, fits
}

// runs measures the longest run of wrong words, and counts the checks that found some.
func (p *Pattern) runs(words []Word, size int) {
	run := 0
	for i, w := range words {
		if i == 0 || words[i-1].Check != w.Check {
			p.Checks++
		}
		if i == 0 || words[i-1].Check != w.Check || words[i-1].Element+1 != w.Element {
			run = 0
		}
		run += size
		p.Longest = max(p.Longest, run)
	}
}

// origins says where the words came from.
func origins(words []Word) string {
	type edge struct{ from, to int }
	counts := map[edge]int{}
	ranks := map[int]bool{}
	for _, w := range words {
		counts[edge{w.From, w.To}]++
		ranks[w.Rank] = true
	}
	var texts []string
	for e, n := range counts {
		text := ""
		switch {
		case e.from != e.to:
			text = fmt.Sprintf("entered by rank %d to rank %d", e.from, e.to)
		case e.from >= 0:
			text = fmt.Sprintf("went wrong within rank %d", e.from)
		case len(ranks) == 1:
			text = fmt.Sprintf("found by rank %d alone", words[0].Rank)
		default:
			text = fmt.Sprintf("found by %d ranks", len(ranks))
		}
		if len(counts) > 1 {
			text = fmt.Sprintf("%d %s", n, text)
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}
