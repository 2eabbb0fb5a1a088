package googlebench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// documented is the table that the documentation of RdmaTransport has.
const documented = `---------------------------------------------------------------------------------------
Benchmark                                             Time             CPU   Iterations
---------------------------------------------------------------------------------------
BM_RdmaTransport_Write/8192/real_time              27.0 us         9.01 us        27612 bytes_per_second=288.978M/s
BM_RdmaTransport_Write/16384/real_time             27.4 us         6.21 us        25826 bytes_per_second=569.583M/s
BM_RdmaTransport_Write/32768/real_time             27.1 us         5.60 us        24296 bytes_per_second=1.1242G/s
BM_RdmaTransport_Write/65536/real_time             29.2 us         6.23 us        23751 bytes_per_second=2.09021G/s
BM_RdmaTransport_Write/131072/real_time            33.7 us         9.31 us        20269 bytes_per_second=3.62653G/s
BM_RdmaTransport_Write/262144/real_time            33.2 us         6.37 us        21033 bytes_per_second=7.35603G/s
BM_RdmaTransport_Write/524288/real_time            38.6 us         5.99 us        18880 bytes_per_second=12.6647G/s
BM_RdmaTransport_Write/1048576/real_time           49.2 us         7.16 us        14214 bytes_per_second=19.8673G/s
BM_RdmaTransport_Write/2097152/real_time           70.7 us         8.09 us         9882 bytes_per_second=27.6343G/s
BM_RdmaTransport_Write/4194304/real_time            113 us         10.1 us         5961 bytes_per_second=34.5553G/s
BM_RdmaTransport_Write/8388608/real_time            200 us         13.7 us         3477 bytes_per_second=39.1316G/s
BM_RdmaTransport_Write/16777216/real_time           371 us         18.3 us         1889 bytes_per_second=42.1151G/s
BM_RdmaTransport_Write/33554432/real_time           717 us         27.4 us          971 bytes_per_second=43.5943G/s
BM_RdmaTransport_Write/67108864/real_time          1409 us         46.7 us          496 bytes_per_second=44.3678G/s
BM_RdmaTransport_Write/134217728/real_time         2790 us         79.5 us          251 bytes_per_second=44.7995G/s
BM_RdmaTransport_Write/268435456/real_time         5552 us          142 us          126 bytes_per_second=45.0305G/s
`

// documentedWidth is that of the longest name, which is of another benchmark.
const documentedWidth = 44

