package cli

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ringcli/cli/exit"
	"ringcli/collective/reduce"
	"ringcli/verbs/gpu"
	"ringcli/verbs/gpu/gputest"
	"ringcli/verbs/verbstest"
)

// lasting is a test whose folder stays for the others.
type lasting struct{ testing.TB }

func (l lasting) TempDir() string {
	dir, err := os.MkdirTemp(os.Getenv("RINGCLI_TRACE_DIR"), "") // which TestMain removes
	if err != nil {
		l.Fatal(err)
	}
	return dir
}

// testGPUs are gputest's libraries, with our kernels in C.
var testGPUs struct {
	once sync.Once
	dir  string
}

// onDevices is a ringcli that has not been started and finds them, with these variables.
func onDevices(t *testing.T, variables []string, args ...string) *process {
	t.Helper()
	testGPUs.once.Do(func() {
		testGPUs.dir = gputest.Build(lasting{t}, "../collective/gpu/kernels/testdata/gputest.c")
	})
	if testGPUs.dir == "" {
		t.Skip("gputest was not built, as another test says")
	}
	p := program(t, args...)
	p.Env = append(p.Env, append(variables, "LD_LIBRARY_PATH="+testGPUs.dir)...)
	return p
}

// finishOn runs it to its end, and returns its JSON.
func finishOn(t *testing.T, variables []string, want int, args ...string) []map[string]any {
	t.Helper()
	p := onDevices(t, variables, append(args, "--output", "json")...)
	p.start(t)
	if code := p.end(t, hung); code != want {
		t.Fatalf("exit code %d, expected %d\n%s%s", code, want, p.stdout.String(), p.stderr.String())
	}
	return objects(t, p.stdout.String())
}

// TestMemoryOfDevices: all-reduce goes from device to device, by recursive doubling up to 32 KiB
// and round the ring above, in place and not, for ranks that are no power of two, too.
func TestMemoryOfDevices(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	for ranks, place := range map[int]string{1: "cuda:0", 2: "hip:1", 3: "cuda:1", 4: "cuda:0", 6: "hip:0"} {
		rows := 0
		for _, o := range finishOn(t, nil, exit.OK, "bench", "all-reduce", "-n", strconv.Itoa(ranks), "--memory", place, "-b", "4", "-e", "128K", "-f", "32", "--iters", "3", "--op", "avg") {
			if o["command"] != "all-reduce" {
				continue
			}
			rows++
			algorithm := "ring"
			if o["bytes"].(float64) <= 32<<10 {
				algorithm = "recursive-doubling"
			}
			if o["memory"] != place || o["path"] != "ipc" || o["path_why"] != nil || o["wrong"] != 0.0 || o["algorithm"] != algorithm {
				t.Errorf("%d ranks: %v: expected memory of %s by ipc and %s, nothing wrong", ranks, o, place, algorithm)
			}
		}
		if rows != 8 {
			t.Errorf("%d ranks: %d rows, expected 8", ranks, rows)
		}
	}
}

// TestMemoryKernels has every kernel at work, on vectors that the ranks divide and that they do
// not, so that chunks begin anywhere.
func TestMemoryKernels(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	var lines []string
	for _, typ := range []reduce.Type{reduce.Float32, reduce.Float64, reduce.Int32, reduce.Int64} {
		for _, op := range reduce.Ops() {
			for _, count := range []string{"1", "1021", "20011 --in-place"} {
				lines = append(lines, fmt.Sprintf("all-reduce --memory cuda:0 --type %s --op %s --count %s --iters 1 --warmup 0 --check", typ, op, count))
			}
		}
	}
	measured := 0
	for _, o := range finishOn(t, nil, exit.OK, "local", "-n", "3", "-c", strings.Join(lines, "; ")) {
		if o["command"] != "all-reduce" {
			continue
		}
		if measured++; o["path"] != "ipc" || o["wrong"] != 0.0 {
			t.Errorf("%v: expected ipc, nothing wrong", o)
		}
	}
	if measured != len(lines) {
		t.Errorf("%d measurements, expected %d", measured, len(lines))
	}
}

// TestMemoryStaged: what has no path between the devices goes through the host, and it is said why.
func TestMemoryStaged(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	staged := func(why string, variables []string, line string) {
		t.Helper()
		rows := 0
		for _, o := range finishOn(t, variables, exit.OK, "local", "-n", "3", "-c", line+" --memory cuda:0 --size 100K --iters 2 --check") {
			if o["memory"] == nil {
				continue
			}
			rows++
			if text, _ := o["path_why"].(string); o["path"] != "staged" || o["wrong"] != 0.0 || !strings.Contains(text, why) {
				t.Errorf("%s: %v: expected staged since %s, nothing wrong", line, o, why)
			}
		}
		if rows != 1 {
			t.Errorf("%s: %d rows of a GPU's memory, expected 1", line, rows)
		}
	}
	for _, op := range []string{"all-gather", "reduce-scatter --in-place", "broadcast --root 2", "reduce --root 1"} {
		name, _, _ := strings.Cut(op, " ")
		staged("all-reduce alone goes from device to device, not "+name, nil, op)
	}
	staged("no kernel ringcli_sum_float16", nil, "all-reduce --type float16")
	staged("eager is a protocol of the queue pairs", nil, "all-reduce --protocol eager")
	staged("tree is an algorithm of the queue pairs", nil, "all-reduce --algorithm tree")
	staged("up to 32768 bytes", nil, "all-reduce --algorithm rd")
	staged("cuIpcOpenMemHandle_v2", []string{"RINGTEST_GPU_FAIL=cuIpcOpenMemHandle_v2=217"}, "all-reduce")
	staged("cuStreamWaitValue32_v2", []string{"RINGTEST_GPU_FAIL=cuStreamWaitValue32_v2=801"}, "all-reduce")
	staged("cuModuleLoadDataEx", []string{"RINGTEST_GPU_FAIL=cuModuleLoadDataEx=218"}, "all-reduce")
}

