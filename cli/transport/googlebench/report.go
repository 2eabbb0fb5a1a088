package googlebench

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Format is how a report is written.
type Format string

// The formats, as --benchmark_format takes them.
const (
	Console Format = "console"
	JSON    Format = "json"
	CSV     Format = "csv"
)

// Formats are all of them.
var Formats = []Format{Console, JSON, CSV}

// ParseFormat reads the name of a format.
func ParseFormat(text string) (Format, error) {
	if f := Format(text); slices.Contains(Formats, f) {
		return f, nil
	}
	return "", fmt.Errorf("expected console, json or csv")
}

// Report writes rows as they come.
type Report struct {
	// Out takes the report, Aside what people should know besides: nil is nobody.
	Out, Aside io.Writer
	Format     Format
	// Width is that of the longest name.
	Width int
	// Counters are the names of all that a row may have beside bytes_per_second.
	Counters []string
	begun    bool
}

// Begin writes what comes before the rows.
func (p *Report) Begin(c *Context) error {
	switch {
	case p.Format == JSON:
		return p.json("{\n  \"context\": ", c.record(), ",\n  \"benchmarks\": [")
	case p.Aside == nil:
		return nil
	}
	return c.print(p.Aside)
}

// json writes a value, and text before and after it.
func (p *Report) json(before string, value any, after string) error {
	b, err := json.MarshalIndent(value, "  ", "  ")
	if err == nil {
		_, err = fmt.Fprintf(p.Out, "%s%s%s", before, b, after)
	}
	return err
}

// csv writes lines.
func (p *Report) csv(lines ...[]string) error {
	return csv.NewWriter(p.Out).WriteAll(lines)
}

// Row writes one row.
func (p *Report) Row(r Row) error {
	first := !p.begun
	p.begun = true
	switch p.Format {
	case JSON:
		return p.json(map[bool]string{true: "\n  ", false: ",\n  "}[first], r.record(), "")
	case CSV:
		lines := [][]string{r.csv(p.Counters)}
		if first {
			lines = slices.Insert(lines, 0, slices.Concat(csvColumns, p.Counters))
		}
		return p.csv(lines...)
	}
	text := r.console(p.Width)
	if first {
		head := fmt.Sprintf("%-*s %13s %15s %12s", p.Width, "Benchmark", "Time", "CPU", "Iterations")
		line := strings.Repeat("-", len(head)) + "\n"
		text = line + head + "\n" + line + text
	}
	_, err := io.WriteString(p.Out, text)
	return err
}

// End writes what comes after the rows.
func (p *Report) End() error {
	if p.Format != JSON {
		return nil
	}
	_, err := io.WriteString(p.Out, "\n  ]\n}\n")
	return err
}

// List writes the names of benchmarks in place of a report.
func (p *Report) List(names []string) error {
	switch p.Format {
	case JSON:
		list := make([]map[string]string, len(names))
		for i, name := range names {
			list[i] = map[string]string{"name": name}
		}
		return p.json("{\n  \"benchmarks\": ", list, "\n}\n")
	case CSV:
		lines := [][]string{{"name"}}
		for _, name := range names {
			lines = append(lines, []string{name})
		}
		return p.csv(lines...)
	}
	_, err := fmt.Fprintln(p.Out, strings.Join(names, "\n"))
	return err
}

// console is a line of the table (console_reporter.cc, PrintRunData).
func (r *Row) console(width int) string {
	var b strings.Builder
	if r.Aggregate.percent {
		fmt.Fprintf(&b, "%-*s %10.2f %-4s %10.2f %-4s %10d", width, r.Name(), 100*r.Real, "%", 100*r.CPU, "%", r.Iterations)
	} else {
		fmt.Fprintf(&b, "%-*s %s %-4s %s %-4s %10d", width, r.Name(), time10(r.Real), "us", time10(r.CPU), "us", r.Iterations)
	}
	for _, c := range r.Counters {
		switch {
		case r.Aggregate.percent:
			fmt.Fprintf(&b, " %s=%.2f%%", c.Name, 100*c.Value)
		case c.Rate:
			fmt.Fprintf(&b, " %s=%s/s", c.Name, Human(c.Value))
		default:
			fmt.Fprintf(&b, " %s=%s", c.Name, strconv.FormatFloat(c.Value, 'g', 3, 64))
		}
	}
	return b.String() + "\n"
}

// time10 is a time in ten columns (console_reporter.cc, FormatTime).
func time10(t float64) string {
	switch {
	case t < 1:
		return fmt.Sprintf("%10.3f", t)
	case t < 10:
		return fmt.Sprintf("%10.2f", t)
	case t < 100:
		return fmt.Sprintf("%10.1f", t)
	case t > 9999999999:
		return fmt.Sprintf("%1.4e", t)
	}
	return fmt.Sprintf("%10.0f", t)
}

// Human is a number with six digits and a binary prefix: 288.978M is 288.978 times 2 to the
// 20th power (string_util.cc, with the prefixes that it had before version 1.8).
func Human(v float64) string {
	const k, prefixes = 1024, "kMGTPEZY"
	scaled, prefix := v, ""
	for i := 0; math.Abs(scaled) > k-1 && i < len(prefixes); i++ {
		scaled, prefix = scaled/k, prefixes[i:i+1]
	}
	return strconv.FormatFloat(scaled, 'g', 6, 64) + prefix
}

// record is a row (json_reporter.cc, PrintRunData).
func (r *Row) record() map[string]any {
	f := map[string]any{
		"name": r.Name(), "family_index": r.Benchmark.Family, "per_family_instance_index": r.Benchmark.Instance, "run_name": r.Benchmark.Name,
		"repetitions": r.Repetitions, "threads": 1, "iterations": r.Iterations, "real_time": r.Real, "cpu_time": r.CPU, "time_unit": "us",
	}
	if r.Aggregate.name == "" {
		f["run_type"], f["repetition_index"] = "iteration", r.Repetition
	} else {
		f["run_type"], f["aggregate_name"] = "aggregate", r.Aggregate.name
		f["aggregate_unit"] = map[bool]string{false: "time", true: "percentage"}[r.Aggregate.percent]
	}
	for _, c := range r.Counters {
		f[c.Name] = c.Value
	}
	return f
}

// csvColumns are those of every row.
var csvColumns = []string{"name", "iterations", "real_time", "cpu_time", "time_unit", "bytes_per_second"}

// csv is a line, with columns for these counters at its end.
func (r *Row) csv(counters []string) []string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	unit := "us"
	if r.Aggregate.percent {
		unit = ""
	}
	cells := []string{r.Name(), strconv.Itoa(r.Iterations), number(r.Real), number(r.CPU), unit}
	for _, name := range append([]string{"bytes_per_second"}, counters...) {
		value := ""
		if i := slices.IndexFunc(r.Counters, func(c Counter) bool { return c.Name == name }); i >= 0 {
			value = number(r.Counters[i].Value)
		}
		cells = append(cells, value)
	}
	return cells
}
