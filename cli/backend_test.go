package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"ringcli/cli/exit"
	"ringcli/collective/backend/nccltest"
	"ringcli/collective/plan"
	"ringcli/collective/reduce"
	"ringcli/verbs/gpu/gputest"
	"ringcli/verbs/verbstest"
)

// byVendors is a ringcli that has not been started and finds NCCL, RCCL and devices.
func byVendors(t *testing.T, variables []string, args ...string) *process {
	t.Helper()
	p := onDevices(t, variables, args...)
	nccl := nccltest.Build(t, nccltest.Sonames...)
	p.Env = append(p.Env, "LD_LIBRARY_PATH="+nccl+":"+testGPUs.dir, "NCCLTEST_DIR="+t.TempDir())
	return p
}

// Our ring and NCCL are in one table, on one memory, with every element checked.
func TestVendorsBesideTheRing(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	for _, c := range []struct {
		ranks, operation string
		args             []string
		backends         []string
	}{
		{"2", "all-reduce", []string{"--backend", "ring,nccl", "--op", "avg"}, []string{"", "nccl"}},
		{"3", "all-gather", []string{"--backend", "rccl", "--type", "int8"}, []string{"rccl"}},
		{"3", "reduce-scatter", []string{"--backend", "auto", "--type", "bfloat16", "--op", "avg"}, []string{"nccl"}},
		{"2", "all-gather", []string{"--backend", "rccl,ring", "--memory", "hip:1", "--type", "float16"}, []string{"", "rccl"}},
	} {
		args := append([]string{"bench", c.operation, "-n", c.ranks, "-b", "16", "-e", "1000", "-f", "8", "--iters", "3", "--output", "json"}, c.args...)
		p := byVendors(t, nil, args...)
		p.start(t)
		if code := p.end(t, hung); code != exit.OK {
			t.Fatalf("%v: exit code %d\n%s%s", args, code, p.stdout.String(), p.stderr.String())
		}
		rows := map[any]int{}
		for _, o := range objects(t, p.stdout.String()) {
			if o["command"] != c.operation {
				continue
			}
			name, _ := o["backend"].(string)
			rows[name]++
			if o["wrong"] != 0.0 || o["memory"] == nil || (name != "") != (o["algorithm"] == "auto") {
				t.Errorf("%v: %v", args, o)
			}
		}
		if len(rows) != len(c.backends) || rows[c.backends[0]] < 2 || rows[c.backends[len(c.backends)-1]] < 2 {
			t.Errorf("%v: rows by %v, expected %v", args, rows, c.backends)
		}
	}
}

// A back end's devices differ by rank. A GPU that all ranks are to have is another team than they are,
// though it is the one that rank 0 has of them.
func TestDevicesOfABackEnd(t *testing.T) {
	t.Parallel()
	p := byVendors(t, nil, "local", "-n", "2", "-c", "ar --backend nccl --check --iters 2; ar --memory cuda:0 --check --iters 2; ar --backend nccl --check --iters 2; ar --memory cuda:1 --check --iters 2", "--output", "json")
	p.start(t)
	if code := p.end(t, hung); code != exit.OK {
		t.Fatalf("exit code %d\n%s%s", code, p.stdout.String(), p.stderr.String())
	}
	var places []any
	for _, o := range objects(t, p.stdout.String()) {
		if o["command"] == "all-reduce" {
			places = append(places, o["memory"])
			if o["wrong"] != 0.0 {
				t.Errorf("%v: expected nothing wrong", o)
			}
		}
	}
	if want := []any{"cuda:0", "cuda:0", "cuda:0", "cuda:1"}; !slices.Equal(places, want) {
		t.Errorf("memory of %v, expected %v", places, want)
	}
}

// What a table ends with says of a vendor's rows, too, how the memory is reached.
func TestMemoryNotesOfVendors(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"local", "-n", "2", "-c", "ar --backend nccl --iters 2"},
		{"bench", "all-reduce", "-n", "2", "--backend", "nccl", "-b", "1K", "-e", "1K", "--iters", "2"},
	} {
		p := byVendors(t, nil, args...)
		p.start(t)
		if code, text := p.end(t, hung), p.stdout.String(); code != exit.OK || !strings.Contains(text, "cuda:0: as the back end's library moves it") {
			t.Errorf("%q: exit code %d\n%s%s", args, code, text, p.stderr.String())
		}
	}
	p := program(t, "bench", "barrier", "-n", "2", "--memory", "cuda:0")
	p.start(t)
	if code := p.end(t, hung); code != exit.Usage || !strings.Contains(p.stderr.String(), "bench barrier: --memory cuda:0 means nothing here") {
		t.Errorf("bench barrier --memory: exit code %d\n%s", code, p.stderr.String())
	}
}

