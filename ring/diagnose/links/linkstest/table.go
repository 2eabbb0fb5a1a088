package linkstest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"ringcli/ring/diagnose/links"
)

// SeedsVariable names the variable of the environment that says how many seeds to take of each
// number of ranks, such as 232:1000,1000:100.
const SeedsVariable = "LINKS_SEEDS"

// Seeds reads SeedsVariable; without it there are as many as others says.
func Seeds(t *testing.T, others map[int]int) map[int]int {
	text := os.Getenv(SeedsVariable)
	if text == "" {
		return others
	}
	seeds := map[int]int{}
	for part := range strings.SplitSeq(text, ",") {
		var n, k int
		if _, err := fmt.Sscanf(part, "%d:%d", &n, &k); err != nil {
			t.Fatalf("%s=%s: %v: expected RANKS:SEEDS,...", SeedsVariable, text, err)
		}
		seeds[n] = k
	}
	return seeds
}

// Judge measures a simulated network and says what is wrong.
type Judge func(n int, seed uint64, kinds []string) (*World, *links.Verdict)

// Again measures suspects again, as links does, and returns what is left of them. measure measures
// batches of pairs both ways.
func Again(v *links.Verdict, n int, measure func([][]links.Pair) *links.Figures) *links.Verdict {
	for range links.Confirmations(n) {
		if batches := v.Retests(n); len(batches) > 0 {
			v = v.Confirm(measure(batches))
		}
	}
	return v.Final().Shared()
}

// row is a line of the table.
type row struct {
	n, faults                          int
	kind                               string
	worlds, done, found, hidden, named int
	judging                            time.Duration
}

// Table judges so many networks of each number of ranks, of each kind of fault alone, of several at
// once and of none, by as many threads as there are CPUs, until the test's time is over, and logs
// how many were found. Whatever was missed or falsely named fails the test, and so does what there
// was no time for: a part is not the whole.
func Table(t *testing.T, seeds map[int]int, judge Judge) {
	var table []*row
	sizes := make([]int, 0, len(seeds))
	for n := range seeds {
		sizes = append(sizes, n)
	}
	slices.Sort(sizes)
	for _, n := range sizes {
		table = append(table, &row{n: n, kind: "healthy"})
		for _, kind := range Kinds {
			table = append(table, &row{n: n, kind: kind, faults: 1})
		}
		for faults := 2; faults <= 5 && n > 8; faults++ {
			table = append(table, &row{n: n, kind: "any", faults: faults})
		}
	}
	fill(t, table, seeds, judge)
	var b strings.Builder
	out := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(out, "ranks\tat once\tkind\tworlds\tfaults\tfound\thidden\tmissed\tfalsely named\tms each\t")
	for _, r := range table {
		missed := r.done - r.found - r.hidden
		_, _ = fmt.Fprintf(out, "%d\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f\t\n", r.n, r.faults, r.kind, r.worlds, r.done, r.found, r.hidden, missed, r.named,
			r.judging.Seconds()*1e3/float64(max(1, r.worlds)))
		if r.named > 0 || missed > 0 {
			t.Errorf("%d ranks, %d of %s: %d of %d found, %d falsely named", r.n, r.faults, r.kind, r.found, r.done, r.named)
		}
	}
	_ = out.Flush()
	t.Log("\n" + b.String())
	for _, r := range table {
		if r.worlds < seeds[r.n] {
			t.Errorf("%d ranks, %d of %s: %d of %d seeds: the time was over", r.n, r.faults, r.kind, r.worlds, seeds[r.n])
		}
	}
}

// spare is how long before its deadline a test begins no more networks: one takes a minute at most,
// and of those of the short tests a few seconds.
func spare() time.Duration {
	if testing.Short() {
		return 10 * time.Second
	}
	return time.Minute
}

// fill judges the rows' networks, those of a seed in all rows before the next seed's.
func fill(t *testing.T, table []*row, seeds map[int]int, judge Judge) {
	var mu sync.Mutex // guards the rows
	var workers sync.WaitGroup
	type network struct {
		*row
		seed uint64
	}
	next := make(chan network)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for r := range next {
				begun := time.Now()
				w, v := judge(r.n, r.seed, r.kinds(r.seed))
				g := w.Grade(v)
				took := time.Since(begun)
				mu.Lock()
				r.judging += took
				r.worlds, r.done, r.found, r.hidden, r.named = r.worlds+1, r.done+g.Faults, r.found+g.Found, r.hidden+g.Hidden, r.named+len(g.False)
				mu.Unlock()
				if g.Missed > 0 || len(g.False) > 0 {
					t.Logf("%d ranks, seed %d, %.300s: missed %d, falsely named %d: %.600s", r.n, r.seed, fmt.Sprint(w.Faults), g.Missed, len(g.False), fmt.Sprintf("%+v", g.False))
				}
			}
		})
	}
	end, timed := t.Deadline()
all:
	for k, more := 0, true; more; k++ {
		more = false
		for _, r := range table {
			if k >= seeds[r.n] {
				continue
			}
			if more = true; timed && time.Until(end) < spare() {
				t.Logf("the time is over before seed %d", k)
				break all
			}
			next <- network{r, uint64(k)}
		}
	}
	close(next)
	workers.Wait()
}

// kinds are those of a seed's network.
func (r *row) kinds(seed uint64) (kinds []string) {
	switch r.kind {
	case "healthy":
		return nil
	case "any":
	default:
		return []string{r.kind}
	}
	rng := rand.New(rand.NewPCG(seed, uint64(r.faults)))
	for range r.faults {
		kinds = append(kinds, Kinds[rng.IntN(len(Kinds))])
	}
	if i := slices.Index(kinds, "slow group"); i >= 0 { // one division of the network at a time
		for j := i + 1; j < len(kinds); j++ {
			if kinds[j] == "slow group" {
				kinds[j] = "slow pair"
			}
		}
	}
	return kinds
}
