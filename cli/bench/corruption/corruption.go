// Package corruption finds where wrong data came from: the rank or the edge, the elements, and the
// bits that changed.
package corruption

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"ringcli/collective"
	"ringcli/collective/journal"
	"ringcli/ring/bootstrap"
)

// Corruption is what is known of wrong data. It is the same on all ranks. The JSON names are a
// contract with scripts, as are those of the types below.
type Corruption struct {
	Found   []WrongElements `json:"found"`
	Entered []Entry         `json:"entered,omitempty"` // empty if that is not known
	Pattern Pattern         `json:"pattern"`
}

// WrongElement is an element that is not what it must be.
type WrongElement struct {
	Rank   int    `json:"rank"`
	Offset int    `json:"offset"` // index of the element in the whole vector
	Got    string `json:"got"`
	Want   string `json:"want"`
}

func (w WrongElement) String() string {
	return fmt.Sprintf("rank %d, element %d: got %s, want %s", w.Rank, w.Offset, w.Got, w.Want)
}

// AddWrong adds what was counted to a sum; nil is what was not checked.
func AddWrong(sum **uint64, n *uint64) {
	if n == nil {
		return
	}
	if *sum == nil {
		*sum = new(uint64)
	}
	**sum += *n
}

// IsRight tells whether nothing is wrong, or nothing was checked.
func IsRight(wrong *uint64) bool { return wrong == nil || *wrong == 0 }

// WrongElements are those of a rank, in the first check that has found any.
type WrongElements struct {
	Rank  int          `json:"rank"`
	Wrong uint64       `json:"wrong"`
	Runs  [][2]int     `json:"runs"` // the first and the last element of each; the first few
	First WrongElement `json:"first"`
}

// Entry is where data went wrong: between two ranks, or within one, which is both.
type Entry struct {
	From       int                  `json:"from"`
	To         int                  `json:"to"`
	Confidence bootstrap.Confidence `json:"confidence"`
	Phase      string               `json:"phase,omitempty"`
	Segment    int                  `json:"segment"`
	Elements   [2]int               `json:"elements"` // the first and the last
}

// Pattern is how the bits of wrong words differ from what they must be.
type Pattern struct {
	Words  int    `json:"words"` // that were compared, and
	Of     int    `json:"of"`    // how many there were
	Kind   string `json:"kind"`  // bit-set, bit-cleared, bit-flipped, bits-flipped, zeroed or none
	Fits   int    `json:"fits"`  // words that it is true of
	Bit    *int   `json:"bit,omitempty"`
	Mask   uint64 `json:"mask,omitempty"` // of the bits that changed
	Checks int    `json:"checks"`         // that found wrong words
	Text   string `json:"text"`
}

func (e Entry) String() string {
	if e.From == e.To {
		return fmt.Sprintf("element %d went wrong within rank %d (%s)", e.Elements[0], e.From, e.Confidence)
	}
	return fmt.Sprintf("elements %d to %d changed between rank %d and rank %d (%s): %s, segment %d", e.Elements[0], e.Elements[1], e.From, e.To, e.Confidence, e.Phase, e.Segment)
}

func (w WrongElements) String() string {
	var runs []string
	covered := uint64(0)
	for _, r := range w.Runs {
		text := fmt.Sprint(r[0])
		if r[1] > r[0] {
			text = fmt.Sprintf("%d to %d", r[0], r[1])
		}
		runs, covered = append(runs, text), covered+uint64(r[1]-r[0]+1)
	}
	if covered < w.Wrong {
		runs = append(runs, "...")
	}
	return fmt.Sprintf("rank %d has %d: %s", w.Rank, w.Wrong, strings.Join(runs, ", "))
}

// String is as in "rank 1 has 3: 5 to 7; elements 0 to 15 changed between rank 0 and rank 1
// (certain): all-gather, segment 0; 3 of 3 wrong words: bit 17 set, in 1 of 20 checks".
func (c *Corruption) String() string {
	var parts []string
	for _, f := range c.Found {
		parts = append(parts, f.String())
	}
	for _, e := range c.Entered {
		parts = append(parts, e.String())
	}
	return strings.Join(append(parts, c.Pattern.Text), "; ")
}

const (
	// runsShown and wordsTold bound what a rank tells of one check, entriesShown what is shown of
	// where wrong data came from, wordsKept what is kept of all checks.
	runsShown, wordsTold, entriesShown, wordsKept = 8, 256, 4, 1 << 16
)

// Word is an element that is not what it must be, with its bits.
type Word struct {
	Element int    `json:"element"`
	Got     uint64 `json:"got"`
	Want    uint64 `json:"want"`
}

// Told is what a rank tells the others of a check in which some rank has found wrong elements.
type Told struct {
	WrongElements
	Words   []Word          `json:"words,omitempty"` // the first ones
	Journal journal.Journal `json:"journal"`
}

// Note takes a wrong element. They come in their order.
func (t *Told) Note(element int, got, want uint64) {
	if n := len(t.Runs); n > 0 && t.Runs[n-1][1] == element-1 {
		t.Runs[n-1][1] = element
	} else if n < runsShown {
		t.Runs = append(t.Runs, [2]int{element, element})
	}
	if len(t.Words) < wordsTold {
		t.Words = append(t.Words, Word{element, got, want})
	}
}

