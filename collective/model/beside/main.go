// Command beside compares package model with what ringcli measures on this machine: it
// measures what the parts cost, and then every operation, algorithm and protocol on two and, with
// as many CPUs, four ranks, over packets and over shared memory. It is for a quiet machine, not for CI.
//
//	make build && go run ./collective/model/beside
//
// The cost of a message is that of operations that move a word, all ranks at once. The cost of a
// byte is that of an all-gather of the same size, by protocol, measured right before and after the
// operations that it is for: the rate between two cores of a virtual machine may change within
// seconds. Parameters from communication of the collectives' own kind, with all ranks at work,
// follow Nuriyev and Lastovetsky ("Efficient and accurate selection of optimal collective
// communication algorithms using analytical performance modelling", IEEE Access 9, 2021). Those rows
// are in the table as "=", and in no error. Nothing is fitted to the others. Each rank has a CPU.
//
// It ends in 1 if a device's median error is more than -most percent, and in 2 if something failed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
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
	"ringcli/collective/plan"
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
	most := flag.Float64("most", 25, "how many `percent` a device's median error may be, else exit code 1; 0: any")
	flag.Parse()
	o.devices, o.ranks, o.least, o.greatest, o.factor = strings.Split(*devices, ","), []int{2}, 1<<10, 16<<20, 4
	if runtime.NumCPU() >= 4 {
		o.ranks = append(o.ranks, 4)
	}
	if o.quick {
		o.factor = 1 << 14
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	rows, err := run(ctx, o)
	if err != nil {
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

// row is one measurement beside the model.
type row struct {
	Device, Op, Algorithm, Protocol string
	Ranks                           int
	Bytes                           uint64
	Measured, Model                 float64 // us
	Fitted                          bool    // the costs are measured by it
}

// off is by what share of the measurement the model is off.
func (r row) off() float64 { return math.Abs(r.Model/r.Measured - 1) }

func run(ctx context.Context, o options) (all []row, err error) {
	for _, device := range o.devices {
		for _, n := range o.ranks {
			b, err := o.parts(ctx, device, n)
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
			show(rows)
			all = append(all, rows...)
		}
	}
	summarise(all)
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

// lines runs commands on a ring, one after the other, and returns what they measured.
func (o options) lines(ctx context.Context, device string, n int, lines ...string) (list []result, err error) {
	const longest = 10 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	program, err := filepath.Abs(o.ringcli)
	if err != nil {
		return nil, err
	}
	args := []string{"local", "-n", fmt.Sprint(n), "--device", device, "--output", "json", "-c", strings.Join(lines, "; ")}
	cmd := exec.CommandContext(ctx, program, args...)
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

// beside measures all operations on vectors of so many bytes, and estimates each.
func (o options) beside(ctx context.Context, b *bench, v uint64) (rows []row, err error) {
	var calls []collective.Call
	var lines []string
	add := func(list []collective.Call) {
		for _, k := range list {
			calls, lines = append(calls, k), append(lines, command(k))
		}
	}
	gathers := slices.DeleteFunc(b.variants(collective.OpAllGather, v), func(k collective.Call) bool { return !isGather(k) })
	operations := plan.Operations()
	if v == o.least {
		operations = plan.AllOperations() // a barrier has no bytes: it is measured once
	}
	for _, op := range operations {
		add(gathers)
		add(slices.DeleteFunc(b.variants(op, v), isGather))
	}
	add(gathers)
	list, err := o.lines(ctx, b.device, b.parts.Ranks, lines...)
	if err != nil {
		return nil, err
	}
	if len(list) != len(calls) {
		return nil, fmt.Errorf("%d of %d operations were measured", len(list), len(calls))
	}
	memory := memory(b.parts.Ranks, int(v))
	for i, k := range calls {
		r := row{Device: b.device, Ranks: b.parts.Ranks, Op: k.Op.String(), Bytes: v, Algorithm: k.Algorithm.String(), Protocol: k.Protocol.String(), Measured: list[i].Time.P50}
		if !k.Op.OnVectors() {
			r.Bytes = 0
		}
		if isGather(k) {
			if r.Fitted = true; i >= len(calls)-len(gathers) { // each once
				rows = append(rows, r)
			}
			continue
		}
		of := tells(k)
		gather := slices.IndexFunc(gathers, func(g collective.Call) bool { return g.Protocol == of.Protocol && g.Algorithm == of.Algorithm })
		after := i + slices.Index(calls[i:], gathers[gather])
		before := i
		for calls[before] != gathers[gather] {
			before--
		}
		r.Model = b.machine(gathers[gather], (list[before].seconds()+list[after].seconds())/2, memory).Row(k) * 1e6
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
	for _, a := range plan.Algorithms()[1:] {
		for _, p := range plan.Protocols()[1:] {
			k := collective.Call{Op: op, Type: reduce.Float32, Count: count, CallOptions: collective.CallOptions{Algorithm: a, Protocol: p}}
			if plan, err := b.shape.Plan(k, collective.Table{}); err == nil && plan.Algorithm == a && plan.Protocol == p {
				list = append(list, plan)
			}
		}
	}
	return list
}

// show prints all rows: measured, and the model's share of it.
func show(rows []row) {
	for _, r := range rows {
		share := "="
		if !r.Fitted {
			share = fmt.Sprintf("%.2f", r.Model/r.Measured)
		}
		fmt.Printf("%-40s %10d bytes %10.1f us %5s\n", r.Op+" "+r.Algorithm+"/"+r.Protocol, r.Bytes, r.Measured, share)
	}
}

// summarise prints the median error of all, and of each kind.
func summarise(rows []row) {
	groups := map[string][]float64{}
	var names []string
	add := func(name string, off float64) {
		if groups[name] == nil {
			names = append(names, name)
		}
		groups[name] = append(groups[name], off)
	}
	for _, r := range rows {
		if !r.Fitted {
			for _, name := range []string{r.Device, r.Device + " " + r.Algorithm + "/" + r.Protocol, fmt.Sprintf("%s of %d bytes", r.Device, r.Bytes)} {
				add(name, r.off())
			}
		}
	}
	fmt.Printf("\n%-50s %6s %8s %8s %8s\n", "error", "rows", "median", "90 %", "most")
	slices.Sort(names)
	for _, name := range names {
		v := slices.Sorted(slices.Values(groups[name]))
		fmt.Printf("%-50s %6d %7.1f%% %7.1f%% %7.1f%%\n", name, len(v), v[len(v)/2]*100, v[min(len(v)*9/10, len(v)-1)]*100, v[len(v)-1]*100)
	}
	fmt.Printf("%d CPUs, %s\n", runtime.NumCPU(), runtime.Version())
}
