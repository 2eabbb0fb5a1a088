package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"ringcli/cli/exit"
	"ringcli/trace"
	"ringcli/trace/tracetest"
	"ringcli/verbs/verbstest"
)

// Four ranks whose clocks are wrong by up to 50 ms, and drift, are put on one
// time axis: no segment arrives before it was sent. The ranks of one machine have
// one clock, so it is their recordings that are made wrong.
func TestWrongClocksAreAligned(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	dir := t.TempDir()
	code, stdout, stderr := finish(t, "local", "-n", "4",
		"-c", "all-reduce --size 256K --check; sleep 2s; all-reduce --size 256K --protocol rendezvous-read; trace dump "+filepath.Join(dir, "x.json")+"; trace show")
	if code != exit.OK {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	for rank := range 4 {
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^\s*(rank )?%d\b.*[#=█▓▒░.|-]`, rank)).MatchString(stdout) {
			t.Errorf("trace show has no line of rank %d:\n%s", rank, stdout)
		}
	}
	wrong := []wrongClock{{}, {50e6, 200}, {-50e6, -200}, {20e6, 100}}
	var files []string
	for rank := range wrong {
		files = append(files, filepath.Join(dir, fmt.Sprintf("x.rank%d.json", rank)))
		setWrong(t, files[rank], wrong)
	}
	out := filepath.Join(dir, "merged.json")
	code, stdout, stderr = here(t, append([]string{"trace", "merge", "--output", "json", "--out", out}, files...)...)
	if code != exit.OK || stderr != "" {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	m := objects(t, stdout)[0]
	if m["violations"] != 0.0 || m["segments"].(float64) < 4*6*20 {
		t.Errorf("%v segments, %v violations", m["segments"], m["violations"])
	}
	clocks := m["clocks"].([]any)
	if len(clocks) != len(wrong) {
		t.Fatalf("clocks of %d ranks\n%s", len(clocks), stdout)
	}
	for rank, c := range clocks {
		c := c.(map[string]any)
		offset, bound := c["offset_ns"].(float64), c["bound_ns"].(float64)
		at := int64(c["at"].(float64)) - wrong[rank].offset
		want := float64(at - wrong[rank].at(at)) // the drift has moved the clocks on
		if off := offset - want; off > bound+1e6 || off < -bound-1e6 || rank > 0 && (bound <= 0 || bound > 20e6) {
			t.Errorf("rank %d: offset %.0f ns, bound %.0f ns: expected about %.0f ns", rank, offset, bound, want)
		}
	}
	checkChrome(t, out)
	for _, file := range append(files, out) {
		code, stdout, stderr = here(t, "trace", "show", file)
		if code != exit.OK || !strings.Contains(stdout, "all-reduce") {
			t.Errorf("trace show %s: exit code %d\n%s%s", file, code, stdout, stderr)
		}
	}
}

// Under the default, too, where ranks of one host share memory, each rank is drawn at
// work, and the table says who waits for whom.
func TestTraceShowOfSharedMemory(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := finish(t, "local", "-n", "3", "--device", "shm", "-c", "all-reduce --size 1M; trace show")
	if code != exit.OK {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	for what, want := range map[string]int{
		`(?m)^operation \d+: all-reduce of 1 MiB, direct, 3 ranks, [\d.]+ us$`: 1,
		`(?m)^rank \d    steps \|[ .]*(0+a*|a+)[ .]*\|$`:                       3, // a step of less than a column has none
		`(?m)^ +reduce \|.*[#+].*\|$`:                                          3,
		`(?m)^ +(out|in) \|`:                                                   0,
		`(?m)^(reduce-scatter|all-gather) 0(  +[\d.]+){3}  (rank \d|-)$`:       2,
		`(?m)^\d(  +[\d.]+){4}  +[\d.]+%`:                                      3,
		`(?m)^\d .*%  slowest$`:                                                1,
		`(?m)^\d +[\d.]+ +[\d.]+ +0\.0 `:                                       0,
	} {
		if got := len(regexp.MustCompile(what).FindAllString(stdout, -1)); got != want {
			t.Errorf("%d lines like %s, want %d\n%s", got, what, want, stdout)
		}
	}
}

// wrongClock is the error of a clock: so many ns at skewEpoch, and so many
// millionths too fast from then on.
type wrongClock struct{ offset, ppm int64 }

var skewEpoch = time.Now().UnixNano()

func (w wrongClock) at(t int64) int64 { return t + w.offset + (t-skewEpoch)*w.ppm/1e6 }

// setWrong rewrites a rank's recording as one that was made while every rank's
// clock was wrong.
func setWrong(t *testing.T, name string, wrong []wrongClock) {
	t.Helper()
	list, err := trace.ReadFile(name)
	if err != nil || len(list) != 1 {
		t.Fatalf("%s: %d recordings, %v", name, len(list), err)
	}
	r, own := &list[0], wrong[list[0].Rank]
	for i, s := range r.Clock {
		at := own.at(s.At)
		r.Clock[i] = trace.ClockSample{Peer: s.Peer, At: at, Offset: wrong[s.Peer].at(s.At+s.Offset) - at, RTT: s.RTT}
	}
	for i := range r.Events {
		e := &r.Events[i]
		e.Start, e.End = own.at(e.Start), own.at(e.End)
	}
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(trace.WriteRecordings(f, list), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// checkChrome fails unless ui.perfetto.dev could read the file.
func checkChrome(t *testing.T, name string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := tracetest.CheckChrome(f); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// What fails leaves the flight recorder in a file, and says where.
func TestAFailureKeepsTheFlightRecorder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := program(t, "local", "-n", "3", "-c", "all-reduce --size 96K --check")
	p.Env = append(p.Env, "RINGCLI_TRACE_DIR="+dir, corrupt+"=flip@1")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t, screenDeadline); code != exit.Critical {
		t.Fatalf("exit code %d\n%s", code, p.stderr.String())
	}
	named := regexp.MustCompile(`(?m)flight recorder: (\S+\.json)`).FindAllStringSubmatch(p.stderr.String(), -1)
	if len(named) == 0 || !strings.Contains(p.stderr.String(), "; help wrong-data says more of the cause\n") {
		t.Fatalf("no file, or no code, is named in\n%s", p.stderr.String())
	}
	var files []string
	for _, match := range named {
		if filepath.Dir(match[1]) != dir {
			t.Errorf("%s is not in RINGCLI_TRACE_DIR, %s", match[1], dir)
		}
		checkChrome(t, match[1])
		files = append(files, match[1])
	}
	code, stdout, stderr := here(t, append([]string{"trace", "show"}, files...)...)
	if code != exit.OK || !strings.Contains(stdout, "all-reduce") {
		t.Errorf("trace show: exit code %d\n%s%s", code, stdout, stderr)
	}
	// A disk that is full is no failure of the ring, nor of its other ranks.
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p = program(t, "local", "-n", "3", "-c", "all-reduce --size 4K")
	p.Stdout = full
	p.Env = append(p.Env, "RINGCLI_TRACE_DIR="+dir)
	if err := errors.Join(p.Start(), full.Close()); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t, screenDeadline); code != exit.Critical || strings.Contains(p.stderr.String(), "flight recorder") {
		t.Errorf("full: exit code %d\n%s", code, p.stderr.String())
	}
	// A mistake in what was typed is no failure of the ring.
	p = program(t, "local", "-n", "2", "-c", "all-reduce --size 4K --protocol eager --slots 1; expect wrong == 0")
	p.Env = append(p.Env, "RINGCLI_TRACE_DIR="+dir)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t, screenDeadline); code == exit.OK || strings.Contains(p.stderr.String(), "flight recorder") {
		t.Errorf("exit code %d\n%s", code, p.stderr.String())
	}
}

// A build without prints says so, and still records.
func TestABuildWithoutPrints(t *testing.T) {
	t.Parallel()
	verbstest.Longest(t) // it builds the program once more
	dir := t.TempDir()
	binary := filepath.Join(dir, "ringcli")
	build := exec.Command("go", "build", "-tags", "notrace", "-o", binary, "ringcli/cli/ringcli")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.Command(binary, "local", "-n", "2", "--trace", "wire=debug", "-c", "ping").CombinedOutput()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != exit.Usage || !strings.Contains(string(out), "notrace") {
		t.Errorf("trace wire=debug: %v\n%s", err, out)
	}
	out, err = exec.Command(binary, "local", "-n", "2", "-c", "all-reduce --size 4K --check; trace show").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "reduce-scatter") {
		t.Errorf("%v\n%s", err, out)
	}
}
