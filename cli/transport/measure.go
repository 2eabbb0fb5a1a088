package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/cli/transport/googlebench"
	"ringcli/verbs/transport"
)

// runBench measures against a server, or one of its own.
func runBench(ctx context.Context, s *session.Session, call command.Call) (err error) {
	sizes, err := sizesOf(s, call)
	if err != nil {
		return err
	}
	b := &bench{beside: command.Value[map[string]float64](call.Flags, "beside")}
	if b.gpu, err = gpuOf(wordBench, call.Flags); err != nil {
		return err
	}
	list, most := b.benchmarks(sizes, wanted(call.Flags))
	if len(list) == 0 {
		return exit.Usagef("transport bench --benchmark_filter %q: matches none; --benchmark_list_tests lists all", command.TextOf(call.Flags, "benchmark_filter"))
	}
	if command.IsOn(call.Flags, "benchmark_list_tests") {
		for _, one := range list {
			err = errors.Join(err, s.Out.Text(one.Name+"\n"))
		}
		return err
	}
	r, err := newReport(s, call, list)
	if err != nil {
		return err
	}
	o := settingsOf(s)
	address, end, err := o.server(ctx, s, call)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	c, err := dial(ctx, s, address, o.Timeout)
	if err != nil {
		return err
	}
	defer c.Close()
	t, own, peer, err := o.call(c.Context(), c)
	if err != nil {
		return fmt.Errorf("transport bench: %w", err)
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	b.c, b.t, b.timeout = c, t, o.Timeout
	if err := b.prepare(c.Context(), most); err != nil {
		return fmt.Errorf("transport bench: %w", coded(err))
	}
	if err := r.begin(own, peer, c.Name(), b.source.Served(), b.theirs); err != nil {
		return err
	}
	return r.measure(c.Context(), s, call, list)
}

// server is the address of the server that is named, or of one that is started here, and what
// ends that.
func (o *settings) server(ctx context.Context, s *session.Session, call command.Call) (address string, end func() error, err error) {
	if len(call.Args) > 1 {
		host := call.Args[1]
		if h, p, err := net.SplitHostPort(host); err == nil {
			if n, err := strconv.ParseUint(p, 10, 16); h == "" || n == 0 || err != nil {
				return "", nil, exit.Usagef("transport bench %q: expected HOST or HOST:PORT", host)
			}
			return host, func() error { return nil }, nil
		}
		if host == "" {
			return "", nil, exit.Usagef("transport bench \"\": expected HOST or HOST:PORT; is a variable not set?")
		}
		host = strings.Trim(host, "[]")
		return net.JoinHostPort(host, strconv.Itoa(command.NumberOf(call.Flags, "tcp-port"))), func() error { return nil }, nil
	}
	if _, _, err := o.which(loopback); err != nil {
		return "", nil, fmt.Errorf("transport bench: %w", err)
	}
	return ownServer(ctx, s, call)
}

// report is the table, which is printed row by row, and the JSON, which is written at the end: to
// the output with --output json, and to the file of --benchmark_out.
type report struct {
	out     *render.Printer
	aside   io.Writer // for what people should know besides the table
	file    string
	width   int // of the longest name
	context map[string]any
	rows    []googlebench.Row
}

func newReport(s *session.Session, call command.Call, list []*googlebench.Benchmark) (*report, error) {
	if s.Out.Format() == render.CSV {
		return nil, exit.Usagef("transport bench --output csv: expected table or json")
	}
	r := &report{out: s.Out, aside: s.Stderr, file: command.TextOf(call.Flags, "benchmark_out"), width: 10}
	for _, one := range list {
		r.width = max(r.width, len(one.Name))
	}
	if r.file == "" {
		return r, nil
	}
	return r, render.CheckWritable("transport bench --benchmark_out", r.file)
}

// begin writes what the rows are of. The names are Google Benchmark's (json_reporter.cc,
// ReportContext), and of what is not there our own.
func (r *report) begin(own, peer opening, server, memory, theirs string) error {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	const program = "ringcli transport bench"
	date := time.Now().Format(time.RFC3339)
	r.context = map[string]any{
		"date": date, "host_name": host, "executable": program, "num_cpus": runtime.NumCPU(), "library_build_type": "release", "json_schema_version": 1,
	}
	custom := [][2]string{
		{"rdma", rdmaText(transport.Supported())},
		{"device", own.Device + ": " + own.Why}, {"memory", memory},
		{"server", server}, {"server_device", peer.Device + ": " + peer.Why},
	}
	if theirs != "" {
		custom = append(custom, [2]string{"server_memory", theirs})
	}
	text := fmt.Sprintf("%s\nRunning %s\nRun on %d CPUs\n", date, program, runtime.NumCPU())
	for _, pair := range custom {
		r.context[pair[0]] = pair[1]
		text += pair[0] + ": " + pair[1] + "\n"
	}
	if r.out.Format() == render.JSON {
		return nil
	}
	if _, err := io.WriteString(r.aside, text); err != nil {
		return err
	}
	return r.out.Text(googlebench.Head(r.width))
}

// add takes a row.
func (r *report) add(row googlebench.Row) error {
	if r.rows = append(r.rows, row); r.out.Format() == render.JSON {
		return nil
	}
	return r.out.Text(row.Line(r.width))
}

// end writes the JSON.
func (r *report) end() error {
	text, err := googlebench.JSON(r.context, r.rows)
	if err == nil && r.out.Format() == render.JSON {
		err = r.out.Text(string(text))
	}
	if err == nil && r.file != "" {
		err = render.WriteFile("--benchmark_out "+r.file, r.file, func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		})
	}
	return err
}

// measure measures all, and ends the report whatever comes of it. A copy is measured right
// before the write of its size, so that the two are of one moment, and printed in its place.
func (r *report) measure(ctx context.Context, s *session.Session, call command.Call, list []*googlebench.Benchmark) (err error) {
	least := command.Value[googlebench.Time](call.Flags, "benchmark_min_time")
	defer func() { err = errors.Join(err, r.end()) }()
	rows := map[string]googlebench.Row{} // by name
	one := func(b *googlebench.Benchmark) error {
		if _, done := rows[b.Name]; done {
			return nil
		}
		defer s.Progress.Clock("%s", b.Name)()
		row, err := b.Measure(ctx, least)
		if err != nil && ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
			err = errors.Join(err, context.Cause(ctx))
		}
		rows[b.Name] = row
		return coded(err)
	}
	for _, b := range list {
		if rest, ok := strings.CutPrefix(b.Name, families[0].name); ok {
			if i := slices.IndexFunc(list, func(o *googlebench.Benchmark) bool { return o.Name == copyFamily+rest }); i >= 0 {
				if err := one(list[i]); err != nil {
					return err
				}
			}
		}
		if err := one(b); err != nil {
			return err
		}
		if err := r.add(rows[b.Name]); err != nil {
			return err
		}
	}
	return nil
}