func report(t *testing.T, format Format, width int, rows ...Row) string {
	t.Helper()
	var out strings.Builder
	p := Report{Out: &out, Format: format, Width: width, Counters: []string{"of_memcpy"}}
	c := Context{Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600)), HostName: `a"b`, CPUs: 2, Custom: [][2]string{{"device", "shm:0"}}}
	if err := p.Begin(&c); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if err := p.Row(row); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.End(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func rowOf(f Figure) Row {
	return Row{Benchmark: &Benchmark{Name: f.Name}, Repetitions: 1, Iterations: f.Iterations, Real: f.Real, CPU: f.CPU, Counters: []Counter{{"bytes_per_second", f.Rate, true}}}
}

// The documented figures are printed as the documentation has them, byte by byte.
func TestTheDocumentedTable(t *testing.T) {
	var rows []Row
	for _, f := range H100 {
		rows = append(rows, rowOf(f))
	}
	if got := report(t, Console, documentedWidth, rows...); got != documented {
		t.Errorf("%s\nexpected\n%s", got, documented)
	}
}

// What compare.py reads is there, with its names and types.
func TestJSON(t *testing.T) {
	first, second := rowOf(H100[0]), rowOf(H100[1])
	second.Benchmark.Instance = 1
	second.Counters = append(second.Counters, Counter{Name: "of_memcpy", Value: 0.5})
	text := report(t, JSON, 0, first, second)
	var got struct {
		Context struct {
			Date      string `json:"date"`
			HostName  string `json:"host_name"`
			NumCPUs   int    `json:"num_cpus"`
			BuildType string `json:"library_build_type"`
			Schema    int    `json:"json_schema_version"`
			Device    string `json:"device"`
		} `json:"context"`
		Benchmarks []map[string]any `json:"benchmarks"`
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	c := got.Context
	if c.Date != "2026-01-02T03:04:05+01:00" || c.HostName != `a"b` || c.NumCPUs != 2 || c.BuildType != "release" || c.Schema != 1 || c.Device != "shm:0" {
		t.Errorf("context %+v", c)
	}
	want := map[string]any{
		"name": H100[1].Name, "family_index": 0.0, "per_family_instance_index": 1.0, "run_name": H100[1].Name, "run_type": "iteration",
		"repetitions": 1.0, "repetition_index": 0.0, "threads": 1.0, "iterations": 25826.0, "real_time": 27.4, "cpu_time": 6.21, "time_unit": "us",
		"bytes_per_second": 569.583 * (1 << 20), "of_memcpy": 0.5,
	}
	if fmt.Sprint(got.Benchmarks[1]) != fmt.Sprint(want) {
		t.Errorf("%v\nexpected\n%v", got.Benchmarks[1], want)
	}
	if got := report(t, JSON, 0); !json.Valid([]byte(got)) {
		t.Errorf("without rows: %s", got)
	}
}

func TestCSV(t *testing.T) {
	const want = "name,iterations,real_time,cpu_time,time_unit,bytes_per_second,of_memcpy\n" + `BM_RdmaTransport_Write/8192/real_time,27612,27,9.01,us,3.03015e+08,` + "\n"
	if got := report(t, CSV, 0, rowOf(H100[0])); got != want {
		t.Errorf("%s\nexpected\n%s", got, want)
	}
}

func TestList(t *testing.T) {
	for format, want := range map[Format]string{Console: "a/1\nb\n", CSV: "name\na/1\nb\n"} {
		var out strings.Builder
		p := Report{Out: &out, Format: format}
		if err := p.List([]string{"a/1", "b"}); err != nil || out.String() != want {
			t.Errorf("%q, %v: expected %q", out.String(), err, want)
		}
	}
	var out strings.Builder
	p := Report{Out: &out, Format: JSON}
	if err := p.List([]string{"a/1", "b"}); err != nil || !json.Valid([]byte(out.String())) {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// Iterations grow as Google Benchmark's do, until they take long enough; further repetitions
// have as many.
func TestMeasure(t *testing.T) {
	var tried []int
	b := Benchmark{Name: "b", Bytes: 1 << 20, Iterate: func(_ context.Context, n int) error {
		tried = append(tried, n)
		time.Sleep(time.Duration(n) * time.Millisecond)
		return nil
	}}
	var rows []Row
	err := b.Measure(t.Context(), Time{Least: 30 * time.Millisecond}, 3, func(r Row) error { rows = append(rows, r); return nil })
	if err != nil {
		t.Fatal(err)
	}
	last := rows[0].Iterations
	if tried[0] != 1 || last < 2 || len(rows) != 3+len(aggregates) || rows[2].Iterations != last || rows[2].Repetition != 2 {
		t.Errorf("tried %v; rows %+v", tried, rows)
	}
	for _, r := range rows[:3] {
		if r.Real < 1000 || r.Rate() > (1<<20)*1000 || r.Counters[0].Value != r.Rate() {
			t.Errorf("%+v: an iteration takes a millisecond at least", r)
		}
	}
	if got := rows[3].Name() + " " + rows[6].Name(); got != "b_mean b_cv" {
		t.Errorf("aggregates %s", got)
	}
	tried = nil
	if err := b.Measure(t.Context(), Time{Iterations: 7}, 1, func(Row) error { return nil }); err != nil || fmt.Sprint(tried) != "[7]" {
		t.Errorf("7x: %v, %v", tried, err)
	}
	if got := next(1, time.Microsecond, time.Second); got != 10 {
		t.Errorf("after one of 1 us: %d, expected 10", got)
	}
	if got := next(10, 500*time.Millisecond, time.Second); got != 28 {
		t.Errorf("after 10 of half the time: %d, expected 28", got)
	}
}

func TestMeasureFails(t *testing.T) {
	broken, ended := errors.New("broken"), false
	b := Benchmark{Name: "b", Iterate: func(context.Context, int) error { return broken }, End: func(context.Context) error { ended = true; return nil }}
	err := b.Measure(t.Context(), Time{Iterations: 1}, 1, func(Row) error { t.Error("there is a row"); return nil })
	if !errors.Is(err, broken) || !ended || !strings.HasPrefix(err.Error(), "b: ") {
		t.Errorf("%v, ended %t", err, ended)
	}
}

// The aggregates are those of statistics.cc.
func TestAggregates(t *testing.T) {
	one := &Benchmark{Name: "b"}
	var rows []Row
	for _, v := range []float64{2, 4, 9} {
		rows = append(rows, Row{Benchmark: one, Real: v, CPU: 2 * v, Counters: []Counter{{"x", 3 * v, false}}})
	}
	for i, want := range []float64{5, 4, 3.605551275463989, 0.7211102550927978} {
		got := aggregates[i].of(rows)
		if got.Real != want || got.Iterations != 3 {
			t.Errorf("%s: %v, expected %v", got.Name(), got.Real, want)
		}
	}
	if got := report(t, Console, 10, aggregates[3].of(rows)); !strings.HasSuffix(got, "\nb_cv            72.11 %         72.11 %             3 x=72.11%\n") {
		t.Errorf("%s", got)
	}
}