// ranksOn starts a rank on each of the places, of a bench that goes on.
func ranksOn(t *testing.T, variables []string, places []string, args ...string) []*process {
	t.Helper()
	list := freshList(t, len(places))
	var all []*process
	for i, place := range places {
		p := onDevices(t, variables, append([]string{"bench", "all-reduce", "--index", strconv.Itoa(i), "--list", strings.Join(list, ","), "--memory", place, "--output", "json"}, args...)...)
		p.start(t)
		all = append(all, p)
	}
	return all
}

// TestMemoryOfPairs: each rank may have a device of its own. Those that do not reach each other
// are named, and their operations staged.
func TestMemoryOfPairs(t *testing.T) {
	t.Parallel()
	for want, variables := range map[string][]string{
		"": nil,
		"rank 0 (cuda:0) and rank 1 (cuda:1) do not reach each other's memory": {"RINGTEST_GPU_NOPEER=1"},
	} {
		all := ranksOn(t, variables, []string{"cuda:0", "cuda:1", "cuda:0"}, "-b", "1K", "-e", "64K", "-f", "64", "--iters", "2")
		for i, p := range all {
			if code := p.end(t, hung); code != exit.OK {
				t.Fatalf("rank %d: exit code %d\n%s%s", i, code, p.stdout.String(), p.stderr.String())
			}
		}
		for _, o := range objects(t, all[0].stdout.String()) {
			if why, _ := o["path_why"].(string); o["command"] == "all-reduce" && (why != want || o["wrong"] != 0.0) {
				t.Errorf("%v: expected why %q, nothing wrong", o, want)
			}
		}
	}
}

// TestMemoryOfNoDevice: a library, a device or its memory that is missing is told on all ranks.
func TestMemoryOfNoDevice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want      string
		variables []string
		args      []string
	}{
		{"cuda is not available: libcuda.so.1 cannot be loaded", []string{"LD_LIBRARY_PATH="}, []string{"bench", "all-reduce", "-n", "2", "--memory", "cuda:0"}},
		{"device 7 of 2: expected 0 to 1", nil, []string{"local", "-n", "2", "-c", "all-gather --memory cuda:7"}},
		{"CUDA_ERROR_OUT_OF_MEMORY", []string{"RINGTEST_GPU_FAIL=cuMemAlloc_v2=2@2"}, []string{"bench", "all-reduce", "-n", "2", "--memory", "cuda:0", "-b", "1K"}},
	} {
		p := onDevices(t, nil, c.args...)
		p.Env = append(p.Env, c.variables...)
		p.start(t)
		if code := p.end(t, hung); code != exit.Usage || !strings.Contains(p.stderr.String(), c.want) {
			t.Errorf("%q: exit code %d: expected %d and %q\n%s", c.args, code, exit.Usage, c.want, p.stderr.String())
		}
	}
}

// TestMemoryOfStuckDevice: at the deadline the rank is named whose device does not come on, and the
// ranks that wait for it end, too.
func TestMemoryOfStuckDevice(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	list := freshList(t, 3)
	var all []*process
	for i := range list {
		p := onDevices(t, nil, "bench", "all-reduce", "--index", strconv.Itoa(i), "--list", strings.Join(list, ","), "--memory", "cuda:0", "--timeout", "5s", "-b", "64K", "-e", "64K", "--output", "json")
		if i == 1 {
			p.Env = append(p.Env, "RINGTEST_GPU_STUCK=7")
		}
		p.start(t)
		all = append(all, p)
	}
	for i, p := range all {
		if code := p.end(t, hung); code != exit.Critical || !strings.Contains(p.stdout.String(), "rank 1's device has not done its own work") {
			t.Errorf("rank %d: exit code %d: expected %d and rank 1\n%s%s", i, code, exit.Critical, p.stdout.String(), p.stderr.String())
		}
	}
}

// TestMemoryOfLostRank: a rank that is killed while devices wait for it ends the others, which name
// it.
func TestMemoryOfLostRank(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	all := ranksOn(t, nil, []string{"cuda:0", "cuda:0", "cuda:0"}, "-b", "256K", "-e", "256K", "--duration", "5m")
	time.Sleep(2 * time.Second)
	_ = all[1].Process.Signal(syscall.SIGKILL)
	for _, rank := range []int{0, 2} {
		p := all[rank]
		if code := p.end(t, hung); code != exit.Critical || !strings.Contains(p.stdout.String(), "rank 1") {
			t.Errorf("rank %d: exit code %d: expected %d and rank 1\n%s%s", rank, code, exit.Critical, p.stdout.String(), p.stderr.String())
		}
	}
}

// TestAllReduceOnGPU: two and four ranks on one real GPU, from 8 KiB to 256 MiB, every element
// checked; the tables are logged.
func TestAllReduceOnGPU(t *testing.T) {
	gputest.Real(t)
	for _, kind := range gpu.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			if _, err := gpu.Load(kind); err != nil {
				t.Skip(err)
			}
			for _, ranks := range []string{"2", "4"} {
				for _, operation := range []string{"all-reduce", "all-gather"} {
					code, stdout, stderr := finish(t, "bench", operation, "-n", ranks, "--memory", kind.String()+":0", "-b", "8K", "-e", "256M", "-f", "8")
					t.Logf("%s%s", stdout, stderr)
					if code != exit.OK {
						t.Errorf("%s on %s ranks: exit code %d", operation, ranks, code)
					}
				}
			}
		})
	}
}
