package render

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ringcli/cli/exit"
)

func TestWriteFileReplacesFilesOnly(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	err := WriteFile("trace dump", fifo, func(io.Writer) error { t.Error("written"); return nil })
	if exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "trace dump "+fifo) {
		t.Errorf("got %v", err)
	}
	err = WriteFile("trace dump", filepath.Join(dir, "file"), func(io.Writer) error { return io.ErrShortWrite })
	left, readable := os.ReadDir(dir)
	if err == nil || readable != nil || len(left) != 1 || left[0].Name() != "fifo" {
		t.Errorf("got %v, and %v is there", err, left)
	}
}
