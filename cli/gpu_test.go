package cli

import (
	"slices"
	"strings"
	"testing"

	"ringcli/cli/exit"
	"ringcli/verbs/gpu/gputest"
)

// withGPUs is a ringcli that finds the libraries of gputest, with these variables.
func withGPUs(t *testing.T, variables []string, args ...string) *process {
	t.Helper()
	p := program(t, args...)
	p.Env = append(p.Env, append(variables, "LD_LIBRARY_PATH="+gputest.Build(t))...)
	p.start(t)
	return p
}

func TestDevicesGPUs(t *testing.T) {
	t.Parallel()
	p := withGPUs(t, []string{"RINGTEST_GPU_NOPEER=1", "RINGTEST_GPU_FAIL=hipInit=3"}, "devices", "--gpus", "--output", "json")
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
	for want, variables := range map[string][]string{
		"cuInit: CUDA_ERROR_NO_DEVICE (100)":           {"RINGTEST_GPUS=0"},
		"cuDeviceGetCount: unknown (46)":               {"RINGTEST_GPU_FAIL=cuDeviceGetCount=46,hipGetDeviceCount=46"},
		"device 0: cuDeviceGetName: unknown (999)":     {"RINGTEST_GPU_FAIL=cuDeviceGetName=999,hipInit=3"},
		"hip is not available: device 1: hipDeviceGet": {"RINGTEST_GPU_FAIL=cuInit=3,hipDeviceGet=1@2"},
	} {
		p := withGPUs(t, variables, "devices", "--gpus")
		if code := p.end(t, hung); code != exit.Usage || !strings.Contains(p.stderr.String(), want) {
			t.Errorf("exit code %d: expected %d and %q\n%s", code, exit.Usage, want, p.stderr.String())
		}
	}
}
