//go:build !notrace

package trace

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestSet(t *testing.T) {
	restore(t)
	for _, test := range []struct{ spec, want string }{
		{"debug", "bootstrap=debug,verbs=debug,wire=debug,ring=debug,collective=debug,repl=debug"},
		{"wire=off,ring=info", "bootstrap=debug,verbs=debug,wire=off,ring=info,collective=debug,repl=debug"},
		{"all=error", "bootstrap=error,verbs=error,wire=error,ring=error,collective=error,repl=error"},
		{"0", "bootstrap=off,verbs=off,wire=off,ring=off,collective=off,repl=off"},
		{"warn, Verbs = 1", "bootstrap=warn,verbs=debug,wire=warn,ring=warn,collective=warn,repl=warn"},
		{"1", "bootstrap=debug,verbs=debug,wire=debug,ring=debug,collective=debug,repl=debug"},
		{"OFF", "bootstrap=off,verbs=off,wire=off,ring=off,collective=off,repl=off"},
		{"wire=debug,wire=warning", "bootstrap=off,verbs=off,wire=warn,ring=off,collective=off,repl=off"},
	} {
		if err := Set(test.spec); err != nil {
			t.Fatalf("%q: %v", test.spec, err)
		}
		if got := levelSpec(); got != test.want {
			t.Errorf("after %q\ngot  %s\nwant %s", test.spec, got, test.want)
		}
	}
	if l := Levels()[Wire]; l.Subsystem != Wire || l.Level != "warn" {
		t.Errorf("Levels has %v for wire", l)
	}
}

func TestSetRefuses(t *testing.T) {
	restore(t)
	before := levelSpec()
	for spec, want := range map[string]string{
		"":                  `trace: bad level spec "": no level given, known are debug, info, warn, error, off (1 is debug, 0 is off)`,
		"loud":              `trace: bad level spec "loud": unknown level "loud", known are debug, info, warn, error, off (1 is debug, 0 is off)`,
		"2":                 `trace: bad level spec "2": unknown level "2", known are debug, info, warn, error, off (1 is debug, 0 is off)`,
		"ring":              `trace: bad level spec "ring": subsystem ring needs a level, as in ring=debug`,
		"net=debug":         `trace: bad level spec "net=debug": unknown subsystem "net", known are bootstrap, verbs, wire, ring, collective, repl, all`,
		"wire=debug,ring=x": `trace: bad level spec "wire=debug,ring=x": unknown level "x", known are debug, info, warn, error, off (1 is debug, 0 is off)`,
		"wire=debug,":       `trace: bad level spec "wire=debug,": no level given, known are debug, info, warn, error, off (1 is debug, 0 is off)`,
	} {
		err := Set(spec)
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if !errors.Is(err, ErrSpec) {
			t.Errorf("%q: the error does not wrap ErrSpec", spec)
		}
		if got := levelSpec(); got != before {
			t.Errorf("%q has changed the levels to %s", spec, got)
		}
	}
}

// TestEnvironment starts this test program anew, since the environment is read
// once.
func TestEnvironment(t *testing.T) {
	const child = "TRACE_TEST_CHILD"
	if os.Getenv(child) != "" {
		fmt.Println(levelSpec())
		return
	}
	warn := "bootstrap=warn,verbs=warn,wire=warn,ring=warn,collective=warn,repl=warn"
	for value, want := range map[string]string{
		"":           warn,
		"1":          strings.ReplaceAll(warn, "warn", "debug"),
		"0":          strings.ReplaceAll(warn, "warn", "off"),
		"wire=debug": strings.Replace(warn, "wire=warn", "wire=debug", 1),
		"yes":        warn, // the command line reports it
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestEnvironment$")
		// The race detector would sleep for a second at each exit.
		cmd.Env = append(os.Environ(), child+"=1", EnvVar+"="+value, "GORACE=atexit_sleep_ms=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(out), want) {
			t.Errorf("%q: got %s, want %s", value, out, want)
		}
	}
}

func TestSubsystemNames(t *testing.T) {
	for s, want := range map[Subsystem]string{Bootstrap: "bootstrap", Repl: "repl", subsystems: "unknown"} {
		if got := s.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
