package trace

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
)

// levelSpec returns the levels in force in the form that Set takes.
func levelSpec() string {
	parts := make([]string, 0, subsystems)
	for _, l := range Levels() {
		parts = append(parts, l.Subsystem.String()+"="+l.Level)
	}
	return strings.Join(parts, ",")
}

// dump writes what the flight recorder holds.
func dump(w io.Writer) error {
	return WriteRecordings(w, []Recording{Record()})
}

// restore puts levels, output and rank back when the test ends.
func restore(t testing.TB) {
	before := levelSpec()
	output.Lock()
	w, format, color, rank, now := output.w, output.format, output.color, output.rank, output.now
	output.Unlock()
	t.Cleanup(func() {
		if err := Set(before); err != nil {
			t.Error(err)
		}
		output.Lock()
		defer output.Unlock()
		output.w, output.format, output.color, output.rank, output.now = w, format, color, rank, now
		rebuild()
	})
}

// capture sends what the test traces to a buffer, at a fixed time, and
// everything on.
func capture(t testing.TB, format Format) *bytes.Buffer {
	t.Helper()
	return captureAs(t, format, false)
}

// captureAs says whether what captures is a terminal.
func captureAs(t testing.TB, format Format, terminal bool) *bytes.Buffer {
	t.Helper()
	restore(t)
	var b bytes.Buffer
	output.Lock()
	output.now = func() time.Time { return time.Date(2030, 1, 2, 15, 4, 5, 6789000, time.UTC) }
	output.Unlock()
	if err := setOutput(&b, format, terminal); err != nil {
		t.Fatal(err)
	}
	if err := Set("debug"); err != nil {
		t.Fatal(err)
	}
	return &b
}
