package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ringcli/cli/exit"
	"ringcli/cli/hand"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/collective"
	"ringcli/collective/reduce"
)

// What the self-check runs: long enough for many segments of every protocol,
// short enough to take no time.
const (
	selfCheckBytes  = 1 << 20
	selfCheckIters  = 5
	selfCheckWarmup = 1
)

// selfCheckTypes are of one size. The kernels of integers are others than those of floats.
var selfCheckTypes = []reduce.Type{reduce.Float32, reduce.Int32}

// selfCheck proves a ring: every link by a ping, then every collective by every
// algorithm under every protocol with all elements of each type verified. It goes on after wrong data, so
// that its table shows what is affected.
func selfCheck(ctx context.Context, s *session.Session) error {
	begun := time.Now()
	m := s.Member
	v := Verdict{Command: "self-check", OK: true, Ranks: m.Ring.Size(), Types: render.Words(selfCheckTypes)}
	pings, err := hand.Ping(ctx, m, s, hand.DefaultPings)
	if err != nil {
		return err
	}
	if err := s.Out.Print(pings...); err != nil {
		return err
	}
	var worst error
	// Phases before what consists of them.
	operations := collective.Operations()
	slices.SortStableFunc(operations, func(a, b collective.Operation) int { return a.Phases() - b.Phases() })
	for _, op := range operations {
		for _, w := range variantsOf(m.Comm) {
			o := operation{
				op: op, red: reduce.Sum, count: selfCheckBytes / selfCheckTypes[0].Size(),
				iters: selfCheckIters, warmup: selfCheckWarmup, check: true,
			}
			var r Measurement // of the first type, or of the first that is wrong
			for i, typ := range selfCheckTypes {
				o.typ = typ
				each, err := measure(ctx, m, s, o.by(w))
				if err != nil {
					return err
				}
				if o.iters, o.warmup = 1, 0; i == 0 || *r.Wrong == 0 && *each.Wrong > 0 {
					r = each
				}
			}
			if err := s.Out.Print(r); err != nil {
				return err
			}
			v.Checks++
			v.Wrong += *r.Wrong
			if err := r.verdict(0); err != nil {
				v.OK = false
				v.Failed++
				v.Problems = append(v.Problems, err.Error())
				worst = cmp.Or(worst, err)
			}
		}
	}
	v.Seconds = time.Since(begun).Seconds()
	if err := s.Out.Print(v); err != nil {
		return err
	}
	if v.Failed > 1 {
		return exit.Sharedf(exit.Critical, "%w (and %d more of %d checks)", worst, v.Failed-1, v.Checks)
	}
	return worst
}

// Lines implements render.Told.
func (v Verdict) Lines() []render.Line {
	if v.OK {
		return []render.Line{{Mood: render.Good, Text: fmt.Sprintf("OK: %d ranks, %d checks, 0 wrong elements of %s, %.1f s", v.Ranks, v.Checks, strings.Join(v.Types, " and "), v.Seconds)}}
	}
	return []render.Line{{
		Mood: render.Bad, Text: fmt.Sprintf("FAILED: %d ranks, %d of %d checks, %d wrong elements, %.1f s", v.Ranks, v.Failed, v.Checks, v.Wrong, v.Seconds),
	}}
}

// Verdict is the last word of a self-check.
type Verdict struct {
	Command  string   `json:"command"`
	OK       bool     `json:"ok"`
	Ranks    int      `json:"ranks"`
	Checks   int      `json:"checks"`
	Failed   int      `json:"failed"`
	Wrong    uint64   `json:"wrong"`
	Types    []string `json:"types"` // of element, which each check is of
	Seconds  float64  `json:"seconds"`
	Problems []string `json:"problems,omitempty"`
}
