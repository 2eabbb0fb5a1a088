// Package nccltest builds libraries with the interface of NCCL, from C source of our own.
package nccltest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

//go:embed testdata/nccl.c
var code []byte

// Sonames are the names under which Build makes the library: on CUDA's memory, and on HIP's.
var Sonames = []string{"libnccl.so.2", "librccl.so.1"}

// Build compiles the library under the names that are given, and returns its folder, for
// LD_LIBRARY_PATH. What it can be told by the environment testdata/nccl.c says. It skips the
// test where there is no C compiler.
func Build(t testing.TB, sonames ...string) (dir string) { return build(t, nil, sonames) }

// BuildOld is Build of a library as it was before 2.13: every call blocks.
func BuildOld(t testing.TB, sonames ...string) (dir string) {
	return build(t, []string{"-DOLD"}, sonames)
}

func build(t testing.TB, flags, sonames []string) (dir string) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("no C compiler (Debian: gcc libc6-dev): %v", err)
	}
	source := filepath.Join(t.TempDir(), "nccl.c")
	if err := os.WriteFile(source, code, 0o600); err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for _, soname := range sonames {
		args := append([]string{"-shared", "-fPIC", "-fvisibility=hidden", "-O1", "-Wall", "-Werror", "-Wl,-soname," + soname, "-o", filepath.Join(dir, soname)}, flags...)
		if soname == Sonames[1] {
			args = append(args, "-DHIP")
		}
		out, err := exec.CommandContext(t.Context(), cc, append(args, source, "-lpthread", "-ldl")...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", soname, err, out)
		}
	}
	return dir
}
