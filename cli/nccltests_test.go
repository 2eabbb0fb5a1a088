package cli

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ringcli/cli/exit"
	"ringcli/verbs/cpu"
	"ringcli/verbs/verbstest"
)

// ncclTable is what programs read of nccl-tests' text.
type ncclTable struct {
	rows    [][]string // 13 fields each
	busBW   []float64  // out of place, as line[-6]
	inPlace []float64  // line[-2]
	wrong   []string   // of both
	average float64
	bounds  string // what stands after "Out of bounds values :"
	devices int
}

var (
	ncclDevice = regexp.MustCompile(`^#  Rank +(\d+) Group +\d+ Pid +\d+ on +(\S+) device +\d+ \[[^]]+\] \S+$`)
	ncclFields = []string{"size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong"}
)

// readNCCLTests reads the text as programs that are made for nccl-tests do: the rows stand
// between the line with out-of-place and the one with Out of bounds values, and columns are
// found by the heading's words, counted from the end.
func readNCCLTests(t *testing.T, text string) (n ncclTable) {
	t.Helper()
	first, last := -1, -1
	all := strings.Split(text, "\n")
	for i, line := range all {
		switch {
		case strings.Contains(line, "out-of-place"):
			first = i
		case strings.Contains(line, "Out of bounds values"):
			last, n.bounds = i, strings.TrimSpace(strings.SplitN(line, ":", 2)[1])
		case strings.HasPrefix(line, "# Avg bus bandwidth"):
			words := strings.Fields(line) // awk '{print $6}', and line.split(':')[1]
			n.average = number(t, words[5])
		case ncclDevice.MatchString(line):
			n.devices++
		}
	}
	if first < 0 || last < first+3 {
		t.Fatalf("no table in\n%s", text)
	}
	if head := strings.Fields(strings.TrimPrefix(all[first+1], "#")); !slices.Equal(head, ncclFields) {
		t.Fatalf("the columns are %q", head)
	}
	for _, line := range all[first+3 : last] {
		f := strings.Fields(line)
		if len(f) != len(ncclFields) {
			t.Fatalf("%q has %d fields", line, len(f))
		}
		end := len(f)
		n.rows, n.busBW, n.inPlace = append(n.rows, f), append(n.busBW, number(t, f[end-6])), append(n.inPlace, number(t, f[end-2]))
		n.wrong = append(n.wrong, f[end-5], f[end-1])
	}
	return n
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

// What a program that is made for nccl-tests reads is what JSON says of the same run: the log
// file has its records.
func TestNCCLTestsTableIsReadAsJSON(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	for _, c := range []struct {
		operation, kind, op string
		root                string
		perRank             float64 // part of the vector that count is
		more                []string
	}{
		{"all-reduce", "float", "sum", "-1", 1, []string{"-n", "2"}},
		{"reduce-scatter", "int8", "max", "-1", 3, []string{"-n", "3", "--type", "int8", "--op", "max"}},
		{"all-gather", "half", "none", "-1", 2, []string{"-n", "2", "--type", "float16", "-c", "0"}},
		{"broadcast", "double", "none", "1", 1, []string{"-n", "2", "--type", "float64", "--root", "1"}},
		{"reduce", "bfloat16", "avg", "0", 1, []string{"-n", "2", "--type", "bfloat16", "--op", "avg"}},
	} {
		t.Run(c.operation, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "x.log")
			code, stdout, stderr := finish(t, append([]string{"bench", c.operation, "--output", "nccl-tests", "--log-file", log, "-b", "64", "-e", "1M", "-f", "4", "--iters", "3"}, c.more...)...)
			if code != exit.OK {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			got := readNCCLTests(t, stdout)
			text, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			row, sum, average := 0, 0.0, math.NaN()
			for _, o := range objects(t, string(text)) {
				r, _ := o["record"].(map[string]any)
				switch o["kind"] {
				case "BenchSummary":
					average = r["avg_busbw_GBps"].(float64)
				case "Measurement":
					f, from, read := got.rows[row/2], 5, got.busBW[row/2]
					if r["in_place"] == true {
						from, read = 9, got.inPlace[row/2]
					}
					wrong := "N/A"
					if r["wrong"] != nil {
						wrong = fmt.Sprint(r["wrong"])
					}
					count := fmt.Sprintf("%.0f", math.Floor(r["count"].(float64)/c.perRank))
					want := []string{fmt.Sprintf("%.0f", r["bytes"]), count, c.kind, c.op, c.root}
					if !slices.Equal(f[:5], want) || f[from+3] != wrong {
						t.Errorf("the row is %q, want %q and wrong %s", f, want, wrong)
					}
					near(t, "busbw", read, r["busbw_GBps"].(float64))
					near(t, "algbw", number(t, f[from+1]), r["algbw_GBps"].(float64))
					near(t, "time", number(t, f[from]), r["time_us"].(map[string]any)["mean"].(float64))
					sum += r["busbw_GBps"].(float64)
					row++
				}
			}
			if row != 2*len(got.rows) || len(got.rows) != 8 {
				t.Errorf("%d rows of %d measurements", len(got.rows), row)
			}
			ranks := int(number(t, c.more[1]))
			if got.bounds != "0 OK" || got.devices != ranks || math.Abs(got.average-average) > 1e-5*average || math.Abs(average-sum/float64(row)) > 1e-5 {
				t.Errorf("read are %+v, expected the average %v of %v\n%s", got, average, sum/float64(row), stdout)
			}
		})
	}
}

