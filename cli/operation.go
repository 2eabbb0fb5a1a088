package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/render"
	"ringcli/collective"
	"ringcli/collective/reduce"
	"ringcli/configs"
)

// operation is a collective as it was asked for.
type operation struct {
	op       collective.Operation
	typ      reduce.Type
	red      reduce.Op
	count    int // elements of the whole vector
	inPlace  bool
	options  collective.CallOptions
	iters    int
	warmup   int
	duration time.Duration // instead of iters, if above zero
	check    bool
	floor    float64 // GB/s of busbw; 0 is none
}

// call is the operation as package collective takes it, without its buffers.
func (o operation) call() collective.Call {
	return collective.Call{Op: o.op, Type: o.typ, Reduction: o.red, Count: o.count, CallOptions: o.options}
}

// by is the operation by another way.
func (o operation) by(w way) operation {
	o.options = w.in(o.options)
	return o
}

func (o operation) bytes() uint64 { return uint64(o.count) * uint64(o.typ.Size()) }

// String is the operation in an error or on the progress line.
func (o operation) String() string {
	return fmt.Sprintf("%s %s %s", o.op, configs.FormatSize(o.bytes()), way{o.options.Algorithm, o.options.Protocol})
}

const (
	defaultSize   = 1 << 20
	defaultIters  = 20 // as in nccl-tests
	defaultWarmup = 5  // as in nccl-tests
	mostIters     = 1 << 40
)

// repeatFlags are those of everything that is measured.
func repeatFlags(fs *pflag.FlagSet) {
	numberFlag(fs, "iters", "", defaultIters, 1, mostIters, "the iterations to measure", "iterations measured")
	numberFlag(fs, "warmup", "", defaultWarmup, 0, mostIters, "the iterations before", "iterations before that")
	durationFlag(fs, "duration", 0, "measure for this long instead of --iters")
}

// vectorFlags are those of a collective, whatever its sizes.
func vectorFlags(fs *pflag.FlagSet) {
	choiceFlag(fs, "type", "type", new(reduce.Float32), reduce.Types(), reduce.ParseType, "element type")
	choiceFlag(fs, "op", "op", new(reduce.Sum), reduce.Ops(), reduce.ParseOp, "reduction: sum, prod, min, max or avg")
	fs.Bool("sync", false, "barrier between the two phases of all-reduce")
	bandwidthFlag(fs, "floor", "exit with 1 if busbw is below this")
}

// operationFlags are those of one collective command.
func operationFlags(fs *pflag.FlagSet) {
	size := configs.SizeValue(defaultSize)
	fs.Var(&size, "size", "bytes of the whole vector; K, M and G are powers of 1024")
	numberFlag(fs, "count", "", 0, 0, 1<<56, "elements of the whole vector", "elements of the whole vector, instead of --size")
	vectorFlags(fs)
	repeatFlags(fs)
	fs.Bool("check", false, "verify every element on every rank after measuring")
	fs.Bool("in-place", false, "send from the buffer that is received into")
	fs.Bool("per-rank", false, "show every rank's own times, too")
}

var settingsOfOperation = []string{"algorithm", "protocol", "segment", "depth"}

// setting returns a setting's value: the command's own flag, or what the session
// has.
func (s *Session) setting(call Call, name string) (configs.Value, error) {
	f := call.Flags.Lookup(name)
	if f == nil || !f.Changed {
		return s.Config.Get(name), nil
	}
	setting, _ := configs.Lookup(name)
	v, err := setting.Parse(f.Value.String())
	return configs.Value{Name: name, Value: v, Origin: configs.Origin{Source: configs.FromFlag, Name: name}}, err
}

// callOptions reads algorithm, protocol, segment and depth.
func (s *Session) callOptions(call Call) (o collective.CallOptions, err error) {
	ways, err := s.ways(call)
	if err != nil {
		return o, err
	}
	o = ways[0].in(o)
	segment, err := s.setting(call, "segment")
	if err != nil {
		return o, err
	}
	o.Segment = int(segment.Value.(uint64))
	depth, err := s.setting(call, "depth")
	if err != nil {
		return o, err
	}
	if o.Depth = depth.Value.(int); o.Depth > collective.MaxDepth {
		return o, usageError("depth is %d, expected 1 to %d segments in flight", o.Depth, collective.MaxDepth)
	}
	o.Sync = isOn(call.Flags, "sync")
	return o, nil
}

