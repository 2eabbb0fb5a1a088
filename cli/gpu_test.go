package cli

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringcli/cli/exit"
	"ringcli/verbs/gpu/gputest"
	"ringcli/verbs/verbstest"
)

// withGPUs is a ringcli that finds the libraries that gputest has built in a folder, with these
// variables.
func withGPUs(t *testing.T, folder string, variables []string, args ...string) *process {
	t.Helper()
	p := program(t, args...)
	p.Env = append(p.Env, append(variables, "LD_LIBRARY_PATH="+folder)...)
	p.start(t)
	return p
}

func TestDevicesGPUs(t *testing.T) {
	t.Parallel()
	folder := gputest.Build(t)
	p := withGPUs(t, folder, []string{"RINGTEST_GPU_NOPEER=1", "RINGTEST_GPU_FAIL=hipInit=3"}, "devices", "--gpus", "--output", "json")
	if code := p.end(t, hung); code != exit.OK {
		t.Fatalf("exit code %d: %s%s", code, p.stdout.String(), p.stderr.String())
	}
	var told []string
	for _, o := range objects(t, p.stdout.String()) {
		switch {
		case o["runtime"] == "hip":
			if reason, _ := o["reason"].(string); o["ok"] != false || !strings.Contains(reason, "hipInit: hipErrorUnknown (3)") {
				t.Errorf("%v: expected why HIP did not start", o)
			}
		case o["peers"] != nil:
			for _, peer := range o["peers"].([]any) {
				if of := peer.(map[string]any); of["gpu"] != o["gpu"] && (of["access"] != false || o["ok"] != false) {
					t.Errorf("%v: expected no access to %v", o, of["gpu"])
				}
			}
			fallthrough
		default:
			told = append(told, o["command"].(string))
		}
	}
	if len(told) != 5 || slices.ContainsFunc(told, func(c string) bool { return c != "devices" }) {
		t.Errorf("%q: expected a runtime, two GPUs and what joins each\n%s", told, p.stdout.String())
	}
}

// Without a library, without its functions, or without a GPU, it is said what is missing.
func TestNoGPUs(t *testing.T) {
	t.Parallel()
	folder := gputest.Build(t)
	for want, variables := range map[string][]string{
		"cuInit: CUDA_ERROR_NO_DEVICE (100)":           {"RINGTEST_GPUS=0"},
		"cuDeviceGetCount: unknown (46)":               {"RINGTEST_GPU_FAIL=cuDeviceGetCount=46,hipGetDeviceCount=46"},
		"device 0: cuDeviceGetName: unknown (999)":     {"RINGTEST_GPU_FAIL=cuDeviceGetName=999,hipInit=3"},
		"hip is not available: device 1: hipDeviceGet": {"RINGTEST_GPU_FAIL=cuInit=3,hipDeviceGet=1@2"},
	} {
		p := withGPUs(t, folder, variables, "devices", "--gpus")
		if code := p.end(t, hung); code != exit.Usage || !strings.Contains(p.stderr.String(), want) {
			t.Errorf("exit code %d: expected %d and %q\n%s", code, exit.Usage, want, p.stderr.String())
		}
	}
}

