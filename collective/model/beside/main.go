// Command beside holds package model against what ringcli measures on this machine: it
// measures what the parts cost, and then every operation, algorithm and protocol on two and
// four ranks, over packets and over shared memory. It is for people with a quiet machine,
// not for CI.
//
//	make build && go run ./collective/model/beside
//
// What a message costs is taken from one operation that does nothing else, all ranks at once:
// an all-gather round the ring, by size and protocol, right before and after the operations of
// that size, of the same processes, since the rate between two cores of a virtual machine may
// change within seconds. That parameters are estimated by communication of the collectives'
// own kind, with all ranks at work, follows Nuriyev and Lastovetsky ("Efficient and accurate
// selection of optimal collective communication algorithms using analytical performance
// modelling", IEEE Access 9, 2021). Those rows are in the table as "=", and in no error.
// Nothing is fitted to the others.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"ringcli/collective"
	"ringcli/collective/model"
	"ringcli/collective/reduce"
)

// options are what is measured.
type options struct {
	ringcli  string
	devices  []string
	ranks    []int
	least    uint64
	greatest uint64
	factor   uint64
	quick    bool
}

func main() {
	var o options
	devices := flag.String("devices", "soft:lo,shm:0", "devices")
	flag.StringVar(&o.ringcli, "ringcli", "./ringcli", "the program, as make build leaves it")
	flag.BoolVar(&o.quick, "quick", false, "two sizes: whether it runs")
	table := flag.String("save", "", "file for the measurements as JSON, one a line")
	flag.Parse()
	o.devices, o.ranks, o.least, o.greatest, o.factor = strings.Split(*devices, ","), []int{2, 4}, 1<<10, 16<<20, 4
	if o.quick {
		o.factor = 1 << 14
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	out := &page{w: os.Stdout}
	rows, err := run(ctx, o, out)
	if err == nil && *table != "" {
		err = save(*table, rows)
	}
	if err = cmp.Or(err, out.err); err != nil {
		fmt.Fprintln(os.Stderr, "beside:", err)
		os.Exit(2)
	}
}

// page is what is printed; the first error stays.
type page struct {
	w   io.Writer
	err error
}

func (p *page) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// save writes the rows as JSON, one a line.
func save(path string, rows []row) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	e := json.NewEncoder(f)
	for _, r := range rows {
		err = errors.Join(err, e.Encode(r))
	}
	return errors.Join(err, f.Close())
}

// row is one measurement beside the model.
type row struct {
	Device    string  `json:"device"`
	Ranks     int     `json:"ranks"`
	Op        string  `json:"operation"`
	Bytes     uint64  `json:"bytes"`
	Algorithm string  `json:"algorithm"`
	Protocol  string  `json:"protocol"`
	Measured  float64 `json:"measured_us"`
	Model     float64 `json:"model_us,omitempty"`
	Fitted    bool    `json:"fitted,omitempty"` // messages were measured by it
}

// off is by what share of the measurement the model is off.
func (r row) off() float64 { return math.Abs(r.Model/r.Measured - 1) }

func run(ctx context.Context, o options, out *page) (all []row, err error) {
	for _, device := range o.devices {
		for _, n := range o.ranks {
			b, err := o.parts(ctx, out, device, n)
			if err != nil {
				return nil, err
			}
			var rows []row
			for v := o.least; v <= o.greatest; v *= o.factor {
				of, err := o.beside(ctx, b, v)
				if err != nil {
					return nil, err
				}
				rows = append(rows, of...)
			}
			show(out, rows)
			all = append(all, rows...)
		}
	}
	summarise(out, all)
	return all, nil
}

// bench is one device with so many ranks, and what its parts cost but for bytes and protocols.
type bench struct {
	device string
	parts  model.Machine
	memory costs
	shape  collective.Shape
}

// parts measures what does not go by protocol and size.
func (o options) parts(ctx context.Context, out *page, device string, n int) (*bench, error) {
	shm := strings.HasPrefix(device, "shm")
	b := &bench{device: device, parts: model.Machine{Ranks: n}, memory: memory(min(n, runtime.NumCPU()), o.quick)}
	b.shape = collective.Shape{Ranks: n, Slots: 16, SlotSize: 256 << 10, Software: true, Shared: shm}
	m := &b.parts
	m.Line, m.CPUs = b.memory.line, runtime.NumCPU()
	if err := o.messages(ctx, b); err != nil {
		return nil, err
	}
	out.printf("\n%s, %d ranks: alpha %.2f us, o %.2f us, line %.3f us\n", device, n, m.Edge.Alpha*1e6, m.Overhead*1e6, m.Line*1e6)
	return b, nil
}

