package readerstest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/joshdk/go-junit"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"ringcli/cli"
)

// asProgram makes the test binary be ringcli, which `local` starts again.
const asProgram = "RINGTEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// ringcli runs one, and returns its exit code.
func ringcli(t *testing.T, args ...string) int {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, args...)
	c.Env = append(os.Environ(), asProgram+"=1", "XDG_STATE_HOME="+t.TempDir())
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	t.Logf("ringcli %s: %s\n%s", strings.Join(args, " "), c.ProcessState, out)
	return c.ProcessState.ExitCode()
}

// runs are runs whose reports are read, and their exit codes; -1: any.
var runs = []struct {
	name string
	args []string
	code int
}{
	{"script", []string{"local", "-n", "2", "-c", "ping; all-reduce --size 4K --iters 5 --check; barrier --iters 5; counters; self-check"}, 0},
	{"verdict", []string{"local", "-n", "2", "--device", "soft:lo", "-c", "all-reduce --size 4K --iters 5 --check; expect wrong == \"a\\\"b\""}, -1},
	{"links", []string{"links", "-n", "3", "--time", "10ms"}, -1},
	{"doctor", []string{"doctor"}, -1},
	{"p2p", []string{"bench", "p2p", "-n", "2", "-b", "8", "-e", "8", "--iters", "10"}, 0},
	{"absent", []string{"connect", "--index", "0", "--list", "127.0.0.1,127.0.0.2", "--timeout", "1s"}, 2},
}

func TestReportsAreRead(t *testing.T) {
	for _, r := range runs {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			xml, prom := filepath.Join(dir, "x.xml"), filepath.Join(dir, "x.prom")
			code := ringcli(t, append(slices.Clone(r.args), "--junit", xml, "--metrics", prom)...)
			if r.code >= 0 && code != r.code {
				t.Errorf("exit code %d, want %d", code, r.code)
			}
			readMetrics(t, prom, code)
			readJUnit(t, xml, code)
		})
	}
}

func readMetrics(t *testing.T, path string, code int) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", err, problems)
	}
	exit := families["ringcli_run_exit_code"]
	if exit == nil || len(exit.Metric) != 1 || int(exit.Metric[0].GetGauge().GetValue()) != code {
		t.Errorf("exit code %d is told as %v", code, exit)
	}
	// node_exporter refuses a file with two samples of the same series.
	for name, family := range families {
		seen := map[string]bool{}
		for _, m := range family.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.String())
			}
			slices.Sort(labels)
			if key := strings.Join(labels, ","); seen[key] {
				t.Errorf("%s is there twice with %s", name, key)
			} else {
				seen[key] = true
			}
		}
	}
}

func readJUnit(t *testing.T, path string, code int) {
	suites, err := junit.IngestFile(path)
	if err != nil {
		t.Fatal(err)
	}
	failed, names := 0, map[string]bool{}
	for _, suite := range suites {
		for _, test := range suite.Tests {
			if key := test.Classname + " " + suite.Name + " " + test.Name; names[key] {
				t.Errorf("%s is there twice", key)
			} else {
				names[key] = true
			}
			if test.Error != nil {
				if failed++; test.Message == "" {
					t.Errorf("%s failed, without a word", test.Name)
				}
			}
		}
	}
	if len(names) == 0 || (failed > 0) != (code != 0) {
		t.Errorf("exit code %d, and %d of %d cases failed", code, failed, len(names))
	}
	xmllint, err := exec.LookPath("xmllint")
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Errorf("the schema is not checked: %v", err)
	case err != nil:
		t.Log("no xmllint: the schema is not checked")
	default:
		if out, err := exec.Command(xmllint, "--noout", "--schema", filepath.Join("testdata", "junit.xsd"), path).CombinedOutput(); err != nil {
			t.Errorf("xmllint: %v\n%s", err, out)
		}
	}
}
