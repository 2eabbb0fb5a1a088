package links

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/bench"
	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/cli/timing"
	"ringcli/collective"
	"ringcli/collective/model"
	"ringcli/collective/plan"
	"ringcli/collective/reduce"
	"ringcli/collective/topology"
	"ringcli/configs"
	"ringcli/ring"
)

// Costs that are not given: of a core of a present server, whose vectors do not fit its
// caches, and of a message that a NIC takes from a queue.
const (
	standardGamma, standardCopy rate = 20e9, 20e9
	standardOverhead                 = 300 * time.Nanosecond
)

const (
	standardRanks                  = 8
	mostRanks                      = 1 << 16 // more than any cluster has
	modelMin, modelMax, modelTimes = 1 << 10, 1 << 30, 2
)

// ModelRow is `model`.
func ModelRow() command.Row {
	return command.Row{
		Name: "model", Group: command.GroupLook, Where: command.Process | command.Line, Own: true, Harmless: true,
		Summary: "Reckon how long operations should take, and by which algorithm",
		Long: `Reckons how long an operation should take on a cluster, by each algorithm and
protocol and for each size, and which is the fastest from which size on. Nothing
is measured and no ring is needed: the cluster may be yet to be bought. The
plans are those that ringcli runs, with their segments, depths and handshakes.

A cluster is what its parts cost: --alpha, the time of a message beside its
length; --beta, the bandwidth of an edge, each way; --gamma and --copy, what one
core reduces and copies; --overhead, the CPU's time for a message at each of its
ends. --hosts says which ranks share a host, as in 4x8, for what goes along the
hosts, and --within what an edge carries there. --software is for ranks whose
CPU moves the data itself, as over soft; --line, the time of a cache line
between two cores, for ranks of one host.

Of a cluster that there is, ` + "`ringcli links`" + ` measures alpha and beta.

Formulas: Thakur, Rabenseifner and Gropp (2005) for the algorithms, Hockney and
LogGP for the costs; what differs is in the source, package collective/model.`,
		Example:  "  ringcli model --ranks 1024 --alpha 3us --beta 48GB/s --op all-reduce\n  ringcli model --ranks 64 --alpha 3us --beta 50GB/s --op all-gather -b 1M -e 1G",
		Settings: []string{"segment", "depth", "slots", "slot-size", "hosts"},
		Flags:    modelFlags, Check: checkModel, Run: runModel,
	}
}

func modelFlags(fs *pflag.FlagSet) {
	command.NumberFlag(fs, "ranks", "n", standardRanks, 2, mostRanks, "the ranks", "ranks of the ring")
	operations := plan.AllOperations()
	first := collective.OpAllReduce
	command.ChoiceFlag(fs, "op", "operation", &first, operations, plan.ParseOperation, "operation: "+strings.Join(render.Words(operations), ", "))
	command.ChoiceFlag(fs, "type", "type", new(reduce.Float32), reduce.Types(), reduce.ParseType, "element type")
	command.DurationFlag(fs, "alpha", 0, "time of a message beside its length, one way, such as 3us")
	rateFlag(fs, "beta", 0, "bandwidth of an edge, each way, such as 48GB/s or 400Gb/s")
	rateFlag(fs, "within", 0, "bandwidth of an edge between two ranks of a host, with --hosts, if it is not beta")
	rateFlag(fs, "gamma", standardGamma, "what a core reduces")
	rateFlag(fs, "copy", standardCopy, "what a core copies")
	command.DurationFlag(fs, "overhead", standardOverhead, "CPU time of a message, at each end")
	rateFlag(fs, "software", 0, "what a core sends or receives, if it moves the data itself")
	command.DurationFlag(fs, "line", 0, "time of a cache line from core to core: the ranks share memory")
	size := func(name, short string, standard configs.SizeValue, usage string) {
		fs.VarP(&standard, name, short, usage)
	}
	size("begin", "b", modelMin, "least size in bytes")
	size("end", "e", modelMax, "greatest size in bytes")
	command.NumberFlag(fs, "factor", "f", modelTimes, 2, 1<<20, "the factor from a size to the next", "factor from a size to the next")
}

// modelling is a run of the command.
type modelling struct {
	op     collective.Operation
	typ    reduce.Type
	shape  plan.Shape
	sizes  []uint64
	m      model.Machine
	costs  ModelCosts
	option collective.CallOptions
	list   []bench.Variant
}

func checkModel(_ context.Context, s *session.Session, call command.Call, _ int) error {
	_, err := newModelling(s, call)
	return err
}

