package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/bench/batch"
	"ringcli/cli/bench/buffers"
	"ringcli/cli/bench/windows"
	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/procfs"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/collective"
	"ringcli/collective/backend"
	"ringcli/collective/plan"
	"ringcli/collective/reduce"
	"ringcli/collective/reduce/reference"
	"ringcli/configs"
	"ringcli/configs/codes"
	"ringcli/verbs/gpu"
)

// operation is a collective as it was asked for.
type operation struct {
	op       collective.Operation
	typ      reduce.Type
	red      reduce.Op
	root     int // rank
	count    int // elements of the whole vector
	inPlace  bool
	buffers  buffers.Kind
	place    gpu.Place                  // whose memory
	placedBy string                     // the back end that has chosen the place, which differs by rank; "" if it was asked for
	backend  string                     // "" is our ring
	vendor   map[string]backend.Backend // by their names, once they are settled
	options  collective.CallOptions
	batch.Repetition
	window time.Duration // each so long is shown; 0: none is
	// aggregate is how many operations an iteration has, of which the mean is its time; 0: 1.
	aggregate int
	inFlight  int // so many of them are started before any is waited for; 0: each runs by itself
	check     bool
	ranked    bool  // each element of a rank's input is its number plus one
	floor     floor // zero is none
	maxResent mostResent
}

// call is the operation as package collective takes it, without its buffers.
func (o operation) call() collective.Call {
	return collective.Call{Op: o.op, Type: o.typ, Reduction: o.red, Root: o.root, Count: o.count, CallOptions: o.options}
}

// by is the operation by another variant.
func (o operation) by(w Variant) operation {
	o.options.Algorithm, o.options.Protocol, o.backend = w.Algorithm, w.Protocol, w.Backend
	return o
}

func (o operation) bytes() uint64 { return uint64(o.count) * uint64(o.typ.Size()) }

// String is the operation in an error or on the progress line.
func (o operation) String() string {
	return fmt.Sprintf("%s %s %s", o.op, configs.FormatSize(o.bytes()), o.variant())
}

// variant is how it runs.
func (o operation) variant() Variant {
	return Variant{o.options.Algorithm, o.options.Protocol, o.backend}
}

const (
	defaultSize = 1 << 20
	mostRoot    = 1<<31 - 1 // ranks are fewer
	// mostAggregate keeps products of iterations within an int.
	mostAggregate = 1 << 20
	mostInFlight  = 64
)

// windowFlag is that of what has a bandwidth.
func windowFlag(fs *pflag.FlagSet) {
	command.DurationFlag(fs, "window", 0, "with --duration: show each so long in a row, with the least busbw in it and who was late")
}

const verifySegments = "verify-segments"

// vectorFlags are those of a collective, whatever its sizes.
func vectorFlags(fs *pflag.FlagSet) {
	command.ChoiceFlag(fs, "type", "type", new(reduce.Float32), reduce.Types(), reduce.ParseType, "element type: "+strings.Join(render.Words(reduce.Types()), ", "))
	command.ChoiceFlag(fs, "op", "op", new(reduce.Sum), reduce.Ops(), reduce.ParseOp, "reduction: sum, prod, min, max or avg")
	buffers.Flag(fs)
	memoryFlag(fs)
	fs.Bool("sync", false, "barrier between the two phases of all-reduce")
	fs.Bool(verifySegments, false, "check each segment against a checksum that its sender made; not with direct")
	floorFlag(fs)
	maxResentFlag(fs)
}

// rootFlag is that of an operation that has a root.
func rootFlag(fs *pflag.FlagSet) {
	command.NumberFlag(fs, "root", "", 0, 0, mostRoot, "the rank of the root", "the rank whose vector a broadcast gives to all, or that gets what a reduce makes")
}

// operationFlags are those of one collective command.
func operationFlags(fs *pflag.FlagSet) {
	size := configs.SizeValue(defaultSize)
	fs.Var(&size, "size", "bytes of the whole vector; K, M and G are powers of 1024")
	command.NumberFlag(fs, "count", "", 0, 0, 1<<56, "elements of the whole vector", "elements of the whole vector, instead of --size")
	vectorFlags(fs)
	backendFlag(fs, false)
	batch.Flags(fs)
	windowFlag(fs)
	fs.Bool("check", false, "verify every element on every rank after measuring")
	fills := []string{fillRandom, fillRank}
	command.ChoiceFlag(fs, "fill", "values", &fills[0], fills, func(text string) (string, error) {
		if !slices.Contains(fills, text) {
			return "", fmt.Errorf("expected %s or %s", fillRandom, fillRank)
		}
		return text, nil
	}, "inputs: another number in each element (random), or each rank's number plus one (rank+1)")
	fs.Bool("in-place", false, "send from the buffer that is received into")
	fs.Bool(perRank, false, "show every rank's own times, too")
}

