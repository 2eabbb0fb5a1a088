package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ringcli/cli/bench/narrow"
	"ringcli/cli/session"
	"ringcli/collective"
	"ringcli/collective/journal"
	"ringcli/collective/reduce/reference"
	"ringcli/ring/bootstrap"
)

// Corruption is what is known of wrong data: who found what, where it came from, and what
// the wrong elements have in common. It is the same on all ranks.
type Corruption struct {
	Found   []WrongElements `json:"found"`
	Entered []Entry         `json:"entered,omitempty"` // empty if that is not known
	Pattern narrow.Pattern  `json:"pattern"`
}

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

func (e Entry) String() string {
	if e.From == e.To {
		return fmt.Sprintf("element %d went wrong within rank %d (%s)", e.Elements[0], e.From, e.Confidence)
	}
	return fmt.Sprintf("elements %d to %d changed between rank %d and rank %d (%s): %s, segment %d", e.Elements[0], e.Elements[1], e.From, e.To, e.Confidence, e.Phase, e.Segment)
}

// String is as in "rank 1 has 3 wrong elements: 5 to 7; elements 0 to 15 changed between
// rank 0 and rank 1 (certain)".
func (c *Corruption) String() string {
	var parts []string
	for _, f := range c.Found {
		var runs []string
		covered := uint64(0)
		for _, r := range f.Runs {
			text := fmt.Sprint(r[0])
			if r[1] > r[0] {
				text = fmt.Sprintf("%d to %d", r[0], r[1])
			}
			runs, covered = append(runs, text), covered+uint64(r[1]-r[0]+1)
		}
		if covered < f.Wrong {
			runs = append(runs, "...")
		}
		parts = append(parts, fmt.Sprintf("rank %d has %d: %s", f.Rank, f.Wrong, strings.Join(runs, ", ")))
	}
	for _, e := range c.Entered {
		parts = append(parts, e.String())
	}
	if c.Pattern.Text != "" {
		parts = append(parts, c.Pattern.Text)
	}
	return strings.Join(parts, "; ")
}

const (
	// runsShown and wordsKept bound what a rank tells of one check, entriesShown what is
	// shown of where it came from, wordsTold what is kept of a run.
	runsShown, wordsKept, entriesShown, wordsTold = 8, 256, 4, 1 << 16
)

// checking is the checked runs of a measurement.
type checking struct {
	begun time.Time
	done  int
	wrong uint64 // elements on this rank
	first *WrongElement
	all   int // wrong words on all ranks, each counted once; of those that were not told as many as there are at least
	words []narrow.Word
	found *Corruption
	talk  *talk // of a measurement that lasts, or nil
}

// checkedRank is what a rank tells the others of a check, if some rank has found wrong
// elements.
type checkedRank struct {
	WrongElements
	Words   []narrow.Word   `json:"words,omitempty"`
	Journal journal.Journal `json:"journal"`
}

// next runs the operation on fresh inputs and verifies every element. All ranks hear
// whether some are wrong, and then look together where that came from.
func (c *checking) next(ctx context.Context, m *session.Member, o operation, v vectors) error {
	if c.begun.IsZero() {
		c.begun = time.Now()
	}
	c.done++
	mine, plan, err := checked(ctx, m, o, v)
	if err != nil {
		return err
	}
	c.wrong += mine.Wrong
	if mine.Wrong > 0 && c.first == nil {
		c.first = &mine.First
	}
	wrong, err := c.sum(ctx, m, mine.Wrong)
	if err != nil {
		return err
	}
	if wrong == 0 {
		return nil
	}
	all, err := session.Share(ctx, m, mine)
	if err != nil {
		return err
	}
	c.follow(plan, all)
	return nil
}

// sum adds up what all ranks have found wrong.
func (c *checking) sum(ctx context.Context, m *session.Member, mine uint64) (wrong uint64, err error) {
	if c.talk != nil {
		words, err := c.talk.share(ctx, said{mine})
		for _, w := range words {
			wrong += w[0]
		}
		return wrong, err
	}
	told, err := session.Share(ctx, m, mine)
	for _, n := range told {
		wrong += n
	}
	return wrong, err
}

// checked runs the operation on fresh inputs, with a journal, and verifies every element.
func checked(ctx context.Context, m *session.Member, o operation, v vectors) (mine checkedRank, plan collective.Call, err error) {
	m.Checks++
	r, err := o.on(m, v)
	if err != nil {
		return mine, plan, err
	}
	if err := fill(ctx, m, o, v, o.seed(m.Checks)); err != nil {
		return mine, plan, err
	}
	if mine.Journal, err = r.recorded(ctx); err != nil {
		return mine, plan, err
	}
	plan, mine.Rank = r.plan, m.Comm.Rank()
	c := plan.Checker(m.Comm.Size(), m.Comm.Hosts(), o.seed(m.Checks))
	o.lenient(c, m.Comm.Size())
	c.OnWrong = func(element int, got, want uint64) {
		if n := len(mine.Runs); n > 0 && mine.Runs[n-1][1] == element-1 {
			mine.Runs[n-1][1] = element
		} else if n < runsShown {
			mine.Runs = append(mine.Runs, [2]int{element, element})
		}
		if len(mine.Words) < wordsKept {
			mine.Words = append(mine.Words, narrow.Word{Element: element, Got: got, Want: want})
		}
	}
	mine.add(o, c, v)
	return mine, plan, o.checkInFlight(ctx, m, r, v, &mine)
}

