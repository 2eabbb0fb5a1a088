// Package gputest builds, for tests, libraries with the ABI of NVIDIA's and AMD's runtimes on the
// host's memory. testdata/gpu.c says what they can be told by variables of the environment; the
// kernels that they run are in testdata/kernels.c.
package gputest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// Build builds libcuda.so.1, libamdhip64.so.7, libhiprtc.so.7 and libhsa-runtime64.so.1, and
// returns their folder, for LD_LIBRARY_PATH of a child: a process reads it at its start alone.
// more are the files of further kernels in C, as testdata/gpu.h has them: its more_kernels.
func Build(t testing.TB, more ...string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("no C compiler (Debian: gcc libc6-dev): %v", err)
	}
	_, file, _, _ := runtime.Caller(0)
	sources, dir := filepath.Join(filepath.Dir(file), "testdata"), t.TempDir()
	code := []string{"gpu.c", "kernels.c"}
	for _, file := range more {
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		code = append(code, path)
	}
	for name, args := range map[string][]string{
		"libcuda.so.1":          code,
		"libamdhip64.so.7":      append([]string{"-DHIP"}, code...),
		"libhiprtc.so.7":        {"hiprtc.c"},
		"libhsa-runtime64.so.1": {"hsa.c"},
	} {
		args = append([]string{"-shared", "-fPIC", "-fvisibility=hidden", "-O1", "-Wall", "-Wno-unused-parameter", "-Werror", "-ffp-contract=off", "-I", ".", "-o", filepath.Join(dir, name)}, args...)
		build := exec.CommandContext(t.Context(), cc, append(args, "-lpthread")...)
		build.Dir = sources
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", build, err, out)
		}
	}
	return dir
}

// Real skips a test that wants a real GPU unless it was asked for, as `make test-gpu` does. Such a
// test is called ...OnGPU, and skips with what Load says where there is none.
func Real(t testing.TB) {
	t.Helper()
	if os.Getenv("RINGTEST_GPU") != "1" {
		t.Skip("it wants a real GPU: `make test-gpu` runs it")
	}
}
