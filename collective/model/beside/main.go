// Command beside holds package model against what ringcli measures on this machine: it
// measures what the parts cost, and then every operation, algorithm and protocol on two and
// four ranks, over packets and over shared memory. It is for people with a quiet machine,
// not for CI.
//
//	make build && go run ./collective/model/beside
//
// What a message costs is taken from operations that do nothing else, all ranks at once. What does
// not go by bytes is told by calls that move a word: an exchange, which waits for nothing but data,
// and an all-gather round the ring, which waits for acknowledgements. What a byte costs is told by
// an all-gather round the ring, by protocol, or by an inbox without messages. Both are
// measured among the operations of a size, the latter right before and after those that they tell
// of, of the same processes, since the rate between two cores of a virtual machine may
// change within seconds. That parameters are estimated by communication of the collectives'
// own kind, with all ranks at work, follows Nuriyev and Lastovetsky ("Efficient and accurate
// selection of optimal collective communication algorithms using analytical performance
// modelling", IEEE Access 9, 2021). Those rows are in the table as "=", and in no error.
// Nothing is fitted to the others.
//
// It ends in 1 if a device's median error is more than -most percent, and in 2 if something failed.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
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
	flag.BoolVar(&o.quick, "quick", false, "two sizes: whether it runs; no error is too much")
	most := flag.Float64("most", 20, "how many `percent` a device's median error may be, else exit code 1; 0: any")
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
	if *most == 0 || o.quick {
		return
	}
	if err := tooFar(rows, *most/100); err != nil {
		fmt.Fprintln(os.Stderr, "beside:", err)
		os.Exit(1)
	}
}

// tooFar is an error if the median of a device's errors is more than so much, or if it has none.
func tooFar(rows []row, most float64) (err error) {
	off := map[string][]float64{}
	for _, r := range rows {
		off[r.Device] = append(off[r.Device], nil...)
		v := off[r.Device]
		if !r.Fitted {
			v = append(v, r.off())
		}
		off[r.Device] = v
	}
	for _, device := range slices.Sorted(maps.Keys(off)) {
		if v := off[device]; len(v) == 0 {
			err = errors.Join(err, fmt.Errorf("%s: nothing was compared", device))
		} else if m := median(v...); !(m <= most) { // NaN is too much
			err = errors.Join(err, fmt.Errorf("%s: the median error is %.1f%%: expected at most %g%%", device, m*100, most*100))
		}
	}
	return err
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
		if r.Time.P50 > 0 {
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
	operations := collective.Operations()
	if v == o.least {
		operations = collective.AllOperations() // a barrier has no bytes: it is measured once
	}
	for _, op := range operations {
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
		if !k.Op.OnVectors() {
			r.Bytes = 0
		}
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

// variants are the plans of all ways to run an operation; a barrier has no vector.
func (b *bench) variants(op collective.Operation, v uint64) (list []collective.Call) {
	count := int(v) / reduce.Float32.Size()
	if !op.OnVectors() {
		count = 0
	}
	for _, a := range collective.Algorithms()[1:] {
		for _, p := range collective.Protocols()[1:] {
			k := collective.Call{Op: op, Type: reduce.Float32, Count: count, CallOptions: collective.CallOptions{Algorithm: a, Protocol: p}}
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
		add(r.Device, r.off())
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