// add verifies what an operation has received.
func (r *checkedRank) add(o operation, c *reference.Checker, v vectors) {
	verify := c.VerifyGathered
	if o.op.Reduces() {
		verify = c.Verify
	}
	bad, at := verify(v.received.Lo, v.received.Hi, v.bytes(v.recv, v.received, o.typ.Size()))
	if bad > 0 && r.Wrong == 0 {
		r.First = WrongElement{Rank: r.Rank, Offset: at.Offset, Got: at.Got, Want: at.Want}
	}
	r.Wrong += uint64(bad)
}

// checkInFlight runs all operations that are in flight at once on fresh inputs, each on its own,
// and verifies every element of each.
func (o operation) checkInFlight(ctx context.Context, m *session.Member, r runs, v vectors, mine *checkedRank) error {
	if len(v.beside) == 0 {
		return nil
	}
	all := append([]vectors{v}, v.beside...)
	seed := func(i int) uint64 { return o.seed(m.Checks + uint64(i)) }
	for i := range all {
		if err := fill(ctx, m, o, all[i], seed(i)); err != nil {
			return err
		}
	}
	if err := r.fly(ctx); err != nil {
		return err
	}
	for i := range all {
		c := r.plan.Checker(m.Comm.Size(), m.Comm.Hosts(), seed(i))
		o.lenient(c, m.Comm.Size())
		mine.add(o, c, all[i])
	}
	return nil
}

// has tells whether a rank has an element wrong. It is not known of the elements behind the
// last that it tells of, if it has more wrong ones.
func (r *checkedRank) has(element int) (wrong, known bool) {
	at, wrong := slices.BinarySearchFunc(r.Words, element, func(w narrow.Word, element int) int { return cmp.Compare(w.Element, element) })
	return wrong, at < len(r.Words) || uint64(len(r.Words)) == r.Wrong
}

// within is the rank within which an element went wrong; -1 if that is not known.
func within(plan *collective.Call, all []checkedRank, element int) int {
	for rank := range all {
		if _, known := all[rank].has(element); !known {
			return -1
		}
	}
	return plan.Within(len(all), element, func(rank int) bool {
		wrong, _ := all[rank].has(element)
		return wrong
	})
}

// follow finds out where the wrong elements of a check came from.
func (c *checking) follow(plan collective.Call, all []checkedRank) {
	journals := make([]journal.Journal, len(all))
	for rank := range all {
		journals[rank] = all[rank].Journal
	}
	arrivals := journal.Compare(journals)
	first := c.found == nil
	if first {
		c.found = &Corruption{}
	}
	// A word that is wrong on several ranks counts once, where it came in.
	before, mostWrong := c.all, 0
	seen := map[int]int{}
	for rank := range all {
		mostWrong = max(mostWrong, int(all[rank].Wrong))
		for _, w := range all[rank].Words {
			w.Rank, w.From, w.To, w.Check = rank, -1, -1, c.done
			for i := range arrivals {
				if a := &arrivals[i]; w.Element >= a.Lo && w.Element < a.Hi {
					w.From, w.To = a.From, a.To
				}
			}
			if w.From < 0 {
				w.From = within(&plan, all, w.Element)
				w.To = w.From
			}
			if at, ok := seen[w.Element]; ok {
				if w.Rank == w.To {
					c.words[at] = w
				}
				continue
			}
			if c.all++; len(c.words) < wordsTold {
				seen[w.Element] = len(c.words)
				c.words = append(c.words, w)
			}
		}
	}
	c.all = max(c.all, before+mostWrong)
	if !first {
		return
	}
	for rank := range all {
		if all[rank].Wrong > 0 {
			c.found.Found = append(c.found.Found, all[rank].WrongElements)
		}
	}
	for _, a := range arrivals {
		if len(c.found.Entered) < entriesShown {
			c.found.Entered = append(c.found.Entered, Entry{a.From, a.To, bootstrap.Certain, plan.Op.Phase(a.Gathers).String(), a.Segment, [2]int{a.Lo, a.Hi - 1}})
		}
	}
	if len(arrivals) == 0 && len(c.words) > 0 && c.words[0].From >= 0 {
		w := c.words[0]
		c.found.Entered = append(c.found.Entered, Entry{From: w.From, To: w.To, Confidence: bootstrap.Suspect, Elements: [2]int{w.Element, w.Element}})
	}
}

// corruption is what all checks together have found; nil if nothing.
func (c *checking) corruption(size int) *Corruption {
	if c.found != nil {
		c.found.Pattern = narrow.Down(c.words, c.all, size, c.done, time.Since(c.begun))
	}
	return c.found
}