// TestLabD: every byte goes through the memory of a GPU, within one process and between two.
func TestLabD(t *testing.T) {
	t.Parallel()
	folder := gputest.Build(t)
	for _, memory := range []string{"cuda:1", "hip:0"} {
		p := withGPUs(t, folder, nil, words("lab d --device soft:lo --output json --memory "+memory)...)
		if code := p.end(t, hung); code != exit.OK {
			t.Fatalf("exit code %d: %s%s", code, p.stdout.String(), p.stderr.String())
		}
		steps, summary := labSteps(t, p.stdout.String())
		if len(steps) != 13 || summary["ok"] != true || summary["lab"] != "d" {
			t.Fatalf("%d steps, %v", len(steps), summary)
		}
		for _, end := range []string{"values", "peer"} {
			if valueAt(steps[3], end, "path") != "staged" || !strings.Contains(valueAt(steps[3], end, "not"), "made in software") || valueAt(steps[3], end, "memory") != memory {
				t.Errorf("%v: expected the path, and why no better one is taken", steps[3])
			}
		}
		for _, step := range steps[9:] {
			if valueAt(step, "values", "verified")+valueAt(step, "peer", "verified") != "8192 bytes in "+memory {
				t.Errorf("%v: not verified: %v", step["name"], step)
			}
		}
	}
	list := strings.Join(freshList(t, 2), ",")
	var ends [2]*process
	for rank := range ends {
		ends[rank] = withGPUs(t, folder, []string{"RINGTEST_GPU_SLOW=2000"}, words("lab d --device shm --size 100000 --output json --memory cuda:"+strconv.Itoa(rank)+" --list "+list+" --index "+strconv.Itoa(rank))...)
	}
	for rank, p := range ends {
		if code := p.end(t, hung); code != exit.OK {
			t.Fatalf("rank %d: exit code %d: %s%s", rank, code, p.stdout.String(), p.stderr.String())
		}
		if steps, summary := labSteps(t, p.stdout.String()); len(steps) != 12 || summary["ok"] != true {
			t.Errorf("rank %d: %d steps, summary %v", rank, len(steps), summary)
		}
	}
}

// A lab that waits ends by Ctrl-C as it does without a GPU, though the runtime's start has
// installed handlers of its own.
func TestLabDInterrupted(t *testing.T) {
	t.Parallel()
	list := freshList(t, 2)
	p := withGPUs(t, gputest.Build(t), []string{"RINGTEST_GPU_SIGNALS=1"}, words("lab d --device soft:lo --index 0 --list "+strings.Join(list, ","))...)
	dialUntil(t, list[0])
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t, hung); code != exit.Interrupted {
		t.Errorf("exit code %d: expected %d\n%s", code, exit.Interrupted, p.stderr.String())
	}
}

func TestLabDRefuses(t *testing.T) {
	t.Parallel()
	folder := gputest.Build(t)
	for line, want := range map[string]string{
		"lab d --memory host":                     "expected a GPU, such as cuda:0 or hip:0",
		"lab d --memory cuda:7":                   "device 7 of 2: expected 0 to 1",
		"lab d --memory gpu0":                     "expected host, or a GPU such as cuda:0",
		"lab c --memory cuda:0":                   "lab c is on the host's memory",
		"lab d --index 0":                         "no server list",
		"lab b --memory cuda:0":                   "lab b --memory",
		"lab d --memory hip:0 --list a,b":         "no index",
		"lab d --memory hip:0 --list a --index 1": "the list has 1",
	} {
		p := withGPUs(t, folder, nil, words(line)...)
		if code := p.end(t, hung); code != exit.Usage || !strings.Contains(p.stderr.String(), want) {
			t.Errorf("%s: exit code %d: expected %d and %q\n%s", line, code, exit.Usage, want, p.stderr.String())
		}
	}
	p := withGPUs(t, folder, []string{"RINGTEST_GPUS=0"}, "lab", "d")
	if code := p.end(t, hung); code != exit.Usage || !strings.Contains(p.stderr.String(), "lab d: no GPU: cuda is not available") || !strings.Contains(p.stderr.String(), "hip is not available") {
		t.Errorf("exit code %d: expected %d, and why\n%s", code, exit.Usage, p.stderr.String())
	}
}

// TestLabDOnGPU: the lab on whatever real GPU there is, over soft and shared memory.
func TestLabDOnGPU(t *testing.T) {
	gputest.Real(t)
	for _, device := range []string{"soft:lo", "shm"} {
		p := launch(t, words("lab d --output json --size 1M --device "+device)...)
		switch code := p.end(t, hung); code {
		case exit.Usage:
			t.Skip(p.stdout.String() + p.stderr.String())
		case exit.OK:
			steps, _ := labSteps(t, p.stdout.String())
			t.Logf("%s: %v", device, steps[3]["values"])
		default:
			t.Errorf("%s: exit code %d: %s%s", device, code, p.stdout.String(), p.stderr.String())
		}
	}
}