// messages measures what a word costs ranks that have a CPU each: o is told by a row of messages,
// and α by an exchange, in which nobody waits for an acknowledgement; a call without messages by
// one through the inbox.
func (o options) messages(ctx context.Context, b *bench) error {
	alone := b.parts
	alone.Ranks = min(alone.Ranks, alone.CPUs)
	const messages, short = 2048, 256
	exchange := b.word(collective.AlgorithmRecursiveDoubling, alone.Ranks)
	row := fmt.Sprintf("all-gather --size %d --segment %d --algorithm ring --protocol eager", alone.Ranks*messages*short, short)
	lines := []string{row, command(exchange)}
	if b.shape.Shared {
		lines = append(lines, command(direct(exchange, collective.AlgorithmInbox)))
	}
	list, err := o.lines(ctx, b.device, alone.Ranks, slices.Repeat(lines, 3)...)
	if err != nil {
		return err
	}
	of := func(i int) float64 {
		return median(list[i].seconds(), list[i+len(lines)].seconds(), list[i+2*len(lines)].seconds())
	}
	steps := math.Ceil(math.Log2(float64(alone.Ranks)))
	alone.Overhead = min(of(0)/float64(alone.Ranks-1)/messages, of(1)/steps) / 2
	solve(&alone, exchange, of(1), func(x float64) { alone.Edge.Alpha = x })
	b.parts.Overhead, b.parts.Edge.Alpha = alone.Overhead, alone.Edge.Alpha
	if b.shape.Shared {
		solve(&alone, direct(exchange, collective.AlgorithmInbox), of(2), func(x float64) { alone.Call = x })
		b.parts.Call = alone.Call
	}
	return nil
}

// words are the calls that move a word, by what they tell. They are measured among the operations
// of a size, since a run's messages may cost something else than another's.
type words struct{ exchange, ring, inbox, pull collective.Call }

func (b *bench) words() (w words, list []collective.Call) {
	n := b.parts.Ranks
	w.exchange, w.ring = b.word(collective.AlgorithmRecursiveDoubling, n), b.word(collective.AlgorithmRing, n)
	list = []collective.Call{w.exchange, w.ring}
	if b.shape.Shared {
		w.inbox, w.pull = direct(w.ring, collective.AlgorithmInbox), direct(w.ring, collective.AlgorithmRing)
		list = append(list, w.inbox, w.pull)
	}
	return w, list
}

// costs are what the parts cost in a run in which words take so long: a turn, if ranks take turns,
// and else the messages' share of what they cost alone, is told by the exchange, and what an
// acknowledgement costs by the ring. Without messages, the inbox tells what a turn or a call costs,
// and the ring what a call by that algorithm does.
func (w words) costs(parts model.Machine, a collective.Algorithm, p collective.Protocol, took func(collective.Call) float64) (m model.Machine) {
	m = parts
	crowded := m.Ranks > m.CPUs
	turn := func(x float64) { m.Turn = x }
	if p == collective.Direct {
		if solve(&m, w.inbox, took(w.inbox), turn); !crowded || m.Turn == 0 {
			solve(&m, w.inbox, took(w.inbox), func(x float64) { m.Call = x })
		}
		if a == collective.AlgorithmRing {
			solve(&m, w.pull, took(w.pull), func(x float64) { m.Call = x })
		}
		return m
	}
	share := func(x float64) { m.Overhead, m.Edge.Alpha = x*parts.Overhead, x*parts.Edge.Alpha }
	if crowded {
		solve(&m, w.exchange, took(w.exchange), turn)
	}
	if m.Turn == 0 {
		solve(&m, w.exchange, took(w.exchange), func(x float64) { share(x * 1e4) })
	}
	solve(&m, w.ring, took(w.ring), func(x float64) { m.Ack = x })
	return m
}

// solve sets a cost in seconds to that by which a call takes so long.
func solve(m *model.Machine, k collective.Call, took float64, set func(float64)) {
	x := bisect(0, 1e-3, func(x float64) bool { set(x); return m.Row(k) > took })
	if x < 1e-12 {
		x = 0
	}
	set(x)
}