// `backends` shows each library that is found, and fails for one that is not.
func TestBackendsAreFound(t *testing.T) {
	t.Parallel()
	p := byVendors(t, nil, "backends", "--output", "json")
	p.start(t)
	if code := p.end(t, hung); code != exit.OK {
		t.Fatalf("exit code %d\n%s%s", code, p.stdout.String(), p.stderr.String())
	}
	memory := map[any]any{}
	for _, o := range objects(t, p.stdout.String()) {
		name, is := o["backend"]
		if !is {
			continue
		}
		memory[name] = o["memory"]
		if path, _ := o["path"].(string); o["ok"] != true || o["reason"] != "" || (name == "ring") != (path == "") || o["chosen"] != (name == "nccl") {
			t.Errorf("%v: expected it to be available, and auto to be nccl", o)
		}
	}
	if len(memory) != 3 || memory["ring"] != "host" || memory["nccl"] != "cuda" || memory["rccl"] != "hip" {
		t.Errorf("memory of back ends: %v", memory)
	}
	if os.Getenv("RINGTEST_GPU") != "" {
		return // a machine that may have the libraries
	}
	for name, want := range map[string]string{"nccl": "libnccl.so.2 cannot be loaded", "rccl": "librccl.so.1 cannot be loaded"} {
		p := program(t, "backends", name)
		p.Env = append(p.Env, "LD_LIBRARY_PATH="+t.TempDir())
		p.start(t)
		if code := p.end(t, hung); code != exit.Usage || !strings.Contains(p.stderr.String(), name+": ") || !strings.Contains(p.stderr.String(), want) {
			t.Errorf("backends %s: exit code %d: expected %d and %q\n%s", name, code, exit.Usage, want, p.stderr.String())
		}
	}
}

// The check finds what a library has got wrong, and each way to fail has its exit code and
// says what is missing.
func TestVendorsFail(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	for _, c := range []struct {
		name      string
		variables []string
		args      []string
		code      int
		want      []string
	}{
		{"wrong data", []string{"NCCLTEST_WRONG=1", "NCCLTEST_RANK=1"}, []string{"local", "-n", "2", "-c", "ar --backend nccl --check --iters 2"}, exit.Critical, []string{"wrong data: all-reduce of 1048576 bytes, nccl: 4 wrong elements", "rank 1, element 0"}},
		{"a code", []string{"NCCLTEST_FAIL=ncclBroadcast:5"}, []string{"local", "-n", "2", "-c", "broadcast --backend nccl"}, exit.Critical, []string{"ncclBroadcast returned ncclInvalidUsage (5)"}},
		{"a library that blocks", []string{"NCCLTEST_BLOCK=ncclAllReduce"}, []string{"local", "-n", "2", "--timeout", "10s", "-c", "barrier --backend nccl"}, exit.Critical, []string{"barrier was given up"}},
		{"a communicator that fails", []string{"NCCLTEST_FAIL=ncclCommInitRankConfig:5"}, []string{"local", "-n", "2", "-c", "barrier --backend rccl"}, exit.Critical, []string{"making a communicator of 2 ranks"}},
		{"one's communicator that fails", []string{"NCCLTEST_FAIL=ncclCommInitRankConfig:5", "NCCLTEST_RANK=1"}, []string{"local", "-n", "2", "--timeout", "20s", "-c", "barrier --backend nccl"}, exit.Critical, []string{"rank 0: ncclCommInitRankConfig was given up after", "rank 1: nccl: ncclCommInitRankConfig returned ncclInvalidUsage (5)"}},
		{"no device", []string{"RINGTEST_GPUS=0"}, []string{"bench", "all-reduce", "-n", "2", "--backend", "nccl"}, exit.Usage, []string{"bench all-reduce: --backend nccl: not available: cuda is not available"}},
		{"other memory", nil, []string{"local", "-n", "2", "-c", "ar --backend nccl --memory hip:0"}, exit.Usage, []string{"--backend nccl needs cuda memory, and --memory hip:0 is given"}},
		{"host memory", nil, []string{"local", "-n", "2", "-c", "ar --backend rccl --memory host"}, exit.Usage, []string{"--backend rccl needs hip memory, and --memory host is given"}},
		{"two memories", nil, []string{"bench", "all-reduce", "-n", "2", "--backend", "nccl,rccl"}, exit.Usage, []string{"--backend nccl needs cuda memory, and --backend rccl hip memory: expected back ends of one memory"}},
		{"an algorithm", nil, []string{"local", "-n", "2", "-c", "ar --backend nccl --algorithm tree"}, exit.Usage, []string{"--algorithm tree means nothing to --backend nccl"}},
		{"two", nil, []string{"local", "-n", "2", "-c", "ar --backend nccl,ring"}, exit.Usage, []string{"expected one back end"}},
		{"auto and another", nil, []string{"bench", "all-reduce", "-n", "2", "--backend", "auto,ring"}, exit.Usage, []string{"expected auto alone"}},
		{"none of these", nil, []string{"bench", "all-reduce", "-n", "2", "--backend", "gloo"}, exit.Usage, []string{"expected ring, nccl, rccl, auto"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := byVendors(t, c.variables, c.args...)
			p.start(t)
			code := p.end(t, hung)
			text := strings.Join(strings.Fields(p.stdout.String()+p.stderr.String()), " ")
			for _, want := range c.want {
				if code != c.code || !strings.Contains(text, want) {
					t.Errorf("exit code %d, expected %d and %q in:\n%s%s", code, c.code, want, p.stdout.String(), p.stderr.String())
				}
			}
		})
	}
	t.Run("no library", func(t *testing.T) {
		t.Parallel()
		p := program(t, "bench", "all-reduce", "-n", "2", "--backend", "nccl")
		p.Env = append(p.Env, "LD_LIBRARY_PATH="+t.TempDir())
		p.start(t)
		if code := p.end(t, hung); code != exit.Usage || !strings.Contains(p.stderr.String(), "libnccl.so.2 cannot be loaded") && os.Getenv("RINGTEST_GPU") == "" {
			t.Errorf("exit code %d: %s", code, p.stderr.String())
		}
	})
}

