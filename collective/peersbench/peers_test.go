//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"ringcli/collective"
)

// A rank is this program, started anew, and so is what has hosts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == rankName || os.Args[1] == hostCommandName || strings.HasPrefix(os.Args[1], "--hosts=")) {
		os.Exit(execute(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// TestOneRound measures all that can be measured here without installing anything.
func TestOneRound(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc: the limits are measured by a C program")
	}
	names := []string{"ringcli", "ringcli-private", "ringcli-slices", "soft", "floor", "memcpy"}
	for _, tool := range []string{openMPI, mpich} {
		if len(missing(t.Context(), []program{programOf(t, tool)})) > 0 {
			t.Logf("without %s, which is not installed", tool)
			continue
		}
		if err := startsHere(t, tool); err != nil {
			t.Logf("without %s, which does not run here, whatever we do: %v", tool, err)
			continue
		}
		for _, c := range contenders {
			// Each configuration takes seconds; all of them are for test-long.
			if c.needs() == tool && !c.hosts && (!testing.Short() || slices.Contains([]string{"openmpi", "openmpi-tcp", "mpich"}, c.name)) {
				names = append(names, c.name)
			}
		}
	}
	temp, out := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	before := shared(t)
	file := filepath.Join(out, "figures.json")
	for _, place := range []string{"--in-place=false", "--in-place"} {
		o := parse(t, "--device", "soft", "--ranks", "2", "--sizes", "8,64K", "--rounds", "1", "--window", "1ms", "--contenders", strings.Join(names, ","),
			"--json", file, place)
		var text, log bytes.Buffer
		if err := run(t.Context(), o, &text, &log); err != nil {
			t.Fatalf("%v\n%s", err, &log)
		}
		for _, name := range names {
			if !strings.Contains(text.String(), name) {
				t.Errorf("%s is not in\n%s", name, &text)
			}
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cells := 0
	for line := range bytes.Lines(data) {
		var got struct {
			Kind      string     `json:"kind"`
			Contender string     `json:"contender"`
			Median    float64    `json:"median_us"`
			Times     []*float64 `json:"time_us"`
		}
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if got.Kind == "cell" {
			cells++
			if got.Median <= 0 || len(got.Times) != 1 {
				t.Errorf("%s", line)
			}
		}
	}
	want := 0
	for _, c := range contenders {
		for _, name := range names {
			for _, op := range operations {
				if c.name == name && c.takes(op) {
					want++
					if op.OnVectors() {
						want++ // of two sizes
					}
				}
			}
		}
	}
	if cells != want {
		t.Errorf("%d cells, want %d\n%s", cells, want, data)
	}
	if entries, err := os.ReadDir(temp); err != nil || len(entries) > 0 {
		t.Errorf("left in %s: %v, %v", temp, entries, err)
	}
	if after := shared(t); len(after) > len(before) {
		t.Errorf("left in %s: %v, before: %v", shmDir, after, before)
	}
}

// What ends the rounds leaves what was measured.
func TestStoppedRun(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc: the limits are measured by a C program")
	}
	file := filepath.Join(t.TempDir(), "figures.json")
	o := parse(t, "--ranks", "2", "--sizes", "8,64K", "--rounds", "1000", "--window", "1ms", "--operations", "all-reduce", "--contenders", "memcpy,floor", "--json", file)
	why := errors.New("enough")
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	var text bytes.Buffer
	log := logger(func(line string) {
		if strings.Contains(line, "round 2:") {
			stop(why)
		}
	})
	if err := run(ctx, o, &text, log); !errors.Is(err, why) || !strings.Contains(err.Error(), " of 1000 rounds") {
		t.Error(err)
	}
	data, err := os.ReadFile(file)
	if n := bytes.Count(data, []byte(`"kind":"cell"`)); err != nil || n != 4 || !strings.Contains(text.String(), "note: stopped after ") {
		t.Errorf("%d cells, %v\n%s", n, err, &text)
	}
}

// The baseline's ranks are of its program, beside ours and in a ring of their own.
func TestBaseline(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc: the line is measured by a C program")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	older := filepath.Join(dir, "older")
	if err := os.WriteFile(older, []byte("#!/bin/sh\necho >>"+dir+"/started\nexec "+self+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "figures.json")
	o := parse(t, "--ranks", "2", "--sizes", "8,64K", "--rounds", "2", "--window", "1ms", "--operations", "all-reduce,barrier", "--contenders", "ringcli-slices,soft", "--baseline", older, "--json", file)
	var text, log bytes.Buffer
	if err := run(t.Context(), o, &text, &log); err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	if started, err := os.ReadFile(filepath.Join(dir, "started")); err != nil || len(started) != 8 { // 2 contenders of 2 ranks in each round
		t.Errorf("%d ranks of the baseline were started, %v", len(started), err)
	}
	data, err := os.ReadFile(file)
	for _, name := range []string{"baseline-slices", "baseline-soft"} {
		if n := bytes.Count(data, []byte(`"reference":"`+name+`"`)); err != nil || n != 3 {
			t.Errorf("%d ratios by %s, %v\n%s", n, name, err, &text)
		}
	}
	if strings.Count(text.String(), " mean ") != 2 {
		t.Errorf("no means of the baseline\n%s", &text)
	}
}

// logger is called with every line.
type logger func(line string)

func (f logger) Write(b []byte) (int, error) {
	f(string(b))
	return len(b), nil
}

// startsHere runs the least program of an MPI's own, as its contenders are run: what fails
// there, such as for a /dev/shm that cannot be written, is the peer's and no fault of ours.
func startsHere(t *testing.T, tool string) error {
	const least = `#include <mpi.h>
int main(int argc, char **argv) {
    int one = 1, sum = 0, size = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return sum != size;
}`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "least.c"), []byte(least), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), compileLimit)
	defer cancel()
	if err := quietly(ctx, dir, append(slices.Clone(programOf(t, tool).compiler), "-o", tool, "least.c")); err != nil {
		return err
	}
	at := slices.IndexFunc(contenders, func(c contender) bool { return c.needs() == tool })
	for _, j := range contenders[at].start(site{ranks: 2, dir: dir, shm: dir, bin: dir}) {
		if err := quietly(ctx, dir, j.args); err != nil {
			return err
		}
	}
	return nil
}