func median(v ...float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// direct is a call without messages.
func direct(k collective.Call, a collective.Algorithm) collective.Call {
	k.Algorithm, k.Protocol = a, collective.Direct
	return k
}

// word is an all-gather of a word of each of so many ranks.
func (b *bench) word(a collective.Algorithm, ranks int) collective.Call {
	s := b.shape
	s.Ranks = ranks
	k := collective.Call{Op: collective.OpAllGather, Type: reduce.Float32, Count: 2 * ranks, CallOptions: collective.CallOptions{Algorithm: a, Protocol: collective.Eager}}
	k, err := s.Plan(k, collective.Table{})
	if err != nil {
		panic(err) // all shapes of this program have it
	}
	return k
}

// command is that which runs a call.
func command(k collective.Call) string {
	return fmt.Sprintf("%s --size %d --algorithm %s --protocol %s", k.Op, k.Count*k.Type.Size(), k.Algorithm, k.Protocol)
}

// machine is that on which an all-gather takes so long in seconds, of which bytes take what the
// costs of words leave over; of these there is a share where that is too long.
func (b *bench) machine(words model.Machine, gather collective.Call, took float64) *model.Machine {
	with := func(share, perByte float64) *model.Machine {
		m := words
		m.Overhead, m.Edge.Alpha, m.Ack, m.Turn = share*m.Overhead, share*m.Edge.Alpha, share*m.Ack, share*m.Turn
		m.Gamma, m.Copy = b.memory.gamma, b.memory.copy
		if gather.Protocol == collective.Direct {
			m.Call, m.Line = share*m.Call, share*m.Line
			vector := float64(gather.Count * gather.Type.Size())
			m.Copy = model.Flat(perByte)
			m.Gamma, m.Fetch = model.Flat(perByte*b.memory.reduced.At(vector)), model.Flat(perByte*b.memory.fetched.At(vector))
			return &m
		}
		m.RecvByte = model.Flat(perByte)
		if !b.shape.Shared { // whoever receives copies
			m.SendByte = m.RecvByte
		}
		return &m
	}
	const slowest = 1e-8 // s/byte
	if with(1, 0).Time(gather) > took {
		return with(bisect(0, 1, func(x float64) bool { return with(x, 0).Time(gather) > took }), 0)
	}
	return with(1, bisect(0, slowest, func(x float64) bool { return with(1, x).Time(gather) > took }))
}

// bisect is where between two values something begins to be so.
func bisect(lo, hi float64, is func(float64) bool) float64 {
	for range 40 {
		if mid := (lo + hi) / 2; is(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// result is what is read of a line of ringcli.
type result struct {
	Command   string  `json:"command"`
	OK        bool    `json:"ok"`
	Error     string  `json:"error"`
	Bytes     uint64  `json:"bytes"`
	Algorithm string  `json:"algorithm"`
	Protocol  string  `json:"protocol"`
	BW        float64 `json:"bw_GBps"`
	Time      struct {
		P50, Mean float64
	} `json:"time_us"`
}

// seconds are the median of the iterations.
func (r *result) seconds() float64 { return r.Time.P50 / 1e6 }

// lines runs commands on a ring, one after the other.
func (o options) lines(ctx context.Context, device string, n int, lines ...string) ([]result, error) {
	return o.ringcliLines(ctx, "local", "-n", fmt.Sprint(n), "--device", device, "-c", strings.Join(lines, "; "))
}

// ringcliLines runs ringcli and returns what it measured.
func (o options) ringcliLines(ctx context.Context, args ...string) (list []result, err error) {
	const longest = 10 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	program, err := filepath.Abs(o.ringcli)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, append(args, "--output", "json")...)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	for line := range strings.Lines(string(text)) {
		var r result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		if r.Bytes > 0 {
			list = append(list, r)
		}
	}
	if err == nil && len(list) == 0 {
		err = errors.New("nothing was measured")
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", o.ringcli, strings.Join(args, " "), err, text)
	}
	return list, nil
}

// beside measures all operations on vectors of so many bytes, and reckons each.
func (o options) beside(ctx context.Context, b *bench, v uint64) (rows []row, err error) {
	var calls []collective.Call
	var lines []string
	add := func(list []collective.Call) {
		for _, k := range list {
			calls = append(calls, k)
			lines = append(lines, command(k))
		}
	}
	words, ofWords := b.words()
	gathers := slices.DeleteFunc(b.variants(collective.OpAllGather, v), func(k collective.Call) bool { return !isGather(k) })
	add(ofWords)
	add(gathers)
	for _, op := range collective.Operations() {
		add(slices.DeleteFunc(b.variants(op, v), isGather))
		add(ofWords)
		add(gathers)
	}
	list, err := o.lines(ctx, b.device, b.parts.Ranks, lines...)
	if err != nil {
		return nil, err
	}
	if len(list) != len(calls) {
		return nil, fmt.Errorf("%d of %d operations were measured", len(list), len(calls))
	}
	typical := func(k collective.Call) float64 {
		var all []float64
		for i := range calls {
			if calls[i] == k {
				all = append(all, list[i].seconds())
			}
		}
		return median(all...)
	}
	// What a gather took last before an operation, and first after it.
	took := func(i int, gather collective.Call) (seconds float64) {
		after := i + slices.Index(calls[i:], gather)
		before := after - 1
		for before > i || calls[before] != gather {
			before--
		}
		return (list[before].seconds() + list[after].seconds()) / 2
	}
	for i, k := range calls {
		r := row{Device: b.device, Ranks: b.parts.Ranks, Op: k.Op.String(), Bytes: v, Algorithm: k.Algorithm.String(), Protocol: k.Protocol.String(), Measured: list[i].Time.P50}
		switch {
		case slices.Contains(ofWords, k):
			continue
		case isGather(k):
			if i >= len(calls)-len(gathers) { // each once
				r.Fitted = true
				rows = append(rows, r)
			}
			continue
		}
		gather := gathers[slices.IndexFunc(gathers, func(g collective.Call) bool {
			return g.Protocol == tells(k).Protocol && g.Algorithm == tells(k).Algorithm
		})]
		r.Model = b.machine(words.costs(b.parts, gather.Algorithm, gather.Protocol, typical), gather, took(i, gather)).Row(k) * 1e6
		rows = append(rows, r)
	}
	return rows, nil
}

// isGather tells whether bytes are measured by it.
func isGather(k collective.Call) bool {
	return k.Op == collective.OpAllGather && (k.Algorithm == collective.AlgorithmRing || k.Protocol == collective.Direct)
}

// tells is the all-gather that tells what a call's bytes cost: of its algorithm, where that has no
// messages, and else round the ring.
func tells(k collective.Call) (of collective.CallOptions) {
	of.Algorithm, of.Protocol = collective.AlgorithmRing, k.Protocol
	switch k.Protocol {
	case collective.ReceiverInitiated: // whose first phase is
		of.Protocol = collective.Eager
	case collective.Direct:
		of.Algorithm = k.Algorithm
	}
	return of
}

// variants are the plans of all ways to run an operation.
func (b *bench) variants(op collective.Operation, v uint64) (list []collective.Call) {
	for _, a := range collective.Algorithms()[1:] {
		for _, p := range collective.Protocols()[1:] {
			k := collective.Call{Op: op, Type: reduce.Float32, Count: int(v) / reduce.Float32.Size(), CallOptions: collective.CallOptions{Algorithm: a, Protocol: p}}
			if plan, err := b.shape.Plan(k, collective.Table{}); err == nil && plan.Algorithm == a && plan.Protocol == p {
				list = append(list, plan)
			}
		}
	}
	return list
}

// show prints all rows: measured, and the model's share of it.
func show(out *page, rows []row) {
	var sizes []uint64
	type key struct{ op, algorithm, protocol string }
	var keys []key
	cells := map[key]map[uint64]row{}
	for _, r := range rows {
		k := key{r.Op, r.Algorithm, r.Protocol}
		if cells[k] == nil {
			cells[k] = map[uint64]row{}
			keys = append(keys, k)
		}
		cells[k][r.Bytes] = r
		if !slices.Contains(sizes, r.Bytes) {
			sizes = append(sizes, r.Bytes)
		}
	}
	slices.Sort(sizes)
	out.printf("measured us, and model/measured\n%-50s", "")
	for _, s := range sizes {
		out.printf("%16d", s)
	}
	for _, k := range keys {
		out.printf("\n%-50s", k.op+" "+k.algorithm+"/"+k.protocol)
		for _, s := range sizes {
			if r, ok := cells[k][s]; ok && r.Fitted {
				out.printf("%10.1f %5s", r.Measured, "=")
			} else if ok {
				out.printf("%10.1f %5.2f", r.Measured, r.Model/r.Measured)
			} else {
				out.printf("%16s", "-")
			}
		}
	}
	out.printf("\n")
}

// summarise prints the median error of all, and of each kind.
func summarise(out *page, rows []row) {
	groups := map[string][]float64{}
	var names []string
	add := func(name string, off float64) {
		if groups[name] == nil {
			names = append(names, name)
		}
		groups[name] = append(groups[name], off)
	}
	rows = slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.Fitted })
	for _, r := range rows {
		add("all", r.off())
	}
	for _, r := range rows {
		add(fmt.Sprintf("%s on %d", r.Device, r.Ranks), r.off())
	}
	for _, r := range rows {
		add(r.Device+" "+r.Algorithm+"/"+r.Protocol, r.off())
	}
	for _, r := range rows {
		add(fmt.Sprintf("%s of %d bytes", r.Device, r.Bytes), r.off())
	}
	out.printf("\n%-50s %6s %8s %8s %8s\n", "error", "rows", "median", "90 %", "most")
	for _, name := range names {
		v := slices.Sorted(slices.Values(groups[name]))
		out.printf("%-50s %6d %7.1f%% %7.1f%% %7.1f%%\n", name, len(v), v[len(v)/2]*100, v[min(len(v)*9/10, len(v)-1)]*100, v[len(v)-1]*100)
	}
	out.printf("%d CPUs, %s\n", runtime.NumCPU(), runtime.Version())
}
