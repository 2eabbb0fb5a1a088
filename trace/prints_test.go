package trace

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestNoTraceDropsPrints builds a program with the tag notrace and without:
// the texts of its events are in the one binary and not in the other.
func TestNoTraceDropsPrints(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs")
	}
	for _, test := range []struct {
		tags string
		want bool
	}{{"", true}, {"notrace", false}} {
		program := filepath.Join(t.TempDir(), "prints")
		build := exec.Command("go", "build", "-tags", test.tags, "-o", program, "./testdata/prints")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		binary, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"the guarded event", "the event without a guard"} {
			if got := bytes.Contains(binary, []byte(text)); got != test.want {
				t.Errorf("tags %q: %q is in the program: %t, want %t", test.tags, text, got, test.want)
			}
		}
		run := exec.Command(program)
		run.Env = append(os.Environ(), EnvVar+"=debug")
		out, err := run.CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Count(out, []byte("\n")); test.want != (got == 2) || !test.want && got != 0 {
			t.Errorf("tags %q: it prints %q", test.tags, out)
		}
	}
}

// TestNoTraceTests vets and tests this package with the tag notrace.
func TestNoTraceTests(t *testing.T) {
	if testing.Short() || !prints {
		t.Skip("builds the tests with the tag")
	}
	if out, err := exec.Command("go", "test", "-short", "-vet=all", "-tags", "notrace", ".").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestWithoutPrints is what the tag notrace leaves: levels that stay off, and
// the recorder.
func TestWithoutPrints(t *testing.T) {
	if prints {
		t.Skip("this program prints events; TestNoTraceTests runs this test")
	}
	emptied(t)
	for _, spec := range []string{"debug", "1", "wire=error"} {
		if err := Set(spec); !errors.Is(err, ErrNoPrints) {
			t.Errorf("Set(%q): %v", spec, err)
		}
	}
	if err := Set("loud"); !errors.Is(err, ErrSpec) {
		t.Errorf("a bad spec: %v", err)
	}
	if err := Set(levelSpec()); err != nil {
		t.Errorf("Set(%q): %v", levelSpec(), err)
	}
	for _, l := range Levels() {
		if l.Level != "off" {
			t.Errorf("%s is at %s", l.Subsystem, l.Level)
		}
	}
	var b bytes.Buffer
	if err := SetOutput(&b, Text); err != nil {
		t.Fatal(err)
	}
	Error(Ring, "not printed", slog.Int("n", 1))
	testBringUp.Span(Now(), Intern("open"), 0, 0, 0)
	if r := Record(); b.Len() != 0 || len(r.Events) != 1 || r.Events[0].Name != BringUpName {
		t.Errorf("printed %q, recorded %+v", &b, r.Events)
	}
}