// What a bench writes and reads passes the memory of GPUs at both ends, and is compared; the report
// says how that is reached.
func TestTransportBenchOfGPUs(t *testing.T) {
	t.Parallel()
	folder := gputest.Build(t)
	for _, memory := range []string{"cuda:1", "hip:0"} {
		p := withGPUs(t, folder, nil, words("transport bench --device soft:lo -b 5000 -e 20000 --benchmark_min_time=3x --output json --memory "+memory)...)
		timer := time.AfterFunc(hung, func() { _ = p.Process.Kill() })
		defer timer.Stop()
		_ = p.Wait() // the state says it
		var report struct {
			Context    map[string]any
			Benchmarks []map[string]any
		}
		if err := json.Unmarshal(p.stdout.Bytes(), &report); err != nil || p.ProcessState.ExitCode() != exit.OK {
			t.Fatalf("%s: %v\n%s%s", p.ProcessState, err, p.stdout.String(), p.stderr.String())
		}
		for _, end := range []string{"memory", "server_memory"} {
			if text, _ := report.Context[end].(string); !strings.HasPrefix(text, memory+", staged (dma-buf, peer memory: soft:lo is made in software") {
				t.Errorf("%s is %q: expected the GPU, and how it is reached", end, text)
			}
		}
		if len(report.Benchmarks) != 18 {
			t.Errorf("%d rows: expected 18", len(report.Benchmarks))
		}
	}
	for line, want := range map[string]string{
		"transport bench --memory cuda:5": "device 5 of 2",
		"transport serve --memory disk":   "expected host, or a GPU",
	} {
		p := withGPUs(t, folder, nil, words(line)...)
		if code := p.end(t, hung); code != exit.Usage || !strings.Contains(p.stderr.String(), want) {
			t.Errorf("%s: exit code %d: expected %d and %q\n%s", line, code, exit.Usage, want, p.stderr.String())
		}
	}
}

// A GPU that does nothing any more is told of in time, with what it was to do. What a bench
// starts for itself has as long to start.
func TestHungGPU(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	folder := gputest.Build(t)
	for line, want := range map[string]string{
		"lab d --device soft:lo --memory cuda:0":                                                         "copy of 8192 bytes from the host: awaited work on cuda:0: timed out after 5s",
		"transport bench --device soft:lo --memory hip:0 -b 5000 -e 5000 --benchmark_filter BM_Memcpy":   "copy of 5000 bytes within it: awaited work on hip:0: timed out after 5s",
		"transport bench --device soft:lo --memory cuda:0 -b 5000 -e 5000 --benchmark_filter _Write/":    "copy of 5000 bytes from the host: awaited work on cuda:0: timed out after 5s",
		"transport bench --device soft:lo --memory cuda:0 -b 5000 -e 5000 --benchmark_filter _RoundTrip": "copy of 5000 bytes from the host: awaited work on cuda:0: timed out after 5s",
	} {
		p := withGPUs(t, folder, []string{"RINGTEST_GPU_HUNG=1"}, words(line+" --timeout 5s")...)
		code := p.end(t, hung)
		if text := strings.Join(strings.Fields(p.stdout.String()+p.stderr.String()), " "); code != exit.Critical || !strings.Contains(text, want) {
			t.Errorf("%s: exit code %d: expected %d and %q\n%s%s", line, code, exit.Critical, want, p.stdout.String(), p.stderr.String())
		}
	}
}

// TestTransportOnGPU: the transport's table with the memory of whatever real GPU there is.
func TestTransportOnGPU(t *testing.T) {
	gputest.Real(t)
	for _, memory := range []string{"cuda:0", "hip:0"} {
		t.Run(memory, func(t *testing.T) {
			p := launch(t, words("transport bench --device shm --memory "+memory)...)
			switch code := p.end(t, hung); code {
			case exit.Usage:
				t.Skip(p.stderr.String())
			case exit.OK:
				t.Log(p.stdout.String())
			default:
				t.Errorf("exit code %d: %s%s", code, p.stdout.String(), p.stderr.String())
			}
		})
	}
}