// has tells whether a rank has an element wrong. That is not known of the elements behind the
// last that the rank has told of, if it has more wrong ones.
func (t *Told) has(element int) (wrong, known bool) {
	at, wrong := slices.BinarySearchFunc(t.Words, element, func(w Word, element int) int { return cmp.Compare(w.Element, element) })
	return wrong, at < len(t.Words) || uint64(len(t.Words)) == t.Wrong
}

// Locator puts together what the checks of a measurement have found.
type Locator struct {
	Checks int // that were made
	of     int // wrong words
	words  []Word
	found  *Corruption // nil: nothing is wrong
}

// Add locates the wrong elements of a check, of which all ranks have told.
func (l *Locator) Add(plan collective.Call, all []Told) {
	first := l.found == nil
	if first {
		l.found = &Corruption{}
	}
	l.found.Pattern.Checks++
	journals := make([]journal.Journal, len(all))
	seen := map[int]bool{} // an element that is wrong on several ranks counts once
	most, lowest := 0, -1
	for rank := range all {
		t := &all[rank]
		journals[rank] = t.Journal
		most = max(most, int(t.Wrong))
		if first && t.Wrong > 0 {
			l.found.Found = append(l.found.Found, t.WrongElements)
		}
		for _, w := range t.Words {
			if seen[w.Element] {
				continue
			}
			if lowest < 0 {
				lowest = w.Element
			}
			if seen[w.Element] = true; len(l.words) < wordsKept {
				l.words = append(l.words, w)
			}
		}
	}
	l.of += max(most, len(seen))
	arrivals := journal.Compare(journals)
	for _, a := range arrivals {
		l.enter(first, Entry{a.From, a.To, bootstrap.Certain, plan.Op.Phase(a.Gathers).String(), a.Segment, [2]int{a.Lo, a.Hi - 1}})
	}
	if rank := within(&plan, all, lowest); len(arrivals) == 0 && rank >= 0 {
		l.enter(first, Entry{From: rank, To: rank, Confidence: bootstrap.Suspect, Elements: [2]int{lowest, lowest}})
	}
}

// enter takes an entry: of the first check each, of later ones those of another edge.
func (l *Locator) enter(first bool, e Entry) {
	list := l.found.Entered
	known := func(o Entry) bool { return o.From == e.From && o.To == e.To }
	if len(list) < entriesShown && (first || !slices.ContainsFunc(list, known)) {
		l.found.Entered = append(list, e)
	}
}

// within is the rank within which an element went wrong; -1 if that is not known.
func within(plan *collective.Call, all []Told, element int) int {
	for rank := range all {
		if _, known := all[rank].has(element); !known || element < 0 {
			return -1
		}
	}
	return plan.Within(len(all), element, func(rank int) bool {
		wrong, _ := all[rank].has(element)
		return wrong
	})
}

// Corruption is what all checks together have found; nil if nothing is wrong.
func (l *Locator) Corruption() *Corruption {
	if l.found == nil {
		return nil
	}
	p := &l.found.Pattern
	p.Words, p.Of = len(l.words), l.of
	p.Text = fmt.Sprintf("%s, in %d of %d checks", p.compare(l.words), p.Checks, l.Checks)
	if more := p.Of - p.Words; more > 0 {
		p.Text += fmt.Sprintf(" (%d more words were wrong)", more)
	}
	return l.found
}

// most is the share of the words that a pattern has to fit: among faults of one kind may be one
// of another.
const most = 0.9

// compare finds how most words differ from what they must be, and says so.
func (p *Pattern) compare(words []Word) (text string) {
	counts := map[uint64]int{} // of words, by the bits that changed
	mask, zero, set := uint64(0), 0, 0
	for _, w := range words {
		changed := w.Got ^ w.Want
		if counts[changed]++; counts[changed] > counts[mask] {
			mask = changed
		}
		if w.Got == 0 {
			zero++
		}
	}
	for _, w := range words {
		if w.Got^w.Want == mask && w.Got&mask != 0 {
			set++
		}
	}
	enough := func(n int) bool { return n > 0 && float64(n) >= most*float64(len(words)) }
	p.Kind, p.Fits, p.Bit, p.Mask = "none", len(words), nil, 0
	what := "no pattern in the bits"
	switch n := counts[mask]; {
	case enough(n) && bits.OnesCount64(mask) == 1:
		bit := bits.TrailingZeros64(mask)
		how := "flipped"
		switch set {
		case n:
			how = "set"
		case 0:
			how = "cleared"
		}
		p.Kind, p.Fits, p.Bit, p.Mask = "bit-"+how, n, &bit, mask
		what = fmt.Sprintf("bit %d %s", bit, how)
	case enough(zero):
		p.Kind, p.Fits, what = "zeroed", zero, "zero"
	case enough(n):
		p.Kind, p.Fits, p.Mask = "bits-flipped", n, mask
		what = fmt.Sprintf("the bits %#x flipped", mask)
	}
	return fmt.Sprintf("%d of %d wrong words: %s", p.Fits, p.Words, what)
}