func programOf(t *testing.T, name string) program {
	for _, p := range programs {
		if p.name == name {
			return p
		}
	}
	t.Fatalf("no program %s", name)
	return program{}
}

// shared is what runs of this program may leave in /dev/shm.
func shared(t *testing.T) []string {
	var names []string
	for _, pattern := range []string{"ringcli-peers-*", "vader_segment.*", "mpich_shar_tmp*"} {
		found, err := filepath.Glob(filepath.Join(shmDir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	return names
}

func parse(t *testing.T, args ...string) options {
	t.Helper()
	var o options
	fs := pflag.NewFlagSet("peersbench", pflag.ContinueOnError)
	o.flags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := o.check(fs); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestBadInput(t *testing.T) {
	for args, says := range map[string]string{
		"--rounds 0": "expected 1 to 1000", "--sizes 6": "a multiple of 4", "--sizes 1G": "4 to 256M", "--sizes x": "--sizes x", "--ranks 1": "expected 2 to 128",
		"--operations all-to-all": "expected some of all-reduce", "--contenders nccl": "expected some of openmpi", "--limit 0s": "above 0", "--window 1us": "expected 1ms",
		"--retakes -1": "expected 0 to 100", "--hosts 1": "expected 2 to 16", "--hosts 4 --ranks 8,6": "--ranks 6 with --hosts 4: expected a multiple of 4",
		"--hosts 2 --rate fast": "such as 1gbit", "--hosts 2 --no-pin": "expected one of both", "--hosts 2 --contenders mpich": "expected some of openmpi-hosts",
		"--baseline no-such-program": "expected what `go -C", "--contenders baseline": "expected some of openmpi",
		"--contenders ringcli-ring": "expected some of openmpi", "--ruonds 1": "unknown flag", "all-reduce": "expected flags only",
	} {
		c := command()
		c.SetArgs(strings.Fields(args))
		err := c.ExecuteContext(context.Background())
		if !errors.As(err, &usageError{}) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", args, err, says)
		}
	}
}

func TestWhatIsMeasured(t *testing.T) {
	o := parse(t, "--quick", "--rounds", "9", "--sizes", "1M,8,8")
	if len(o.sizes) != 2 || o.sizes[0] != 8 || o.rounds != 9 {
		t.Errorf("%+v", o)
	}
	if o = parse(t, "--quick"); o.rounds != 3 || len(o.sizes) != 4 || len(o.cells(4)) != 4*(len(operations)-1)+1 {
		t.Errorf("%+v", o)
	}
	// 8 bytes are two elements, which 4 ranks cannot share evenly.
	for _, c := range o.cells(4) {
		want := int(c.bytes / 4)
		if c.bytes == 8 && (c.op == collective.OpReduceScatter || c.op == collective.OpAllGather) {
			want = 4
		}
		if c.count() != want {
			t.Errorf("%s: %d elements, want %d", c, c.count(), want)
		}
	}
	if o = parse(t, "--ranks", "8,2,8"); !slices.Equal(o.rankNumbers, []int{2, 8}) {
		t.Errorf("%v", o.rankNumbers)
	}
	o = parse(t)
	list, left := o.chosen(true)
	if len(list) != len(fielded(false))-2 || len(left) != 2 || !strings.HasPrefix(left[0], "openmpi-sm:") || !strings.HasPrefix(left[1], "mpich:") {
		t.Errorf("%d of %d, left out: %q", len(list), len(contenders), left)
	}
	o = parse(t, "--contenders", "mpich,openmpi-sm,soft", "--operations", "all-gather", "--ranks", "4")
	if list, left = o.chosen(true); len(list) != 2 || list[0].name != "mpich" || len(left) != 0 {
		t.Errorf("%v, left out: %q", list, left)
	}
	if got := o.programs(2); len(got) != 2 || got[0].name != limits || got[1].name != mpich {
		t.Errorf("%+v", got)
	}
	for us, want := range map[float64]int{0: mostIters, 0.01: mostIters, 1: 15000, 1e4: leastIters, 1e5: leastIters, 25e4: 4, 1e7: 2} {
		if got := itersOf(us, o.window); got != want {
			t.Errorf("%g us: %d iterations, want %d", us, got, want)
		}
	}
}

func TestWhatFits(t *testing.T) {
	sizes := []uint64{8, 1 << 20, 16 << 20}
	for memory, want := range map[uint64]int{0: 0, 1 << 20: 1, 10 << 30: 2, 20 << 30: 3} {
		if got := fitting(sizes, 14, 32, memory); len(got) != want {
			t.Errorf("%d bytes: %d, want %d of them", memory, got, want)
		}
	}
	if got := availableMemory(); got < 1<<20 || got >= 1<<40 {
		t.Errorf("%d bytes are available", got)
	}
}

func TestWhatIsMissing(t *testing.T) {
	got := missing(t.Context(), []program{{compiler: []string{"no-such-compiler"}, packages: []string{"b", "a"}}, {compiler: []string{"sh"}, packages: []string{"c"}},
		{compiler: []string{"sh"}, tools: []string{"no-such-tool"}, packages: []string{"a"}},
		{compiler: []string{"gcc"}, header: "stddef.h", packages: []string{"d"}}, {compiler: []string{"gcc"}, header: "no-such-header.h", packages: []string{"e"}}})
	if strings.Join(got, " ") != "a b e" {
		t.Errorf("%q", got)
	}
	if err := install(t.Context(), nil, nil); err != nil {
		t.Error(err)
	}
}
