// Package nccltest builds libraries with the interface of NCCL, from C source of our own.
package nccltest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The variables that say what the libraries do.
const (
	// Report names a file to which each process adds what it finds in its environment, as
	// NAME=value, when it is asked for its version.
	Report = "NCCLTEST_REPORT"
)

//go:embed testdata/nccl.c
var code []byte

// Sonames are the names under which Build makes the library.
var Sonames = []string{"libnccl.so.2", "librccl.so.1"}

// Build compiles the library under the names that are given, and returns its folder, for
// LD_LIBRARY_PATH. It skips the test where there is no C compiler.
func Build(t testing.TB, sonames ...string) (dir string) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skipf("no C compiler: %v", err)
	}
	source := filepath.Join(t.TempDir(), "nccl.c")
	if err := os.WriteFile(source, code, 0o600); err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for _, soname := range sonames {
		file := filepath.Join(dir, soname)
		out, err := exec.Command(cc, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-Wl,-soname,"+soname, "-o", file, source, "-lpthread").CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", soname, err, out)
		}
	}
	return dir
}
