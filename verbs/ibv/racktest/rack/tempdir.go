//go:build linux

package rack

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const tempPattern = "ringcli-rack-*"

// tempDir makes a directory that is known for abandoned when its process has died:
// its lock (flock(2)) goes with the process. It removes those of earlier runs.
// Closing the file gives up the lock.
func tempDir() (string, *os.File, error) {
	sweep()
	// A sweep of another process can take a directory between its making and its
	// locking; then the next one is made.
	for range 100 {
		dir, err := os.MkdirTemp("", tempPattern)
		if err != nil {
			return "", nil, err
		}
		lock, err := lockDir(dir)
		if err != nil {
			continue
		}
		var info unix.Stat_t
		if err := unix.Fstat(int(lock.Fd()), &info); err == nil && info.Nlink > 0 {
			return dir, lock, nil
		}
		_ = lock.Close()
	}
	return "", nil, fmt.Errorf("no directory in %s can be made and locked", os.TempDir())
}

// sweep removes the directories whose process has died.
func sweep() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), tempPattern))
	for _, dir := range dirs {
		if lock, err := lockDir(dir); err == nil {
			_ = os.RemoveAll(dir)
			_ = lock.Close()
		}
	}
}

func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
