// Package trust decides whether a file may configure this process: whether its content and
// its name can come from the effective user and root alone.
package trust

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrUntrusted is wrapped by errors about a file that another user can write or replace.
var ErrUntrusted = errors.New("another user can change it")

// maxLinks is how many symbolic links the kernel follows in one path (MAXSYMLINKS).
const maxLinks = 40

// ReadFile reads a file that only the effective user and root can have written and can have
// put under this name:
//   - The file and each symbolic link to it belong to the effective user or root.
//   - Group and others cannot write to the file.
//   - The directory of the file, and that of each link, belongs to the effective user or
//     root. Group and others cannot write to it either. A sticky directory such as /tmp may
//     be writable, if the file has no other hard link: another user can link a file of root
//     there. A read-only mount may have any mode.
//
// A descriptor that this process got (/dev/stdin, /dev/fd/63) is the choice of whoever
// started the process and is not checked. Errors wrap ErrUntrusted, or are those of os.Open.
func ReadFile(path string) ([]byte, error) {
	// O_NONBLOCK: a FIFO without a writer must not block the open.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if err := check(f, path); err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

// CheckPlace checks the place of a file of this process, which it reads and writes: the file
// as ReadFile does, or the nearest directory that exists, if there is no file yet.
func CheckPlace(path string) error {
	_, err := ReadFile(path)
	for dir := path; errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir); {
		dir = filepath.Dir(dir)
		err = checkDir(dir, nil)
	}
	return err
}

// check checks the name of an open file, then the file. The name stays this file's: the
// check excludes everybody who could change that.
func check(f *os.File, path string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if isDescriptor, err := checkName(path, info); err != nil || isDescriptor {
		return err
	}
	if err := owned(path, info); err != nil {
		return err
	}
	switch mode := info.Mode(); {
	case mode&fs.ModeCharDevice != 0: // /dev/null: what is written there is not read from it
		return nil
	case mode&fs.ModeNamedPipe != 0:
		return fmt.Errorf("%s is a FIFO: expected a regular file", path)
	case mode.Perm()&0o022 != 0:
		return fmt.Errorf("%w: %s has mode %s: expected that only its owner can write: chmod go-w %s", ErrUntrusted, path, mode, path)
	}
	return nil
}

// checkName checks the directory entries that lead to a file: its own, and those of the
// symbolic links in its place.
func checkName(path string, file fs.FileInfo) (isDescriptor bool, err error) {
	for range maxLinks {
		if strings.HasPrefix(path, "/proc/") || strings.HasPrefix(path, "/dev/fd/") {
			return true, nil
		}
		entry, err := os.Lstat(path)
		if err != nil {
			return false, err
		}
		if err := owned(path, entry); err != nil {
			return false, err
		}
		dir := dirOf(path)
		if err := checkDir(dir, file); err != nil {
			return false, err
		}
		if entry.Mode()&fs.ModeSymlink == 0 {
			return false, nil
		}
		target, err := os.Readlink(path)
		if err != nil {
			return false, err
		}
		if path = target; !filepath.IsAbs(target) {
			path = dir + "/" + target
		}
	}
	return false, fmt.Errorf("%s: more than %d symbolic links", path, maxLinks)
}

// dirOf is filepath.Dir without Clean, which resolves "link/.." to the wrong directory.
func dirOf(path string) string {
	switch i := strings.LastIndexByte(path, '/'); {
	case i < 0:
		return "."
	case i == 0:
		return "/"
	default:
		return path[:i]
	}
}

// checkDir checks the directory of a file; file is nil if there is none yet.
func checkDir(dir string, file fs.FileInfo) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if err := owned("its directory "+dir, info); err != nil {
		return err
	}
	switch mode := info.Mode(); {
	case mode.Perm()&0o022 == 0, readOnly(dir):
	case mode&fs.ModeSticky == 0:
		return fmt.Errorf("%w: its directory %s has mode %s: expected that only its owner can write: chmod go-w %s", ErrUntrusted, dir, mode, dir)
	case file != nil && file.Sys().(*syscall.Stat_t).Nlink != 1:
		return fmt.Errorf("%w: its directory %s has mode %s, and the file has several names (hard links): expected one", ErrUntrusted, dir, mode)
	}
	return nil
}

// readOnly tells whether a directory is on a read-only mount, whose mode then means nothing:
// Kubernetes mounts a ConfigMap read-only with mode 0777.
func readOnly(dir string) bool {
	var about unix.Statfs_t
	return unix.Statfs(dir, &about) == nil && about.Flags&unix.ST_RDONLY != 0
}

// owned refuses an owner who is neither the effective user nor root.
func owned(what string, info fs.FileInfo) error {
	uid := info.Sys().(*syscall.Stat_t).Uid
	if uid == 0 || uid == uint32(os.Geteuid()) {
		return nil
	}
	return fmt.Errorf("%w: %s belongs to user %d: expected user %d or root", ErrUntrusted, what, uid, os.Geteuid())
}
