package googlebench

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Head is the head of the table, for names of so many characters.
func Head(width int) string {
	head := fmt.Sprintf("%-*s %13s %13s %12s", width, "Benchmark", "Time", "CPU", "Iterations")
	line := strings.Repeat("-", len(head)) + "\n"
	return line + head + "\n" + line
}

// Line is the row's line of the table.
func (r *Row) Line(width int) string {
	text := fmt.Sprintf("%-*s %10.2f us %10.2f us %12d", width, r.Benchmark.Name, r.Real, r.CPU, r.Iterations)
	for _, c := range r.Counters {
		value := strconv.FormatFloat(c.Value, 'g', 3, 64)
		if c.Rate {
			value = binary(c.Value) + "/s"
		}
		text += " " + c.Name + "=" + value
	}
	return text + "\n"
}

// binary is a number with six digits and a binary prefix: 288.978M is 288.978 times 2 to the
// 20th power.
func binary(v float64) string {
	const prefixes = "kMGT"
	at := -1
	for ; v >= 1024 && at+1 < len(prefixes); at++ {
		v /= 1024
	}
	text := strconv.FormatFloat(v, 'g', 6, 64)
	if at >= 0 {
		text += prefixes[at : at+1]
	}
	return text
}

// JSON is the document of rows, and of where and when they were measured.
func JSON(context map[string]any, rows []Row) ([]byte, error) {
	list := make([]map[string]any, len(rows))
	for i := range rows {
		r := &rows[i]
		b := r.Benchmark
		list[i] = map[string]any{
			"name": b.Name, "run_name": b.Name, "run_type": "iteration", "family_index": b.Family, "per_family_instance_index": b.Instance,
			"repetitions": 1, "repetition_index": 0, "threads": 1, "iterations": r.Iterations, "real_time": r.Real, "cpu_time": r.CPU, "time_unit": "us",
		}
		for _, c := range r.Counters {
			list[i][c.Name] = c.Value
		}
	}
	text, err := json.MarshalIndent(map[string]any{"context": context, "benchmarks": list}, "", "  ")
	return append(text, '\n'), err
}
