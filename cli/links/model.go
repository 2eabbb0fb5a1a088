package links

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
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
	// softwareOverhead is where a message is a system call, at the latest a third of what
	// the way takes.
	softwareOverhead = 2 * time.Microsecond
)

const (
	standardRanks                  = 8
	modelMin, modelMax, modelTimes = 1 << 10, 1 << 30, 2
)

// ModelRow is `model`.
func ModelRow() command.Row {
	return command.Row{
		Name: "model", Group: command.GroupLook, Where: command.Process | command.Line, Pages: true, Own: true, Harmless: true,
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

--from takes alpha and beta of each pair from what ` + "`links --output json`" + ` wrote,
of this cluster, and says what its slowest pair costs the whole ring, since all
data goes over each edge: the time with it, without it, and in a better order of
the ranks, if the pairs of that were measured, as links --mesh does.

Formulas: Thakur, Rabenseifner and Gropp (2005) for the algorithms, Hockney and
LogGP for the costs; what differs is in the source, package collective/model.`,
		Example:  "  ringcli model --ranks 1024 --alpha 3us --beta 48GB/s --op all-reduce\n  ringcli model --from links.json --op all-gather -b 1M -e 1G",
		Settings: []string{"segment", "depth", "slots", "slot-size", "hosts"},
		Flags:    modelFlags, Check: checkModel, Run: runModel,
	}
}

func modelFlags(fs *pflag.FlagSet) {
	command.NumberFlag(fs, "ranks", "n", standardRanks, 2, mostRanks, "the ranks", "ranks of the ring")
	operations := collective.AllOperations()
	first := collective.OpAllReduce
	command.ChoiceFlag(fs, "op", "operation", &first, operations, collective.ParseOperation, "operation: "+strings.Join(render.Words(operations), ", "))
	command.ChoiceFlag(fs, "type", "type", new(reduce.Float32), reduce.Types(), reduce.ParseType, "element type")
	command.DurationFlag(fs, "alpha", 0, "time of a message beside its length, one way, such as 3us")
	rateFlag(fs, "beta", 0, "bandwidth of an edge, each way, such as 48GB/s or 400Gb/s")
	rateFlag(fs, "within", 0, "bandwidth of an edge between two ranks of a host, with --hosts, if it is not beta")
	rateFlag(fs, "gamma", standardGamma, "what a core reduces")
	rateFlag(fs, "copy", standardCopy, "what a core copies")
	command.DurationFlag(fs, "overhead", standardOverhead, "CPU time of a message, at each end")
	rateFlag(fs, "software", 0, "what a core sends or receives, if it moves the data itself")
	command.DurationFlag(fs, "line", 0, "time of a cache line from core to core: the ranks share memory")
	fs.String("from", "", "file of links that were measured (-: standard input)")
	command.Completes(fs, "from", "files", "json")
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
	shape  collective.Shape
	sizes  []uint64
	m      model.Machine
	costs  ModelCosts
	from   cluster // of --from
	option collective.CallOptions
	list   []bench.Variant
}

func checkModel(ctx context.Context, s *session.Session, call command.Call, _ int) error {
	_, err := newModelling(ctx, s, call, false)
	return err
}

func runModel(ctx context.Context, s *session.Session, call command.Call) error {
	g, err := newModelling(ctx, s, call, true)
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

// newModelling reads what was asked for. The file is read once, since it may be standard
// input: where it only is to be checked, the file is not.
func newModelling(ctx context.Context, s *session.Session, call command.Call, read bool) (*modelling, error) {
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
	path, given := command.TextOf(fs, "from"), func(name string) bool { return fs.Changed(name) }
	switch {
	case path == "" && given("from"):
		return nil, exit.Usagef("model: --from \"\": expected a file; is a variable not set?")
	case path != "" && (given("alpha") || given("beta") || given("ranks")):
		return nil, exit.Usagef("model: --from with --ranks, --alpha or --beta: expected the file, which has them, or these")
	case path == "" && (!given("alpha") || !given("beta")):
		return nil, exit.Usagef("model: no cluster: expected --alpha and --beta, such as --ranks 1024 --alpha 3us --beta 48GB/s, or --from FILE of `ringcli links --output json`")
	}
	ranks := command.NumberOf(fs, "ranks")
	if path != "" && read {
		var err error
		if g.from, err = readLinks(ctx, path, s.Stdin); err != nil {
			return nil, err
		}
		ranks = g.from.ranks
	}
	line := command.Value[time.Duration](fs, "line").Seconds()
	g.shape = collective.Shape{Ranks: ranks, Slots: config.Int("slots"), SlotSize: int(config.Size("slot-size")), Shared: line > 0}
	g.m = model.Machine{
		Ranks: ranks, Edge: model.Edge{Alpha: command.Value[time.Duration](fs, "alpha").Seconds(), Beta: command.Value[rate](fs, "beta").perByte()},
		Overhead: command.Value[time.Duration](fs, "overhead").Seconds(), Line: line,
		Gamma: model.Flat(command.Value[rate](fs, "gamma").perByte()), Copy: model.Flat(command.Value[rate](fs, "copy").perByte()),
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
		g.software(software.perByte(), true)
	}
	if g.from.edges != nil {
		g.ofLinks(given)
	}
	if g.m.RecvByte == nil { // else a CPU carries it
		g.shape.LinkMbps = int(8 / g.m.Edge.Beta / 1e6)
	}
	g.costs = ModelCosts{
		Alpha: timing.ThreePlaces(g.m.Edge.Alpha * 1e6), Beta: timing.SixPlaces(inverse(g.m.Edge.Beta)), Gamma: timing.SixPlaces(inverse(g.m.Gamma.At(1))),
		Copy: timing.SixPlaces(inverse(g.m.Copy.At(1))), Overhead: timing.ThreePlaces(g.m.Overhead * 1e6), Software: timing.SixPlaces(inverse(g.m.RecvByte.At(1))), Line: timing.ThreePlaces(line * 1e6),
	}
	var err error
	if g.sizes, err = g.sizesOf(fs); err != nil {
		return nil, err
	}
	g.list, err = g.variants()
	return g, err
}

// inverse is a time per byte as GB/s.
func inverse(perByte float64) float64 {
	if perByte == 0 {
		return 0
	}
	return 1 / perByte / 1e9
}

// software has the CPU move the data: that of who receives, and of who sends where that is
// not shared memory.
func (g *modelling) software(perByte float64, sends bool) {
	g.shape.Software = sends
	g.m.RecvByte = model.Flat(perByte)
	if sends {
		g.m.SendByte = model.Flat(perByte)
	}
}

// ofLinks takes over what was measured. The way of a small message has its overheads in it,
// which are paid apart from it.
func (g *modelling) ofLinks(given func(string) bool) {
	usual := model.Usual(slices.Collect(maps.Values(g.from.edges)))
	provider, _, _ := strings.Cut(g.from.device, ":")
	if (provider == "soft" || provider == "shm") && !given("software") {
		g.software(usual.Beta, provider == "soft")
	}
	if provider == "soft" && !given("overhead") {
		g.m.Overhead = softwareOverhead.Seconds()
	}
	g.m.Overhead = min(g.m.Overhead, usual.Alpha/3)
	g.m.Edges = map[model.Pair]model.Edge{}
	for p, e := range g.from.edges {
		e.Alpha = max(0, e.Alpha-2*g.m.Overhead)
		g.m.Edges[p] = e
	}
	g.m.Edge = usual
	g.m.Edge.Alpha -= 2 * g.m.Overhead
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
	for _, a := range collective.Algorithms()[1:] {
		for _, p := range collective.Protocols()[1:] {
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
		if t := g.m.Time(k); !math.IsInf(t, 1) {
			us := timing.ThreePlaces(t * 1e6)
			m.OK, m.Time = true, &us
			if size > 0 {
				m.AlgBW, m.BusBW = timing.Bandwidth(g.op.String(), size, g.shape.Ranks, us)
			}
			if best < 0 || us < *r.Each[best].Time*(1-tie) {
				best = len(r.Each)
			}
		}
		r.Each = append(r.Each, m)
	}
	if best >= 0 {
		r.Each[best].Fastest = true
	}
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
	err = errors.Join(err, s.Out.Print(g.summary(rows)))
	if g.from.edges == nil || err != nil {
		return err
	}
	at := []int{len(rows) - 1}
	if len(rows) > 1 {
		at = []int{0, len(rows) - 1}
	}
	for _, i := range at {
		err = errors.Join(err, s.Out.Print(g.slowEdge(rows[i])))
	}
	return err
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
		var best, auto *ModelTime
		for j := range r.Each {
			if r.Each[j].Fastest {
				best = &r.Each[j]
			}
			if r.Each[j].Auto {
				auto = &r.Each[j]
			}
		}
		if auto != nil {
			join(&sum.Auto, auto.variant(), auto.Bytes)
		}
		if best == nil {
			sum.OK = false // the edge that follows says why
			continue
		}
		if auto != nil && auto.Time != nil && *best.Time > 0 && *auto.Time / *best.Time > sum.AutoWorst {
			sum.AutoWorst, sum.AutoWorstAt = timing.ThreePlaces(*auto.Time / *best.Time), auto.Bytes
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

// costly is from which share on an edge is worth a warning.
const costly = 1.1

// slowEdge is what the worst edge costs the best of the protocols round the ring, at one size.
func (g *modelling) slowEdge(r ModelSize) ModelEdge {
	v := bench.Variant{Algorithm: collective.AlgorithmRing, Protocol: collective.Eager}
	least := math.Inf(1)
	for _, m := range r.Each {
		if m.Algorithm == collective.AlgorithmRing && m.Protocol != collective.Direct && m.Time != nil && *m.Time < least {
			v, least = m.variant(), *m.Time
		}
	}
	size := r.Each[0].Bytes
	k, err := g.call(size, v)
	if err != nil {
		panic("model: " + err.Error()) // it was called so for the table
	}
	slow := g.m.Slow(k)
	us := func(t float64) float64 { return timing.ThreePlaces(t * 1e6) }
	e := ModelEdge{
		Command: "model", OK: slow.With < costly*slow.Without, Operation: g.op, Ranks: g.shape.Ranks, Bytes: size, Protocol: v.Protocol,
		From: slow.Pair.From, To: slow.Pair.To, FromHost: g.from.hosts[slow.Pair.From], ToHost: g.from.hosts[slow.Pair.To],
		Latency: us(g.from.edges[slow.Pair].Alpha), BW: timing.SixPlaces(inverse(slow.Edge.Beta)),
		UsualLatency: us(slow.Usual.Alpha + 2*g.m.Overhead), UsualBW: timing.SixPlaces(inverse(slow.Usual.Beta)),
		Without: us(slow.Without), Unmeasured: g.shape.Ranks*(g.shape.Ranks-1) - len(g.from.edges),
	}
	if !math.IsInf(slow.With, 1) {
		t := us(slow.With)
		e.Time = &t
	}
	if slow.Order != nil && !math.IsInf(slow.Ordered, 1) {
		e.Order, e.Ordered = slow.Order, us(slow.Ordered)
		for _, r := range e.Order {
			if !slices.Contains(g.from.hosts, "") {
				e.OrderHosts = append(e.OrderHosts, g.from.hosts[r])
			}
		}
	}
	return e
}