// operationOf reads the flags of a collective command, for a vector of the size
// that was asked for.
func (s *Session) operationOf(call Call) (operation, error) {
	fs := call.Flags
	size, count := sizeOf(fs, "size"), value[int64](fs, "count")
	if fs.Changed("size") && fs.Changed("count") {
		return operation{}, usageError("%s: both --size %s and --count %d are given: expected one of them", call.Name, configs.FormatSize(size), count)
	}
	o, err := s.repeated(call)
	if err != nil {
		return o, err
	}
	o.inPlace, o.check = isOn(fs, "in-place"), isOn(fs, "check")
	elements := size / uint64(o.typ.Size())
	if err := enoughFor(call.Name, "--size", size, o.typ); err != nil {
		return o, err
	}
	if fs.Changed("count") {
		elements = uint64(count)
	}
	if elements > 1<<56 { // leaves room for every type and every product with a number of ranks
		return o, usageError("%s: a vector of %d elements is more than an address space holds: use a smaller --size or --count", call.Name, elements)
	}
	o.count = int(elements)
	return o, nil
}

// enoughFor refuses a size that is not zero and holds no element: it would
// measure nothing. What is left over beyond whole elements is left out.
func enoughFor(command, flag string, size uint64, t reduce.Type) error {
	if size > 0 && size < uint64(t.Size()) {
		return usageError("%s: %s %s is less than an element of %s: expected at least %d bytes", command, flag, configs.FormatSize(size), t, t.Size())
	}
	return nil
}

// repeated reads the flags that a collective and its bench have in common.
func (s *Session) repeated(call Call) (operation, error) {
	fs := call.Flags
	o := operation{
		typ: value[reduce.Type](fs, "type"), red: value[reduce.Op](fs, "op"),
		iters: numberOf(fs, "iters"), warmup: numberOf(fs, "warmup"),
		duration: value[time.Duration](fs, "duration"), floor: value[float64](fs, "floor"),
	}
	name := call.Name
	if len(call.Args) > 0 { // bench
		name = call.Args[0]
	}
	var err error
	if o.op, err = collective.ParseOperation(name); err == nil {
		o.options, err = s.callOptions(call)
	}
	return o, err
}

// buffersFor is how many buffers of the vector's length a rank needs.
func (o operation) buffersFor() int {
	if o.inPlace {
		return 1
	}
	return 2
}

// checkOperation refuses before anything is connected or allocated.
func checkOperation(s *Session, call Call, ranksHere int) error {
	o, err := s.operationOf(call)
	if err != nil {
		return err
	}
	if err := (way{o.options.Algorithm, o.options.Protocol}).check(call.Name); err != nil {
		return err
	}
	return checkMemory(o.bytes(), o.buffersFor(), ranksHere)
}

func runOperation(ctx context.Context, s *Session, call Call) error {
	o, err := s.operationOf(call)
	if err != nil {
		return err
	}
	m, stopped := s.member.measure(ctx, s, o)
	if stopped != nil && (!isStopped(stopped) || m.Iters == 0) {
		return stopped
	}
	// What a long run has measured is worth its line though it was cut short.
	verdict := m.verdict(o.floor)
	m.OK = verdict == nil
	if err := s.Out.Print(m); err != nil {
		return err
	}
	if isOn(call.Flags, "per-rank") {
		if err := s.printRanks(m); err != nil {
			return err
		}
	}
	if verdict != nil && (stopped == nil || ExitCode(verdict) == ExitCritical) {
		return verdict
	}
	return stopped
}

// verdict is the error that a measurement amounts to: the same on all ranks.
func (m Measurement) verdict(floor float64) error {
	what := fmt.Sprintf("%s of %d bytes, %s", m.Command, m.Bytes, shortWay(m.Algorithm, m.Protocol))
	switch {
	case m.Wrong != nil && *m.Wrong > 0:
		return sharedError(ExitCritical, "wrong data: %s: %d wrong elements, the first at %s", what, *m.Wrong, *m.First)
	case m.BusBW < floor:
		return sharedError(ExitWarning, "slow: %s: busbw is %s GB/s, expected at least %s", what, render.Figure(m.BusBW), render.Figure(floor))
	}
	return nil
}
