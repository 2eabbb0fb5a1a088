package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ringcli/cli/session"
	"ringcli/configs/codes"
)

// ownOf are the checks of what each node has one of its own.
var ownOf = []string{"host-name", "address", "tcp-port", "device"}

// merge puts what all ranks found together: a row for the ranks that found the same. Checks
// in which ranks differ come first, and of each the minority; then what all found, the gravest
// first.
func merge(ranks [][]Preflight) []Preflight {
	type key struct {
		check, of, value, expected, fix string
		verdict                         Verdict
	}
	var rows []*Preflight
	at := map[key]*Preflight{}
	order := map[string]int{} // of the checks
	for rank, list := range ranks {
		for _, p := range list {
			k := key{p.Check, p.Of, p.Value, p.Expected, p.Fix, p.Verdict}
			// What is well may differ in its value, as each node's name and address do.
			if p.well() {
				k = key{check: p.Check, of: p.Of, verdict: p.Verdict}
				if slices.Contains(ownOf, p.Check) {
					k.of = ""
				}
			}
			if at[k] == nil {
				own := p
				own.Ranks, at[k] = nil, &own
				rows = append(rows, &own)
			}
			same := at[k]
			same.Ranks = append(same.Ranks, rank)
			if same.Of != p.Of {
				same.Of = ""
			}
			if others := "; other ranks differ"; same.Value != p.Value && !strings.HasSuffix(same.Value, others) {
				same.Value += others
			}
			if _, known := order[p.Check]; !known {
				order[p.Check] = len(order)
			}
		}
	}
	bad := map[string]int{} // ranks that a check is not well at
	for _, r := range rows {
		r.Ranks = slices.Compact(r.Ranks)
		if !r.well() {
			bad[r.Check] += len(r.Ranks)
		}
	}
	group := func(p *Preflight) int {
		switch n := bad[p.Check]; {
		case n > 0 && n < len(ranks):
			return 0
		case n > 0:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(rows, func(a, b *Preflight) int {
		return cmp.Or(cmp.Compare(group(a), group(b)), cmp.Compare(order[a.Check], order[b.Check]), cmp.Compare(len(a.Ranks), len(b.Ranks)),
			cmp.Compare(slices.Index(Verdicts, a.Verdict), slices.Index(Verdicts, b.Verdict)))
	})
	merged := make([]Preflight, len(rows))
	for i, r := range rows {
		merged[i] = *r
	}
	return merged
}

// mostSkew is how far the clocks of two nodes may be apart before who lays their logs side by
// side is misled.
const mostSkew = time.Second

// readings are the clocks of all ranks, read at a time that one of them brackets by its own.
type readings struct {
	begun, ended time.Time
	clocks       []time.Time // by rank
}

// readClocks has all ranks read their clocks after they have met, and this rank see no later
// than it hears of the last.
func readClocks(ctx context.Context, m *session.Member) (r readings, err error) {
	r.begun = time.Now()
	if _, err = session.Share(ctx, m, "meet"); err == nil {
		r.clocks, err = session.Share(ctx, m, time.Now())
	}
	r.ended = time.Now()
	return r, err
}

// rows are one for each rank whose clock is elsewhere than between the two, as this rank's was
// all the while; or one for all.
func (r readings) rows() (rows []Preflight) {
	var all []int
	for rank, c := range r.clocks {
		all = append(all, rank)
		off, way := c.Sub(r.ended), "ahead of"
		if behind := r.begun.Sub(c); behind > off {
			off, way = behind, "behind"
		}
		if off > mostSkew {
			row := finding(Warn, "clocks", "", fmt.Sprintf("%v %s this rank's", off.Round(100*time.Millisecond), way))
			row = row.but(codes.Preflight, fmt.Sprintf("within %v, so that logs of nodes can be laid side by side", mostSkew), "chronyc makestep  # of all nodes by the same servers")
			row.Ranks = []int{rank}
			rows = append(rows, row)
		}
	}
	if rows == nil {
		row := pass("clocks", "", "within %v of each other", r.ended.Sub(r.begun).Round(time.Millisecond)+mostSkew)
		row.Ranks = all
		rows = append(rows, row)
	}
	return rows
}