// The values of --fill.
const fillRandom, fillRank = "random", "rank+1"

// seed is that of the inputs of a check.
func (o operation) seed(check uint64) uint64 {
	if o.ranked {
		return reference.RankPlusOne
	}
	if o.backend != "" && o.op.Reduces() { // in an order that is its own
		return check | reference.OrderFree
	}
	return check
}

// settings are the session's, with those in them that the command's own flags give.
func settings(s *session.Session, call command.Call, names ...string) (c *configs.Config, err error) {
	c = s.Config
	for _, name := range names {
		if f := call.Flags.Lookup(name); f != nil && f.Changed && err == nil {
			c, err = c.With(name, f.Value.String())
		}
	}
	return c, err
}

// callOptions reads algorithm, protocol, segment and depth.
func callOptions(s *session.Session, call command.Call) (o collective.CallOptions, err error) {
	variants, err := askedVariants(s, call)
	if err != nil {
		return o, err
	}
	o.Algorithm, o.Protocol = variants[0].Algorithm, variants[0].Protocol
	c, err := settings(s, call, "segment", "depth")
	if err != nil {
		return o, err
	}
	if o.Segment, o.Depth = int(c.Size("segment")), c.Int("depth"); o.Depth > plan.MaxDepth {
		return o, exit.Usagef("depth is %d, expected 1 to %d segments in flight", o.Depth, plan.MaxDepth)
	}
	if call.Flags.Lookup("sync") == nil {
		return o, nil // a barrier
	}
	o.Sync, o.Verify = command.IsOn(call.Flags, "sync"), command.IsOn(call.Flags, verifySegments)
	if o.Verify && slices.ContainsFunc(variants, func(w Variant) bool { return w.Protocol == collective.Direct }) {
		return o, exit.Usagef("%s: --%s with --protocol %s: %s", call.Name, verifySegments, collective.Direct, plan.NotVerified)
	}
	return o, nil
}

// operationOf reads the flags of a collective command, for a vector of the size
// that was asked for.
func operationOf(s *session.Session, call command.Call) (operation, error) {
	fs := call.Flags
	if fs.Lookup("size") == nil {
		return repeated(s, call) // a barrier
	}
	size, count := command.SizeOf(fs, "size"), command.Value[int64](fs, "count")
	if fs.Changed("size") && fs.Changed("count") {
		return operation{}, exit.Usagef("%s: both --size %s and --count %d are given: expected one of them", call.Name, configs.FormatSize(size), count)
	}
	o, err := repeated(s, call)
	if err != nil {
		return o, err
	}
	o.inPlace, o.check = command.IsOn(fs, "in-place"), command.IsOn(fs, "check")
	o.ranked = command.Value[string](fs, "fill") == fillRank
	elements := size / uint64(o.typ.Size())
	if err := enoughFor(call.Name, "--size", size, o.typ); err != nil {
		return o, err
	}
	if fs.Changed("count") {
		elements = uint64(count)
	}
	if elements > 1<<56 { // leaves room for every type and every product with a number of ranks
		return o, exit.Usagef("%s: a vector of %d elements is more than an address space holds: use a smaller --size or --count", call.Name, elements)
	}
	o.count = int(elements)
	return o, nil
}

// enoughFor refuses a size that is not zero and holds no element: it would
// measure nothing. What is left over beyond whole elements is left out.
func enoughFor(command, flag string, size uint64, t reduce.Type) error {
	if size > 0 && size < uint64(t.Size()) {
		return exit.Usagef("%s: %s %s is less than an element of %s: expected at least %d bytes", command, flag, configs.FormatSize(size), t, t.Size())
	}
	return nil
}

// besides says of a size that it is not what is measured.
func besides(flag string, size uint64, t reduce.Type) []string {
	switch {
	case size == 0:
		return []string{"no element is moved: the time is that of a call"}
	case size%uint64(t.Size()) != 0:
		return []string{fmt.Sprintf("%s %s is no multiple of %s's %d bytes: what is left over is left out", flag, configs.FormatSize(size), t, t.Size())}
	}
	return nil
}

