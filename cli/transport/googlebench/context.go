package googlebench

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Context is where and when it was measured.
type Context struct {
	Date       time.Time
	HostName   string
	Executable string
	CPUs       int
	// Custom are what the program says besides: names and values.
	Custom [][2]string
}

// print says what a table is of, to people.
func (c *Context) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nRunning %s\nRun on %d CPUs\n", c.Date.Format(time.RFC3339), c.Executable, c.CPUs)
	for _, pair := range c.Custom {
		fmt.Fprintf(&b, "%s: %s\n", pair[0], pair[1])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// schemaVersion is of Google Benchmark's JSON.
const schemaVersion = 1

// record has the names of its fields there (json_reporter.cc, ReportContext).
func (c *Context) record() map[string]any {
	r := map[string]any{
		"date": c.Date.Format(time.RFC3339), "host_name": c.HostName, "executable": c.Executable, "num_cpus": c.CPUs,
		"library_build_type": "release", "json_schema_version": schemaVersion,
	}
	for _, pair := range c.Custom {
		r[pair[0]] = pair[1]
	}
	return r
}
