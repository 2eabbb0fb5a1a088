// Command beside holds package model against what ringcli measures on this machine: it
// measures what the parts cost on two ranks and in memory, and then every operation,
// algorithm and protocol on two and four ranks, over packets and over shared memory. It is
// for people with a quiet machine, not for CI.
//
//	make build && go run ./collective/model/beside
//
// Of the model's parts nothing is fitted to the operations that it is held against, but
// for two messages: an empty one from rank to rank, which is α, and a row of short ones, which
// is o.
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
	quick    bool
}

func main() {
	var o options
	devices := flag.String("devices", "soft:lo,shm:0", "devices")
	flag.StringVar(&o.ringcli, "ringcli", "./ringcli", "the program, as make build leaves it")
	flag.BoolVar(&o.quick, "quick", false, "two sizes, few iterations: whether it runs")
	table := flag.String("save", "", "file for the measurements as JSON, one a line")
	flag.Parse()
	o.devices, o.ranks, o.least, o.greatest = strings.Split(*devices, ","), []int{2, 4}, 1<<10, 16<<20
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
	Model     float64 `json:"model_us"`
	call      collective.Call
}

// off is by what share of the measurement the model is off.
func (r row) off() float64 { return math.Abs(r.Model/r.Measured - 1) }

func run(ctx context.Context, o options, out *page) (all []row, err error) {
	for _, device := range o.devices {
		for _, n := range o.ranks {
			c, err := o.calibrate(ctx, out, device, n)
			if err != nil {
				return nil, err
			}
			rows, err := o.beside(ctx, out, device, c)
			if err != nil {
				return nil, err
			}
			all = append(all, rows...)
		}
	}
	summarise(out, all)
	return all, nil
}

// calibration is what the parts cost on so many ranks: of messages, and of memory that ranks
// share, where reductions and copies read what others have written.
type calibration struct{ messages, shared model.Machine }

// calibrate measures the parts of one device.
func (o options) calibrate(ctx context.Context, out *page, device string, n int) (c calibration, err error) {
	m := &c.messages
	shm := strings.HasPrefix(device, "shm")
	m.Ranks = n
	// A row of short messages: two of them cost their CPU o each, at every position.
	const messages, short = 2048, 256
	rows, err := o.line(ctx, device, 2, fmt.Sprintf("all-gather --size %d --segment %d --algorithm ring --protocol eager", 2*messages*short, short))
	if err != nil {
		return c, err
	}
	each := rows[0].Time.P50 / 1e6 / messages
	m.Overhead = each / 2
	// One message of no weight: 2o + α, and as much of α until it is acknowledged as is
	// longer than o.
	if rows, err = o.line(ctx, device, 2, "reduce-scatter --size 8 --algorithm ring --protocol eager"); err != nil {
		return c, err
	}
	took := rows[0].Time.P50 / 1e6
	if m.Edge.Alpha = (took - m.Overhead) / 2; m.Edge.Alpha < m.Overhead {
		m.Edge.Alpha = max(0, took-2*m.Overhead)
	}
	// Of a byte: that of a stream of messages as long as the vectors.
	if rows, err = o.ringcliLines(ctx, "bench", "p2p", "-n", "2", "--device", device, "--verbs", "write", "-b", "16K", "-e", "16M", "-f", "4", "--check=false"); err != nil {
		return c, err
	}
	const least = 1e-12 // s/byte: what a slow moment of the calibration may not make nothing of
	for _, r := range rows {
		p := model.Point{Bytes: float64(r.Bytes), PerByte: max(least, 1/(r.BW*1e9)-m.Overhead/float64(r.Bytes))}
		m.RecvByte = append(m.RecvByte, p)
	}
	if !shm { // whoever receives copies
		m.SendByte = m.RecvByte
	}
	mem := memory(n, o.quick)
	if shm { // a call that moves a word: what is not the line's way is the call's
		if rows, err = o.line(ctx, device, 2, "all-reduce --size 8 --algorithm inbox --protocol direct"); err != nil {
			return c, err
		}
		m.Call = max(0, rows[0].Time.P50/1e6-mem.line)
	}
	m.Gamma, m.Copy, m.Line = mem.gamma, mem.copy, mem.line
	c.shared = *m
	c.shared.Gamma, c.shared.Copy = mem.sharedGamma, mem.sharedCopy
	out.printf("\n%s, %d ranks: alpha %.2f us, o %.2f us, line %.3f us, a call %.3f us\n", device, n, m.Edge.Alpha*1e6, m.Overhead*1e6, m.Line*1e6, m.Call*1e6)
	rate := func(c model.Curve, bytes float64) float64 { return 1 / c.At(bytes) / 1e9 }
	for _, p := range m.RecvByte {
		out.printf("  vectors of %8.0f bytes: messages %6.2f GB/s, reductions %6.2f, copies %6.2f; shared: reductions %6.2f, copies %6.2f\n",
			p.Bytes, 1/p.PerByte/1e9, rate(m.Gamma, p.Bytes), rate(m.Copy, p.Bytes), rate(mem.sharedGamma, p.Bytes), rate(mem.sharedCopy, p.Bytes))
	}
	return c, nil
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

// line runs one command on a ring.
func (o options) line(ctx context.Context, device string, n int, line string) ([]result, error) {
	return o.ringcliLines(ctx, "local", "-n", fmt.Sprint(n), "--device", device, "-c", line)
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

// beside measures all operations, and reckons each.
func (o options) beside(ctx context.Context, out *page, device string, c calibration) (rows []row, err error) {
	m := c.messages
	shape := collective.Shape{Ranks: m.Ranks, Slots: 16, SlotSize: 256 << 10, Software: true, Shared: strings.HasPrefix(device, "shm")}
	for _, op := range collective.Operations() {
		args := []string{"bench", op.String(), "-n", fmt.Sprint(m.Ranks), "--device", device, "-b", fmt.Sprint(o.least), "-e", fmt.Sprint(o.greatest), "-f", "4",
			"--algorithm", "all", "--protocol", "all", "--check=false"}
		if o.quick {
			args = append(args, "-f", "1024", "--iters", "5")
		}
		list, err := o.ringcliLines(ctx, args...)
		if err != nil {
			return nil, err
		}
		for _, l := range list {
			r := row{Device: device, Ranks: m.Ranks, Op: op.String(), Bytes: l.Bytes, Algorithm: l.Algorithm, Protocol: l.Protocol, Measured: cmp.Or(l.Time.Mean, l.Time.P50)}
			k := collective.Call{Op: op, Type: reduce.Float32, Count: int(l.Bytes) / reduce.Float32.Size()}
			if l.Command != op.String() || r.Measured == 0 {
				continue // a summary
			}
			if k.Algorithm, err = collective.ParseAlgorithm(l.Algorithm); err == nil {
				k.Protocol, err = collective.ParseProtocol(l.Protocol)
			}
			if err != nil {
				return nil, err
			}
			if r.call, err = shape.Plan(k, collective.Table{}); err != nil {
				return nil, err
			}
			with := &m
			if r.call.Protocol == collective.Direct {
				with = &c.shared
			}
			r.Model = with.Time(r.call) * 1e6
			rows = append(rows, r)
		}
	}
	show(out, rows)
	return rows, nil
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
			if r, ok := cells[k][s]; ok {
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
