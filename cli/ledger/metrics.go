package ledger

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// prefix is what the name of each metric begins with.
const prefix = "ringcli_"

type label struct{ name, value string }

// sample is a value of a metric, whose name is without the prefix.
type sample struct {
	metric string
	labels []label
	value  float64
}

// escapes are those of a label's value (Prometheus, "Exposition formats", text format).
var escapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// series is a sample's metric with its labels, by which no two samples are the same.
func (s sample) series() string {
	if len(s.labels) == 0 {
		return prefix + s.metric
	}
	parts := make([]string, len(s.labels))
	for i, l := range s.labels {
		parts[i] = l.name + `="` + escapes.Replace(strings.ToValidUTF8(l.value, "\uFFFD")) + `"`
	}
	return prefix + s.metric + "{" + strings.Join(parts, ",") + "}"
}

// writeMetrics writes samples in the text format, those of a metric together.
func writeMetrics(w io.Writer, samples []sample) error {
	slices.SortStableFunc(samples, func(a, b sample) int {
		return cmp.Or(cmp.Compare(a.metric, b.metric), cmp.Compare(a.series(), b.series()), cmp.Compare(a.value, b.value))
	})
	b := bufio.NewWriter(w)
	metric, series := "", ""
	for _, s := range samples {
		if s.metric != metric {
			metric = s.metric
			typ := "gauge"
			if strings.HasSuffix(metric, "_total") {
				typ = "counter"
			}
			_, _ = fmt.Fprintf(b, "# HELP %s%s %s\n# TYPE %[1]s%[2]s %[4]s\n", prefix, metric, help[metric], typ) // Flush says it
		}
		if name := s.series(); name != series {
			series = name
			_, _ = fmt.Fprintf(b, "%s %s\n", series, strconv.FormatFloat(s.value, 'g', -1, 64))
		}
	}
	return b.Flush()
}
