// Command prints has one printed event behind a guard and one without, for the
// test that shows what the build tag notrace leaves of them.
package main

import (
	"log/slog"
	"os"

	"ringcli/trace"
)

func main() {
	if trace.Enabled(trace.Ring) {
		trace.Debug(trace.Ring, "the guarded event", slog.Int("arguments", len(os.Args)))
	}
	trace.Error(trace.Ring, "the event without a guard")
}
