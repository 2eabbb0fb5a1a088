package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
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
	b := &bench{beside: command.Value[[]googlebench.Figure](call.Flags, "beside")}
	if b.gpu, err = gpuOf(wordBench, call.Flags); err != nil {
		return err
	}
	list := b.benchmarks(sizes, wanted(call.Flags))
	if len(list) == 0 {
		return exit.Usagef("transport bench --benchmark_filter %q: matches none; --benchmark_list_tests lists all", command.TextOf(call.Flags, "benchmark_filter"))
	}
	reports, err := newReports(s, call, list)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reports.close()) }()
	if command.IsOn(call.Flags, "benchmark_list_tests") {
		return reports.list(list)
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
	if err := b.prepare(c.Context(), largest(list, sizes)); err != nil {
		return fmt.Errorf("transport bench: %w", coded(err))
	}
	if err := reports.begin(own, peer, c.Name(), b.source.Served(), b.theirs); err != nil {
		return err
	}
	return reports.measure(c.Context(), s, call, list)
}

// largest is the greatest size of those that are measured.
func largest(list []*googlebench.Benchmark, sizes []uint64) uint64 {
	most := sizes[0]
	for _, one := range list {
		for _, size := range sizes {
			if strings.Contains(one.Name, fmt.Sprintf("/%d/", size)) {
				most = max(most, size)
			}
		}
	}
	return most
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

// reports are the one that is printed, and that of --benchmark_out.
type reports struct {
	all  []*googlebench.Report
	file *os.File
}

func newReports(s *session.Session, call command.Call, list []*googlebench.Benchmark) (*reports, error) {
	width := 10
	for _, one := range list {
		width = max(width, len(one.Name))
	}
	p := &reports{all: []*googlebench.Report{{
		Out: printed{s.Out}, Aside: s.Stderr, Format: formatOf(s, call.Flags), Width: width, Counters: counters,
	}}}
	path := command.TextOf(call.Flags, "benchmark_out")
	if path == "" {
		return p, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, exit.Usagef("transport bench --benchmark_out: %w", err)
	}
	p.file = file
	p.all = append(p.all, &googlebench.Report{Out: file, Format: command.Value[googlebench.Format](call.Flags, "benchmark_out_format"), Width: width, Counters: counters})
	return p, nil
}

// printed has a printer write a report.
type printed struct{ *render.Printer }

func (p printed) Write(b []byte) (int, error) { return len(b), p.Text(string(b)) }

var _ io.Writer = printed{}

func (p *reports) close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}

func (p *reports) each(do func(*googlebench.Report) error) error {
	for _, r := range p.all {
		if err := do(r); err != nil {
			return err
		}
	}
	return nil
}

func (p *reports) list(list []*googlebench.Benchmark) error {
	names := make([]string, len(list))
	for i, one := range list {
		names[i] = one.Name
	}
	return p.each(func(r *googlebench.Report) error { return r.List(names) })
}

func (p *reports) begin(own, peer opening, server, memory, theirs string) error {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	c := googlebench.Context{Date: time.Now(), HostName: host, Executable: "ringcli transport bench", CPUs: runtime.NumCPU()}
	c.Custom = [][2]string{
		{"rdma", rdmaText(transport.Supported())},
		{"device", own.Device + ": " + own.Why}, {"memory", memory},
		{"server", server}, {"server_device", peer.Device + ": " + peer.Why},
	}
	if theirs != "" {
		c.Custom = append(c.Custom, [2]string{"server_memory", theirs})
	}
	return p.each(func(r *googlebench.Report) error { return r.Begin(&c) })
}

// measure measures all, and ends the reports whatever comes of it. A copy is measured right
// before the write of its size, so that the two are of one moment, and printed in its place.
func (p *reports) measure(ctx context.Context, s *session.Session, call command.Call, list []*googlebench.Benchmark) (err error) {
	least, repetitions := command.Value[googlebench.Time](call.Flags, "benchmark_min_time"), command.NumberOf(call.Flags, "benchmark_repetitions")
	defer func() { err = errors.Join(err, p.each((*googlebench.Report).End)) }()
	copies := map[string]*googlebench.Benchmark{}
	for _, one := range list {
		copies[one.Name] = one
	}
	kept := map[string][]googlebench.Row{}
	tell := func(row googlebench.Row) error {
		return p.each(func(r *googlebench.Report) error { return r.Row(row) })
	}
	one := func(b *googlebench.Benchmark, tell func(googlebench.Row) error) error {
		defer s.Progress.Clock("%s", b.Name)()
		err := b.Measure(ctx, least, repetitions, tell)
		if err != nil && ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
			err = errors.Join(err, context.Cause(ctx))
		}
		return coded(err)
	}
	for _, b := range list {
		if rest, ok := strings.CutPrefix(b.Name, families[0].name); ok && copies[copyFamily+rest] != nil {
			name := copyFamily + rest
			err := one(copies[name], func(row googlebench.Row) error {
				kept[name] = append(kept[name], row)
				return nil
			})
			if err != nil {
				return err
			}
		}
		for _, row := range kept[b.Name] {
			if err := tell(row); err != nil {
				return err
			}
		}
		if kept[b.Name] != nil {
			continue
		}
		if err := one(b, tell); err != nil {
			return err
		}
	}
	return nil
}
