// Package clitest is for tests of the command line: it holds what is printed against
// golden files, which have what must not change unnoticed, and against the JSON
// Schema. `make golden` writes the files, and `git diff` shows what has changed.
package clitest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"ringcli/configs/codes"
)

// Update says that the files are to be written.
var Update = os.Getenv("UPDATE_GOLDEN") != ""

// Golden compares a file with what it should hold, or writes it.
func Golden(t *testing.T, path, want string) {
	t.Helper()
	if Update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; `make golden` writes it", err)
	}
	if string(got) != want {
		t.Errorf("%s is not up to date; if the change is meant, `make golden` writes it\n%s", path, firstDifference(string(got), want))
	}
}

// firstDifference shows where two texts part.
func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(a), len(b)) {
		x, y := "(end)", "(end)"
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return "the file has: " + x + "\nit should be: " + y
		}
	}
	return ""
}

// compiled is the schema of a line, and of each type of record.
var compiled = sync.OnceValues(func() (*jsonschema.Schema, error) {
	_, self, _, _ := runtime.Caller(0)
	// The file, which `make golden` may just have written, not what is built in.
	text, err := os.ReadFile(filepath.Join(filepath.Dir(self), "..", "schema", "ringcli.schema.json"))
	if err != nil {
		return nil, err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("urn:ringcli:output", document); err != nil {
		return nil, err
	}
	return c.Compile("urn:ringcli:output")
})

// ValidateJSON checks each line of output that is a record against the schema.
// A last line that is cut off, as of a process that was killed, is no line.
func ValidateJSON(t *testing.T, output string) {
	t.Helper()
	if _, err := compiled(); err != nil {
		t.Error(err)
		return
	}
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, `{"command":`) || !strings.HasSuffix(line, "}\n") {
			continue
		}
		if err := ValidLine(line); err != nil {
			t.Errorf("the JSON Schema does not describe %s%v\n(a new type of record, or of command, needs an example; then `make golden`)", line, err)
		}
		var o struct {
			Code     string `json:"code"`
			ExitCode *int   `json:"exit_code"`
		}
		if json.Unmarshal([]byte(line), &o) == nil && o.ExitCode != nil {
			if f, _ := codes.Find(o.Code); !slices.Contains(f.Exits, *o.ExitCode) {
				t.Errorf("the table of failures has exit codes %v for %q: %s", f.Exits, o.Code, line)
			}
		}
	}
}

// ValidLine checks one line against the schema.
func ValidLine(line string) error {
	s, err := compiled()
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
	if err != nil {
		return err
	}
	return s.Validate(value)
}