// repeated reads the flags that a collective and its bench have in common.
func repeated(s *session.Session, call command.Call) (operation, error) {
	fs := call.Flags
	o := operation{Repetition: batch.Of(s, fs)}
	if fs.Lookup("type") != nil { // no barrier
		o.typ, o.red = command.Value[reduce.Type](fs, "type"), command.Value[reduce.Op](fs, "op")
		o.buffers = command.Value[buffers.Kind](fs, "buffers")
		o.place = command.Value[gpu.Place](fs, "memory")
		o.window, o.floor = command.Value[time.Duration](fs, "window"), command.Value[floor](fs, "floor")
		o.maxResent = command.Given[float64](fs, "max-resent")
	}
	switch {
	case o.place.Kind != gpu.Host && o.buffers != buffers.Alloc && o.buffers != "":
		return o, exit.Usagef("%s: --buffers %s with --memory %s: expected one of them, since it says what memory of the host the vectors are in", call.Name, o.buffers, o.place)
	case o.window > 0 && o.Duration == 0:
		return o, exit.Usagef("%s: --window %s without --duration: expected how long to measure, as in --duration 1h", call.Name, o.window)
	case o.window > 0 && o.window < windows.Least:
		return o, exit.Usagef("%s: --window %s: expected %s or more", call.Name, o.window, windows.Least)
	}
	name := call.Name
	if len(call.Args) > 0 { // bench
		name = call.Args[0]
	}
	var err error
	if o.op, err = plan.ParseOperation(name); err == nil {
		o.options, err = callOptions(s, call)
	}
	if fs.Lookup("root") != nil {
		o.root = command.NumberOf(fs, "root")
	}
	if o.root != 0 && !o.op.Rooted() {
		return o, exit.Usagef("%s %s: --root %d means nothing here: expected it with an operation that has a root, such as %s", call.Name, name, o.root, collective.OpBroadcast)
	}
	return o, err
}

// buffersFor is how many buffers of the vector's length a rank needs.
func (o operation) buffersFor() int {
	n := 2
	if o.inPlace {
		n = 1
	}
	return n * max(o.inFlight, 1)
}

// checkOperation refuses before anything is connected or allocated.
func checkOperation(_ context.Context, s *session.Session, call command.Call, ranksHere int) error {
	o, err := operationOf(s, call)
	if err != nil {
		return err
	}
	if err := o.variant().check(call.Name, o.op); err != nil {
		return err
	}
	if err := checkPlace(call.Name, o.place); err != nil {
		return err
	}
	if err := checkBackends(s, call, call.Name, o); err != nil {
		return err
	}
	return procfs.CheckMemory(o.bytes(), o.buffersFor(), ranksHere)
}

func runOperation(ctx context.Context, s *session.Session, call command.Call) error {
	o, err := operationOf(s, call)
	if err != nil {
		return err
	}
	list, err := askedVariants(s, call)
	if err != nil {
		return err
	}
	if _, err := o.settle(ctx, s.Member, s, list); err != nil {
		return err
	}
	size := o.bytes()
	if size > 0 && !call.Flags.Changed("count") {
		size = command.SizeOf(call.Flags, "size")
	}
	if o.op.OnVectors() {
		if err := s.Out.Notes(render.Fair, besides("--size", size, o.typ)...); err != nil {
			return err
		}
	}
	m, stopped := measure(ctx, s.Member, s, o)
	if stopped != nil && (!batch.IsStopped(stopped) || m.Iters == 0) {
		return stopped
	}
	// What a long run has measured is worth its line though it was cut short.
	least, err := o.floor.of(m.Possible)
	if err != nil {
		return err
	}
	if m.NotMapped != "" && m.Buffers.Buffers != string(buffers.Private) {
		if err := s.Out.Notes(render.Fair, m.bufferNotes()...); err != nil {
			return err
		}
	}
	verdict := m.verdict(least, o.maxResent)
	m.OK = verdict == nil
	if err := errors.Join(s.Out.Heading(s.Member.Where()+"; a row: "+o.often()), s.Out.Print(m.record())); err != nil {
		return err
	}
	if err := s.Out.Notes(render.Fair, m.memoryNotes()...); err != nil {
		return err
	}
	if command.IsOn(call.Flags, perRank) {
		if err := PrintRanks(s, m); err != nil {
			return err
		}
	}
	if err := windows.Notes(s.Out, m.Windows, m.Late); err != nil {
		return err
	}
	if err := m.note(s.Member, s.Out); err != nil {
		return err
	}
	if verdict != nil && (stopped == nil || exit.Code(verdict) == exit.Critical) {
		return verdict
	}
	return stopped
}

// verdict is the error that a measurement amounts to: the same on all ranks.
func (m Measurement) verdict(floor float64, most mostResent) error {
	what := fmt.Sprintf("%s of %d bytes, %s", m.Command, m.Bytes, m.variant().short())
	switch {
	case m.Wrong != nil && *m.Wrong > 0:
		return codes.With(codes.WrongData, exit.Sharedf(exit.Critical, "wrong data: %s: %d wrong elements, the first at %s; %s", what, *m.Wrong, *m.First, m.Corruption))
	case m.BusBW < floor:
		return exit.Sharedf(exit.Warning, "slow: %s: busbw is %s GB/s, expected at least %s", what, render.Figure(m.BusBW), render.Figure(floor))
	}
	return m.exceeds(most, what)
}
