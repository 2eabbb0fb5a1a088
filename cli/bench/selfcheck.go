package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ringcli/cli/bench/batch"
	"ringcli/cli/exit"
	"ringcli/cli/hand"
	"ringcli/cli/local"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/collective"
	"ringcli/collective/plan"
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

// overWords say what the ranks of a ring of one provider are connected by.
var overWords = map[string]string{
	"soft": ": RoCEv2 packets over UDP, made in user space", "shm": ": memory that ranks of one host share", "ibv": ": RDMA devices",
}

// selfCheckRoot is the last rank, in whose place nobody has programmed by mistake.
func selfCheckRoot(op collective.Operation, ranks int) int {
	if !op.Rooted() {
		return 0
	}
	return ranks - 1
}

// selfCheck proves a ring: every link by a ping, then every collective by every
// algorithm under every protocol with all elements of each type verified. It goes on after wrong data, so
// that its table shows what is affected.
func selfCheck(ctx context.Context, s *session.Session, others Variants) error {
	s.Out.PreferTable(local.VerdictTable)
	begun := time.Now()
	m := s.Member
	v := local.Verdict{Command: "self-check", OK: true, Ranks: m.Ring.Size(), Over: []string{m.Over()}, Types: render.Words(selfCheckTypes)}
	before := m.Comm.Stats()
	title := fmt.Sprintf("self-check on %d ranks of %s%s", m.Ring.Size(), m.Over(), overWords[m.Table.Devices])
	if err := s.Out.Notes(render.Faint, title, fmt.Sprintf("a row: %d iterations, and one of each type of which every element is verified", selfCheckIters)); err != nil {
		return err
	}
	pings, err := hand.Ping(ctx, m, s, hand.DefaultPings)
	if err != nil {
		return err
	}
	if err := s.Out.Print(pings...); err != nil {
		return err
	}
	var worst error
	var asked operation // whose memory, and by what
	if others, err = asked.settle(ctx, m, s, others); err != nil {
		return err
	}
	// Phases before what consists of them.
	operations := plan.Operations()
	slices.SortStableFunc(operations, func(a, b collective.Operation) int { return a.Phases() - b.Phases() })
	for _, op := range operations {
		list := others
		if len(list) == 0 {
			list = variantsOf(m.Comm, op)
		}
		for _, w := range list {
			o := operation{
				place: asked.place, placedBy: asked.placedBy, vendor: asked.vendor,
				op: op, red: reduce.Sum, count: selfCheckBytes / selfCheckTypes[0].Size(),
				root: selfCheckRoot(op, m.Ring.Size()), check: true,
				Repetition: batch.Repetition{Iters: selfCheckIters, Warmup: selfCheckWarmup},
			}
			var r Measurement // of the first type, or of the first that is wrong
			for i, typ := range selfCheckTypes {
				o.typ = typ
				each, err := measure(ctx, m, s, o.by(w))
				if err != nil {
					return err
				}
				if o.Iters, o.Warmup = 1, 0; i == 0 || *r.Wrong == 0 && *each.Wrong > 0 {
					r = each
				}
			}
			if err := s.Out.Print(r); err != nil {
				return err
			}
			v.Checks++
			v.Wrong += *r.Wrong
			if err := r.verdict(0, nil); err != nil {
				v.OK = false
				v.Failed++
				v.Problems = append(v.Problems, err.Error())
				worst = cmp.Or(worst, err)
			}
		}
	}
	now := m.Comm.Stats()
	sent, err := session.Share(ctx, m, local.Sent{
		EagerWrites: now.EagerWrites - before.EagerWrites, Writes: now.Writes - before.Writes, Reads: now.Reads - before.Reads,
		RTS: now.RTS - before.RTS, CTS: now.CTS - before.CTS, FIN: now.FIN - before.FIN,
	})
	if err != nil {
		return err
	}
	for _, each := range sent {
		v.Sent.Add(each)
	}
	v.Seconds = time.Since(begun).Seconds()
	if err := errors.Join(s.Out.Print(v), s.Parent.Report(v)); err != nil {
		return err
	}
	if v.Failed > 1 {
		return exit.Sharedf(exit.Critical, "%w (and %d more of %d checks)", worst, v.Failed-1, v.Checks)
	}
	return worst
}
