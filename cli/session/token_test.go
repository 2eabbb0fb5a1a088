package session

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A pipe is refused at once, though nobody writes to it.
func TestATokenFileIsNoPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readToken(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("it is read with %v", err)
	}
}
