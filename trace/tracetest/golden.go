package tracetest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Golden compares with a file in testdata.
func Golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("differs from %s (UPDATE_GOLDEN=1 writes it anew)\ngot\n%s\nwant\n%s", path, got, want)
	}
}