func runModel(_ context.Context, s *session.Session, call command.Call) error {
	g, err := newModelling(s, call)
	if err != nil {
		return err
	}
	if err := s.Out.Notes(render.Faint, g.title()...); err != nil {
		return err
	}
	var rows []ModelSize
	for _, size := range g.sizes {
		row, err := g.row(size)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	return g.print(s, rows)
}

// newModelling reads the flags.
func newModelling(s *session.Session, call command.Call) (*modelling, error) {
	fs := call.Flags
	g := &modelling{op: command.Value[collective.Operation](fs, "op"), typ: command.Value[reduce.Type](fs, "type")}
	config := s.Config
	for _, name := range []string{"segment", "depth", "slots", "slot-size", "hosts"} {
		if f := fs.Lookup(name); f.Changed {
			var err error
			if config, err = config.With(name, f.Value.String()); err != nil {
				return nil, err
			}
		}
	}
	g.option = collective.CallOptions{Segment: int(config.Size("segment")), Depth: config.Int("depth")}
	if !fs.Changed("alpha") || !fs.Changed("beta") {
		return nil, exit.Usagef("model: no cluster: expected --alpha and --beta, such as --ranks 1024 --alpha 3us --beta 48GB/s, or the medians of `ringcli links`")
	}
	ranks := command.NumberOf(fs, "ranks")
	line := command.Value[time.Duration](fs, "line").Seconds()
	g.shape = plan.Shape{Ranks: ranks, Slots: config.Int("slots"), SlotSize: int(config.Size("slot-size")), Shared: line > 0}
	g.m = model.Machine{
		Ranks: ranks, Edge: model.Edge{Alpha: command.Value[time.Duration](fs, "alpha").Seconds(), Beta: command.Value[rate](fs, "beta").perByte()},
		Overhead: command.Value[time.Duration](fs, "overhead").Seconds(), Line: line,
		Gamma: command.Value[rate](fs, "gamma").perByte(), Copy: command.Value[rate](fs, "copy").perByte(),
	}
	if by := config.String("hosts"); by != ring.HostsAuto {
		hosts, err := topology.Parse(by, ranks)
		if err != nil {
			return nil, exit.Usagef("model: %w", err)
		}
		g.shape.Hosts, g.m.Hosts = hosts, hosts
	}
	if within := command.Value[rate](fs, "within"); within > 0 {
		if g.m.Hosts == nil {
			return nil, exit.Usagef("model: --within without --hosts: expected which ranks share a host, such as --hosts 4x2")
		}
		g.m.Within = &model.Edge{Alpha: g.m.Edge.Alpha, Beta: within.perByte()}
	}
	if software := command.Value[rate](fs, "software"); software > 0 {
		g.shape.Software = true
		g.m.SendByte, g.m.RecvByte = software.perByte(), software.perByte()
	}
	if g.m.RecvByte == 0 { // else a CPU carries it
		g.shape.LinkMbps = int(8 / g.m.Edge.Beta / 1e6)
	}
	gigabytes := func(flag string) float64 { return timing.SixPlaces(float64(command.Value[rate](fs, flag)) / 1e9) }
	g.costs = ModelCosts{
		Alpha: timing.ThreePlaces(g.m.Edge.Alpha * 1e6), Beta: gigabytes("beta"), Gamma: gigabytes("gamma"), Copy: gigabytes("copy"),
		Overhead: timing.ThreePlaces(g.m.Overhead * 1e6), Software: gigabytes("software"), Line: timing.ThreePlaces(line * 1e6),
	}
	var err error
	if g.sizes, err = g.sizesOf(fs); err != nil {
		return nil, err
	}
	g.list, err = g.variants()
	return g, err
}

func (g *modelling) sizesOf(fs *pflag.FlagSet) (sizes []uint64, err error) {
	if g.op == collective.OpBarrier {
		return []uint64{0}, nil
	}
	first, last := command.SizeOf(fs, "begin"), command.SizeOf(fs, "end")
	if !fs.Changed("end") {
		last = max(first, last)
	}
	size := uint64(g.typ.Size())
	switch {
	case first < size:
		return nil, exit.Usagef("model: -b %s: expected %d bytes or more, one %s", configs.FormatSize(first), size, g.typ)
	case first > last:
		return nil, exit.Usagef("model: -b %s is above -e %s: expected the least size first", configs.FormatSize(first), configs.FormatSize(last))
	case last > 1<<50:
		return nil, exit.Usagef("model: -e %s: expected %s or less", configs.FormatSize(last), configs.FormatSize(1<<50))
	}
	for at := first; at <= last; {
		sizes = append(sizes, at)
		high, next := bits.Mul64(at, uint64(command.NumberOf(fs, "factor")))
		if high != 0 {
			break
		}
		at = next
	}
	return sizes, nil
}

// call is the operation on a vector of so many bytes by a variant.
func (g *modelling) call(size uint64, v bench.Variant) (collective.Call, error) {
	k := collective.Call{Op: g.op, CallOptions: g.option}
	if g.op != collective.OpBarrier {
		k.Type, k.Count = g.typ, int(size)/g.typ.Size()
	}
	k.Algorithm, k.Protocol = v.Algorithm, v.Protocol
	return g.shape.Plan(k, collective.Table{})
}

// variants are all that such a ring has of the operation at the least size, at which every
// one can be.
func (g *modelling) variants() (list []bench.Variant, err error) {
	for _, a := range plan.Algorithms()[1:] {
		for _, p := range plan.Protocols()[1:] {
			v := bench.Variant{Algorithm: a, Protocol: p}
			k, failed := g.call(g.sizes[0], v)
			if failed != nil {
				err = failed
			} else if k.Algorithm == a && k.Protocol == p {
				list = append(list, v)
			}
		}
	}
	if len(list) == 0 {
		return nil, exit.Usagef("model: %w", err)
	}
	return list, nil
}

func (g *modelling) title() []string {
	what := g.op.String()
	if g.op != collective.OpBarrier {
		what += " of " + g.typ.String()
	}
	return []string{fmt.Sprintf("%s on %d ranks, estimated: %s", what, g.shape.Ranks, g.costs)}
}

// row is one size by all variants.
func (g *modelling) row(size uint64) (r ModelSize, err error) {
	auto, err := g.call(size, bench.Variant{})
	if err != nil {
		return r, exit.Usagef("model: %w", err)
	}
	best := -1
	for _, v := range g.list {
		k, err := g.call(size, v)
		if err != nil {
			return r, exit.Usagef("model: %w", err)
		}
		m := ModelTime{
			Command: "model", Operation: g.op, Ranks: g.shape.Ranks, Bytes: size, Algorithm: v.Algorithm, Protocol: v.Protocol, Segment: k.Segment, Depth: k.Depth,
			Auto: auto.Algorithm == v.Algorithm && auto.Protocol == v.Protocol,
		}
		m.OK, m.Time = true, timing.ThreePlaces(g.m.Time(k)*1e6)
		if size > 0 {
			m.AlgBW, m.BusBW = timing.Bandwidth(g.op.String(), size, g.shape.Ranks, m.Time)
		}
		if best < 0 || m.Time < r.Each[best].Time*(1-tie) {
			best = len(r.Each)
		}
		r.Each = append(r.Each, m)
	}
	r.Each[best].Fastest = true
	return r, nil
}

// print prints the tables and what follows from them.
func (g *modelling) print(s *session.Session, rows []ModelSize) error {
	heads := headLines(g.list)
	err := s.Out.Notes(render.Faint, append([]string{"time in us; * the fastest, < what auto takes"}, heads...)...)
	err = errors.Join(err, s.Out.Print(render.Records(rows)...))
	if s.Out.Format() == render.Table && g.op != collective.OpBarrier {
		for i := range rows {
			rows[i].BusBW = true
		}
		err = errors.Join(err, s.Out.Notes(render.Faint, append([]string{"busbw in GB/s (1e9 bytes)"}, heads...)...), s.Out.Print(render.Records(rows)...))
	}
	return errors.Join(err, s.Out.Print(g.summary(rows)))
}

// summary says which is the fastest from where on.
func (g *modelling) summary(rows []ModelSize) ModelSummary {
	sum := ModelSummary{
		Command: "model", OK: true, Operation: g.op, Ranks: g.shape.Ranks, Costs: g.costs,
		Fastest: []ModelStretch{}, Crossovers: []uint64{}, Auto: []ModelStretch{}, AutoWorst: 1, AutoWorstAt: rows[0].Each[0].Bytes,
	}
	join := func(list *[]ModelStretch, v bench.Variant, from uint64) bool {
		if last := len(*list) - 1; last >= 0 && (*list)[last].Variant == v {
			return false
		}
		*list = append(*list, ModelStretch{v, from})
		return true
	}
	for i, r := range rows {
		best := r.first(func(m *ModelTime) bool { return m.Fastest })
		if auto := r.first(func(m *ModelTime) bool { return m.Auto }); auto != nil {
			join(&sum.Auto, auto.variant(), auto.Bytes)
			if best.Time > 0 && auto.Time/best.Time > sum.AutoWorst {
				sum.AutoWorst, sum.AutoWorstAt = timing.ThreePlaces(auto.Time/best.Time), auto.Bytes
			}
		}
		from := best.Bytes
		if last := len(sum.Fastest) - 1; last >= 0 && sum.Fastest[last].Variant != best.variant() {
			from = g.crossover(sum.Fastest[last].Variant, best.variant(), rows[i-1].Each[0].Bytes, best.Bytes)
		}
		if join(&sum.Fastest, best.variant(), from) && len(sum.Fastest) > 1 {
			sum.Crossovers = append(sum.Crossovers, from)
		}
	}
	return sum
}

// crossover finds from where on another variant is the faster of two, between two sizes at
// which it is not and is, to a 64th of the size.
func (g *modelling) crossover(was, is bench.Variant, lo, hi uint64) uint64 {
	for hi-lo > max(64, lo/64) {
		mid := (lo + hi) / 2 / 64 * 64
		a, err := g.call(mid, was)
		b, err2 := g.call(mid, is)
		if mid <= lo || err != nil || err2 != nil {
			break
		}
		if g.m.Time(b) < g.m.Time(a) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// tie is a lead that is none.
const tie = 0.01
