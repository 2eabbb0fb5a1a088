package overlap

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/bench"
	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/collective"
	"ringcli/collective/reduce"
	"ringcli/configs"
)

// Overlap is how much of the communication hides behind computation. Times are medians, of
// the slowest rank.
type Overlap struct {
	Command   string               `json:"command"`
	OK        bool                 `json:"ok"`
	Operation collective.Operation `json:"operation" col:"operation|14"`
	Bytes     uint64               `json:"bytes" col:"bytes|8|size"` // of each whole vector
	Count     uint64               `json:"count"`                    // its elements
	Type      string               `json:"type"`
	Op        string               `json:"op"` // empty where nothing is reduced
	Protocol  collective.Protocol  `json:"protocol"`
	Algorithm collective.Algorithm `json:"algorithm"`
	Ranks     int                  `json:"ranks"`
	InFlight  int                  `json:"in_flight" col:"in flight|9"` // operations that are started before any is waited for
	Iters     int                  `json:"iters"`
	// Communication is that of all operations in flight, one after the other, and
	// Computation what is done meanwhile.
	Communication float64 `json:"communication_us" col:"comm us|7"`
	Computation   float64 `json:"computation_us" col:"comp us|7"`
	Sequence      float64 `json:"sequence_us" col:"both us|7"` // one, and then the other
	Overlapped    float64 `json:"overlapped_us" col:"async us|8"`
	// Hidden is how much less than in sequence that took, in percent of the shorter of
	// both: 100 where it hides completely, below 0 where it takes longer.
	Hidden float64 `json:"hidden_pct" col:"hidden%|7|%.0f"`
	// Wrong is how many operations in flight had other results, on all ranks.
	Wrong uint64 `json:"wrong" col:"wrong|5"`
}

func resultOf(m *session.Member, plan collective.Call, inFlight, iters int, all []rankTold) Overlap {
	r := Overlap{
		Command: name, Operation: plan.Op, Bytes: uint64(plan.Count) * uint64(plan.Type.Size()), Count: uint64(plan.Count), Type: plan.Type.String(),
		Protocol: plan.Protocol, Algorithm: plan.Algorithm, Ranks: m.Comm.Size(), InFlight: inFlight, Iters: iters,
	}
	if plan.Op.Reduces() {
		r.Op = plan.Reduction.String()
	}
	var us [ways]float64
	for _, told := range all {
		r.Wrong += told.Wrong
		for way := range us {
			us[way] = max(us[way], told.Us[way])
		}
	}
	r.OK = r.Wrong == 0
	r.Communication, r.Computation, r.Sequence, r.Overlapped = us[communicates], us[computes], us[inSequence], us[overlapped]
	if least := min(r.Communication, r.Computation); least > 0 {
		r.Hidden = math.Round((r.Sequence-r.Overlapped)/least*1e3) / 10
	}
	return r
}

// name is the command's.
const name = "overlap"

const (
	defaultSize     = 16 << 20
	defaultInFlight = 1
	mostInFlight    = 64
	defaultIters    = 20
)

// asked is what the flags say beside the call.
type asked struct {
	inFlight, iters int
	compute         time.Duration // 0: as long as the communication
}

func flags(fs *pflag.FlagSet) {
	size := configs.SizeValue(defaultSize)
	fs.Var(&size, "size", "bytes of each whole vector; K, M and G are powers of 1024")
	command.ChoiceFlag(fs, "type", "type", new(reduce.Float32), reduce.Types(), reduce.ParseType, "element type: "+strings.Join(render.Words(reduce.Types()), ", "))
	command.ChoiceFlag(fs, "op", "op", new(reduce.Sum), reduce.Ops(), reduce.ParseOp, "reduction: sum, prod, min, max or avg")
	command.NumberFlag(fs, "in-flight", "", defaultInFlight, 1, mostInFlight, "the operations in flight", "operations that are started before any is waited for")
	command.NumberFlag(fs, "iters", "", defaultIters, 1, 1<<30, "the iterations to measure", "iterations measured")
	command.DurationFlag(fs, "compute", 0, "compute for this long (0: as long as the communication takes)")
}

// words are the operations that may be named.
func words() []string { return render.Words(collective.Operations()) }

func operationOf(args []string) (collective.Operation, error) {
	if len(args) == 0 {
		return collective.OpAllReduce, nil
	}
	if o, err := collective.ParseOperation(args[0]); err == nil && o.OnVectors() {
		return o, nil
	}
	return 0, exit.Usagef("%s: unknown operation %q: expected one of %s", name, args[0], strings.Join(words(), ", "))
}

func checkArgs(args []string) error {
	if len(args) > 1 {
		return exit.Usagef("%s: %d arguments given: expected at most an operation", name, len(args))
	}
	_, err := operationOf(args)
	return err
}

// Row is the line `overlap`.
func Row() command.Row {
	return command.Row{
		Name: name, Group: command.GroupCollective, Where: command.Line, Needs: command.Ready, Stops: true, Harmless: true,
		Summary: "Start operations, compute meanwhile, tell how much that hides",
		Long: `Starts operations as a program does that has other work meanwhile (Comm.Start,
whose handles resolve in the order of the starts), and tells how much of their
time hides behind computation. Four ways take turns, of which the medians count,
of the slowest rank:

  comm     the operations alone, one after the other
  comp     the computation alone: arithmetic in registers, on one CPU
  both     first the operations, and then the computation
  async    the operations are started, and waited for after the computation

hidden% is (both - async) in percent of the shorter of comm and comp: 100 is
all of it. It takes a CPU beside the one that computes, since a rank polls for
its peers: where ranks have one CPU each, nothing is hidden. Before and after,
the results of what is in flight are compared with those of one at a time, and
that they have ended in order is looked at: wrong is how many differ.`,
		Example: "  overlap --size 16M\n  overlap reduce-scatter --size 1M --in-flight 8 --compute 5ms", Args: "[OPERATION]", Words: words(),
		CheckArgs: checkArgs, Flags: flags, Check: check, Run: run,
	}
}

func callOf(call command.Call) (k collective.Call, o asked, err error) {
	fs := call.Flags
	if k.Op, err = operationOf(call.Args); err != nil {
		return k, o, err
	}
	k.Type, k.Reduction = command.Value[reduce.Type](fs, "type"), command.Value[reduce.Op](fs, "op")
	size := command.SizeOf(fs, "size")
	if size < uint64(k.Type.Size()) || size > 1<<56 {
		return k, o, exit.Usagef("%s: --size %s: expected at least an element of %s, which has %d bytes, and no more than an address space", name, configs.FormatSize(size), k.Type, k.Type.Size())
	}
	k.Count = int(size / uint64(k.Type.Size()))
	return k, asked{command.NumberOf(fs, "in-flight"), command.NumberOf(fs, "iters"), command.Value[time.Duration](fs, "compute")}, nil
}

func check(_ context.Context, _ *session.Session, call command.Call, ranksHere int) error {
	k, o, err := callOf(call)
	if err != nil {
		return err
	}
	return bench.CheckMemory(uint64(k.Count*k.Type.Size()), 2*o.inFlight, ranksHere)
}

func run(ctx context.Context, s *session.Session, call command.Call) error {
	k, o, err := callOf(call)
	if err != nil {
		return err
	}
	s.Progress.Begin("%s of %d in flight", k.Op, o.inFlight)
	defer s.Progress.End()
	result, err := measure(ctx, s, k, o)
	if result.Iters == 0 {
		return err
	}
	s.Progress.End()
	return errors.Join(s.Out.Print(result), err)
}