// The self-check proves each operation by a vendor's library, and auto is our ring where there
// is none.
func TestSelfCheckByVendors(t *testing.T) {
	t.Parallel()
	p := byVendors(t, nil, "local", "-n", "2", "-c", "self-check --backend rccl; barrier --backend nccl --iters 2")
	p.start(t)
	if code, text := p.end(t, hung), p.stdout.String(); code != exit.OK || !strings.Contains(text, "5 checks, 0 wrong elements") || strings.Count(text, "rccl") < 6 {
		t.Errorf("exit code %d:\n%s%s", code, text, p.stderr.String())
	}
	p = program(t, "local", "-n", "2", "-c", "ar --backend auto --iters 2 --check")
	p.Env = append(p.Env, "LD_LIBRARY_PATH="+t.TempDir())
	p.start(t)
	if code, text := p.end(t, hung), p.stdout.String(); code != exit.OK || strings.Contains(text, "nccl") {
		t.Errorf("auto without libraries: exit code %d:\n%s%s", code, text, p.stderr.String())
	}
}

// The real NCCL, with one rank, of every operation, type and reduction.
func TestNCCLOnGPU(t *testing.T) {
	gputest.Real(t)
	if code, text, _ := finish(t, "backends", "nccl"); code != exit.OK {
		t.Skip(text)
	}
	var lines []string
	for _, op := range plan.Operations() {
		for _, typ := range reduce.Types() {
			for _, red := range reduce.Ops() {
				if op.Reduces() || red == reduce.Sum {
					lines = append(lines, fmt.Sprintf("%s --backend nccl --type %s --op %s --count 1001 --iters 2 --check", op, typ, red))
				}
			}
		}
	}
	code, stdout, stderr := finish(t, "local", "-n", "1", "-c", strings.Join(append(lines, "barrier --backend nccl", "self-check --backend nccl"), "; "))
	t.Logf("%s%s", stdout, stderr)
	if code != exit.OK {
		t.Errorf("exit code %d", code)
	}
	code, stdout, stderr = finish(t, "bench", "all-reduce", "-n", "1", "--backend", "ring,nccl", "-b", "8K", "-e", "256M", "-f", "4")
	t.Logf("%s%s", stdout, stderr)
	if code != exit.OK {
		t.Errorf("bench: exit code %d", code)
	}
}

// Two ranks on one GPU: NCCL may refuse that, and then says so.
func TestTwoRanksByNCCLOnGPU(t *testing.T) {
	gputest.Real(t)
	if code, text, _ := finish(t, "backends", "nccl"); code != exit.OK {
		t.Skip(text)
	}
	code, stdout, stderr := finish(t, "bench", "all-reduce", "-n", "2", "--backend", "ring,nccl", "-b", "8K", "-e", "256M", "-f", "4")
	t.Logf("%s%s", stdout, stderr)
	if code != exit.OK && !strings.Contains(stderr, "nccl: ncclCommInitRank") {
		t.Errorf("exit code %d", code)
	}
}
