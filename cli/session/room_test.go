package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"ringcli/cli/exit"
)

func TestThreadsOfAUser(t *testing.T) {
	proc := t.TempDir()
	for pid, status := range map[int]string{
		7:  "Name:\ta\nUid:\t1000\t1000\t1000\t1000\nThreads:\t3\nSigQ:\t0\n",
		8:  "Name:\tb\nUid:\t1000\t0\t0\t0\nThreads:\t5\nSigQ:\t0\n", // set-uid: the real user counts
		9:  "Name:\tc\nUid:\t100\t1000\t1000\t1000\nThreads:\t50\nSigQ:\t0\n",
		10: "Name:\td\n",
	} {
		dir := filepath.Join(proc, fmt.Sprint(pid))
		if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "status"), []byte(status), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if taken, own := threadsOf(proc, 1000, 8); taken != 8 || own != 5 {
		t.Errorf("%d taken, %d its own; want 8 and 5", taken, own)
	}
	if taken, own := threadsOf("/proc", os.Getuid(), os.Getpid()); own < 1 || taken < own {
		t.Errorf("of this process %d, of its user %d", own, taken)
	}
}

func TestMemoryForRanks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "meminfo")
	if err := os.WriteFile(file, []byte("MemTotal:       24000000 kB\nMemAvailable:   2000000 kB\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := AvailableMemory(file); got != 2000000<<10 {
		t.Errorf("%d bytes available", got)
	}
	if got := AvailableMemory(file + "none"); got != 0 {
		t.Errorf("%d bytes available where nothing says so", got)
	}
	if err := RoomFor(1 << 50 / memoryEach); exit.Code(err) != exit.Usage {
		t.Errorf("ranks of a PiB: %v", err)
	}
}
