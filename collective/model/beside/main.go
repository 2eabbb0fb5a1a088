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
	b := &bench{device: device, parts: model.Machine{Ranks: n}, memory: memory(n, o.quick)}
	b.shape = collective.Shape{Ranks: n, Slots: 16, SlotSize: 256 << 10, Software: true, Shared: shm}
	m := &b.parts
	// A row of short messages: two of them cost their CPU o each, at every position.
	const messages, short = 2048, 256
	rows, err := o.lines(ctx, device, n, fmt.Sprintf("all-gather --size %d --segment %d --algorithm ring --protocol eager", n*messages*short, short))
	if err != nil {
		return nil, err
	}
	m.Overhead = rows[0].Time.P50 / 1e6 / float64(n-1) / messages / 2
	// Messages of a word: what is not o is α.
	gather := b.variants(collective.OpAllGather, uint64(n*4))[0]
	if rows, err = o.lines(ctx, device, n, fmt.Sprintf("all-gather --size %d --algorithm ring --protocol eager", n*4)); err != nil {
		return nil, err
	}
	word := *m
	m.Edge.Alpha = bisect(0, 1, func(alpha float64) bool { word.Edge.Alpha = alpha; return word.Time(gather) > rows[0].Time.P50/1e6 })
	m.Line, m.CPUs = b.memory.line, runtime.NumCPU()
	if shm { // a call that moves a word: what is not the line's way is the call's
		const word = "all-reduce --size 8 --algorithm inbox --protocol direct"
		if rows, err = o.lines(ctx, device, 2, word); err != nil {
			return nil, err
		}
		m.Call = max(0, rows[0].Time.P50/1e6-m.Line)
		if n > m.CPUs { // and here the waiting for a turn is the line's
			if rows, err = o.lines(ctx, device, n, word); err != nil {
				return nil, err
			}
			m.Line = max(m.Line, (rows[0].Time.P50/1e6-m.Call)/float64(n-1))
		}
	}
	out.printf("\n%s, %d ranks: alpha %.2f us, o %.2f us, line %.3f us, a call %.3f us\n", device, n, m.Edge.Alpha*1e6, m.Overhead*1e6, m.Line*1e6, m.Call*1e6)
	return b, nil
}

// machine is that on which an all-gather round the ring takes so long in seconds, of which
// bytes take what α and o leave over: α is that of the shortest, nothing where that is too long.
func (b *bench) machine(gather collective.Call, took float64) *model.Machine {
	with := func(share, perByte float64) *model.Machine {
		m := b.parts
		m.Overhead, m.Edge.Alpha = share*m.Overhead, share*m.Edge.Alpha
		m.Gamma, m.Copy = b.memory.gamma, b.memory.copy
		if gather.Protocol == collective.Direct {
			// A reduction reads the other ranks' memory as a copy does: that is what takes the time.
			m.Copy, m.Gamma = model.Flat(perByte), model.Flat(perByte)
			m.Call, m.Line = share*m.Call, share*m.Line
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
			lines = append(lines, fmt.Sprintf("%s --size %d --algorithm %s --protocol %s", k.Op, v, k.Algorithm, k.Protocol))
		}
	}
	gathers := slices.DeleteFunc(b.variants(collective.OpAllGather, v), func(k collective.Call) bool { return k.Algorithm != collective.AlgorithmRing })
	add(gathers)
	for _, op := range collective.Operations() {
		add(slices.DeleteFunc(b.variants(op, v), func(k collective.Call) bool { return isGather(k) }))
		add(gathers)
	}
	list, err := o.lines(ctx, b.device, b.parts.Ranks, lines...)
	if err != nil {
		return nil, err
	}
	if len(list) != len(calls) {
		return nil, fmt.Errorf("%d of %d operations were measured", len(list), len(calls))
	}
	// What a gather took last before an operation, and first after it.
	took := func(i int, p collective.Protocol) (seconds float64) {
		is := func(k collective.Call) bool { return isGather(k) && k.Protocol == p }
		after := i + slices.IndexFunc(calls[i:], is)
		before := after - 1
		for before > i || !is(calls[before]) {
			before--
		}
		return (list[before].Time.P50 + list[after].Time.P50) / 2 / 1e6
	}
	for i, k := range calls {
		r := row{Device: b.device, Ranks: b.parts.Ranks, Op: k.Op.String(), Bytes: v, Algorithm: k.Algorithm.String(), Protocol: k.Protocol.String(), Measured: list[i].Time.P50}
		if isGather(k) {
			if i >= len(calls)-len(gathers) { // each once
				r.Fitted = true
				rows = append(rows, r)
			}
			continue
		}
		of := k.Protocol
		if of == collective.ReceiverInitiated { // whose first phase is
			of = collective.Eager
		}
		gather := gathers[slices.IndexFunc(gathers, func(g collective.Call) bool { return g.Protocol == of })]
		r.Model = b.machine(gather, took(i, of)).Time(k) * 1e6
		rows = append(rows, r)
	}
	return rows, nil
}

// isGather tells whether messages are measured by it.
func isGather(k collective.Call) bool {
	return k.Op == collective.OpAllGather && k.Algorithm == collective.AlgorithmRing
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
