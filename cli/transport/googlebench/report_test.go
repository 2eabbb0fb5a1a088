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

func rowOf() Row {
	return Row{
		Benchmark: &Benchmark{Name: "BM_Write/8192/real_time", Family: 2, Instance: 1}, Iterations: 27612, Real: 27, CPU: 9.01,
		Counters: []Counter{{"bytes_per_second", H100["BM_RdmaTransport_Write/8192/real_time"], true}, {"of_memcpy", 0.5, false}},
	}
}

func TestLine(t *testing.T) {
	r := rowOf()
	const want = "BM_Write/8192/real_time      27.00 us       9.01 us        27612 bytes_per_second=288.978M/s of_memcpy=0.5\n"
	if got := r.Line(23); got != want {
		t.Errorf("%q, expected %q", got, want)
	}
	if head := strings.Split(Head(23), "\n")[1]; len(head) != strings.Index(want, " bytes") {
		t.Errorf("%q is no head of %q", head, want)
	}
}

// What compare.py reads is there, with its names and types.
func TestJSON(t *testing.T) {
	text, err := JSON(map[string]any{"host_name": `a"b`}, []Row{rowOf()})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Context    map[string]any   `json:"context"`
		Benchmarks []map[string]any `json:"benchmarks"`
	}
	if err := json.Unmarshal(text, &got); err != nil || got.Context["host_name"] != `a"b` {
		t.Fatalf("%v\n%s", err, text)
	}
	want := map[string]any{
		"name": "BM_Write/8192/real_time", "run_name": "BM_Write/8192/real_time", "run_type": "iteration", "family_index": 2.0, "per_family_instance_index": 1.0,
		"repetitions": 1.0, "repetition_index": 0.0, "threads": 1.0, "iterations": 27612.0, "real_time": 27.0, "cpu_time": 9.01, "time_unit": "us",
		"bytes_per_second": 288.978 * (1 << 20), "of_memcpy": 0.5,
	}
	if fmt.Sprint(got.Benchmarks[0]) != fmt.Sprint(want) {
		t.Errorf("%v\nexpected\n%v", got.Benchmarks[0], want)
	}
}

// Iterations grow as Google Benchmark's do, until they take long enough.
func TestMeasure(t *testing.T) {
	var tried []int
	b := Benchmark{Name: "b", Bytes: 1 << 20, Iterate: func(_ context.Context, n int) error {
		tried = append(tried, n)
		time.Sleep(time.Duration(n) * time.Millisecond)
		return nil
	}}
	r, err := b.Measure(t.Context(), Time{Least: 30 * time.Millisecond})
	if err != nil || tried[0] != 1 || r.Iterations < 2 || r.Real < 1000 || r.Rate() > (1<<20)*1000 || r.Counters[0].Value != r.Rate() {
		t.Errorf("tried %v; %+v, %v: an iteration takes a millisecond at least", tried, r, err)
	}
	tried = nil
	if _, err := b.Measure(t.Context(), Time{Iterations: 7}); err != nil || fmt.Sprint(tried) != "[7]" {
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
	if _, err := b.Measure(t.Context(), Time{Iterations: 1}); !errors.Is(err, broken) || !ended || !strings.HasPrefix(err.Error(), "b: ") {
		t.Errorf("%v, ended %t", err, ended)
	}
}
