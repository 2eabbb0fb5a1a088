package googlebench

import (
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
	if p.Format == JSON {
		text := "{\n  \"context\": " + c.json() + ",\n  \"benchmarks\": ["
		_, err := io.WriteString(p.Out, text)
		return err
	}
	if p.Aside == nil {
		return nil
	}
	return c.print(p.Aside)
}

// Row writes one row.
func (p *Report) Row(r Row) error {
	var text string
	switch p.Format {
	case JSON:
		text = "\n    " + r.json()
		if p.begun {
			text = "," + text
		}
	case CSV:
		if !p.begun {
			text = p.csvHead()
		}
		text += r.csv(p.Counters)
	default:
		if !p.begun {
			head := fmt.Sprintf("%-*s %13s %15s %12s", p.Width, "Benchmark", "Time", "CPU", "Iterations")
			line := strings.Repeat("-", len(head)) + "\n"
			text = line + head + "\n" + line
		}
		text += r.console(p.Width)
	}
	p.begun = true
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
	text := strings.Join(names, "\n") + "\n"
	switch p.Format {
	case JSON:
		var b strings.Builder
		for i, name := range names {
			fmt.Fprintf(&b, "%s\n    {\n      \"name\": %s\n    }", map[bool]string{true: ","}[i > 0], quoted(name))
		}
		text = "{\n  \"benchmarks\": [" + b.String() + "\n  ]\n}\n"
	case CSV:
		text = "name\n"
		for _, name := range names {
			text += csvQuoted(name) + "\n"
		}
	}
	_, err := io.WriteString(p.Out, text)
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

// fields are an object whose order is kept.
type fields []struct {
	name  string
	value any
}

func (f *fields) add(name string, value any) {
	*f = append(*f, struct {
		name  string
		value any
	}{name, value})
}

// json writes the object, each field on a line of its own, indented so far.
func (f fields) json(indent string) string {
	lines := make([]string, len(f))
	for i, x := range f {
		var value string
		switch v := x.value.(type) {
		case string:
			value = quoted(v)
		case raw:
			value = string(v)
		default:
			b, err := json.Marshal(v)
			if err != nil { // not a number
				b = []byte("0")
			}
			value = string(b)
		}
		lines[i] = indent + "  " + quoted(x.name) + ": " + value
	}
	return "{\n" + strings.Join(lines, ",\n") + "\n" + indent + "}"
}

// raw is JSON already.
type raw string

func quoted(text string) string {
	b, _ := json.Marshal(text) // a string never fails
	return string(b)
}

// schemaVersion is of Google Benchmark's JSON.
const schemaVersion = 1

// json is the context (json_reporter.cc, ReportContext).
func (c *Context) json() string {
	var f fields
	f.add("date", c.Date.Format(dateFormat))
	f.add("host_name", c.HostName)
	f.add("executable", c.Executable)
	f.add("num_cpus", c.CPUs)
	f.add("mhz_per_cpu", int(c.MHz))
	f.add("cpu_scaling_enabled", c.Scaling)
	caches := make([]string, len(c.Caches))
	for i, cache := range c.Caches {
		var one fields
		one.add("type", cache.Type)
		one.add("level", cache.Level)
		one.add("size", cache.Size)
		one.add("num_sharing", cache.Sharing)
		caches[i] = "\n      " + one.json("      ")
	}
	f.add("caches", raw("["+strings.Join(caches, ",")+"\n    ]"))
	f.add("load_avg", append([]float64{}, c.Load...))
	f.add("library_build_type", "release")
	f.add("json_schema_version", schemaVersion)
	for _, pair := range c.Custom {
		f.add(pair[0], pair[1])
	}
	return f.json("  ")
}

// json is a row (json_reporter.cc, PrintRunData).
func (r *Row) json() string {
	var f fields
	f.add("name", r.Name())
	f.add("family_index", r.Benchmark.Family)
	f.add("per_family_instance_index", r.Benchmark.Instance)
	f.add("run_name", r.Benchmark.Name)
	if r.Aggregate.name == "" {
		f.add("run_type", "iteration")
		f.add("repetitions", r.Repetitions)
		f.add("repetition_index", r.Repetition)
		f.add("threads", 1)
	} else {
		f.add("run_type", "aggregate")
		f.add("repetitions", r.Repetitions)
		f.add("threads", 1)
		f.add("aggregate_name", r.Aggregate.name)
		f.add("aggregate_unit", map[bool]string{false: "time", true: "percentage"}[r.Aggregate.percent])
	}
	f.add("iterations", r.Iterations)
	f.add("real_time", r.Real)
	f.add("cpu_time", r.CPU)
	f.add("time_unit", "us")
	for _, c := range r.Counters {
		f.add(c.Name, c.Value)
	}
	return f.json("    ")
}

// csvColumns are those of every row (csv_reporter.cc).
const csvColumns = "name,iterations,real_time,cpu_time,time_unit,bytes_per_second,items_per_second,label,error_occurred,error_message"

func (p *Report) csvHead() string {
	head := csvColumns
	for _, name := range p.Counters {
		head += "," + csvQuoted(name)
	}
	return head + "\n"
}

func csvQuoted(text string) string { return `"` + strings.ReplaceAll(text, `"`, `""`) + `"` }

// csv is a line, with columns for these counters at its end.
func (r *Row) csv(counters []string) string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	value := func(name string) string {
		for _, c := range r.Counters {
			if c.Name == name {
				return number(c.Value)
			}
		}
		return ""
	}
	unit := "us"
	if r.Aggregate.percent {
		unit = ""
	}
	cells := []string{csvQuoted(r.Name()), strconv.Itoa(r.Iterations), number(r.Real), number(r.CPU), unit, value("bytes_per_second"), "", "", "", ""}
	for _, name := range counters {
		cells = append(cells, value(name))
	}
	return strings.Join(cells, ",") + "\n"
}