// near compares a figure of two decimals or less.
func near(t *testing.T, what string, read, said float64) {
	t.Helper()
	if math.Abs(read-said) > max(0.005000001, said*1e-4) {
		t.Errorf("%s is read as %v, and is %v", what, read, said)
	}
}

// Wrong data are FAILED where nccl-tests says so, and the exit code is that of wrong data.
func TestNCCLTestsTableTellsOfWrongData(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := finishCorrupted(t, "flip@1", "bench", "all-reduce", "-n", "2", "--output", "nccl-tests", "-b", "4K", "-e", "8K", "--iters", "2", "--algorithm", "ring", "--protocol", "eager")
	got := readNCCLTests(t, stdout)
	if code != exit.Critical || !strings.HasSuffix(got.bounds, " FAILED") || slices.Contains(got.wrong, "0") || !strings.Contains(stderr, "wrong data") {
		t.Errorf("exit code %d, %+v: %s", code, got, stderr)
	}
}

// Where nccl-tests' table cannot be, what can be given is said before anything is measured.
func TestNCCLTestsTableIsRefused(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"devices --output nccl-tests":                                      "devices: output is nccl-tests (from flag --output), which is nccl-tests' table of a collective: expected table, json or csv; `ringcli bench all-reduce --output nccl-tests` prints it",
		"local -n 2 --output nccl-tests":                                   "expected table, json or csv; `ringcli bench all-reduce",
		"bench p2p -n 2 --output nccl-tests":                               "bench p2p: --output nccl-tests is the table of a collective that moves data",
		"bench barrier -n 2 --output nccl-tests":                           "bench barrier: --output nccl-tests is the table of a collective that moves data",
		"bench ar -n 2 --algorithm all --output nccl-tests":                "algorithms or protocols: expected one of each",
		"bench ar -n 2 --duration 1s --window 200ms --output nccl-tests":   "whose table has no windows",
		"connect --index 0 --list 127.0.0.1 -c config --output nccl-tests": "connect: output is nccl-tests",
		"tune -n 2 --output nccl-tests":                                    "tune: output is nccl-tests",
	} {
		code, stdout, stderr := finish(t, strings.Fields(line)...)
		if code != exit.Usage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %q\n%s\nwant %s", line, code, stdout, stderr, want)
		}
	}
	p := program(t, "version")
	p.Env = append(p.Env, "RINGCLI_OUTPUT=nccl-tests")
	p.start(t)
	if code := p.end(t, hung); code != exit.Usage || !strings.Contains(p.stderr.String(), "(from env RINGCLI_OUTPUT)") {
		t.Errorf("exit code %d: %s", code, p.stderr.String())
	}
}

// -n is nccl-tests' iterations: so many ranks to a CPU are asked for only along with how long
// to measure.
func TestManyRanksOfABenchMayBeIterations(t *testing.T) {
	t.Parallel()
	cpus, err := cpu.Allowed()
	if err != nil {
		t.Fatal(err)
	}
	taskset := need(t, "taskset")
	for more, want := range map[string]int{"": exit.Usage, "--iters 1": exit.OK, "--duration 10ms": exit.OK} {
		p := program(t, strings.Fields("-c "+strconv.Itoa(cpus[0])+" SELF bench all-reduce -n 5 -b 8 -e 8 "+more)...)
		p.Args[0], p.Args[3], p.Path = taskset, p.Path, taskset
		p.start(t)
		code, stderr := p.end(t, hung), p.stderr.String()
		if code != want || (code == exit.Usage) != strings.Contains(stderr, "which has 1 CPUs: for 5 iterations, nccl-tests' -n, expected --iters, as in `ringcli bench all-reduce -n 2 --iters 5`") {
			t.Errorf("%q: exit code %d: %s", more, code, stderr)
		}
	}
}
