package trace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// DirVar names the environment variable with the directory for dumps of
// failures; the default is os.TempDir().
const DirVar = "RINGCLI_TRACE_DIR"

// A failure makes others: what a rank, its ring and its command report within
// this time is one, and has one file.
const sameFailure = 2 * time.Second

// Files of failures that are left in a directory: the newest, at most so many and with
// so many bytes together. One is some 10 MB at most, by the size of the recorder; 64 are
// those of a ring of 8 ranks that has failed 8 times.
const (
	maxFailureFiles = 64
	maxFailureBytes = 128 << 20
)

var failures struct {
	sync.Mutex // held while a file is written, so that a second caller waits for its name
	at         time.Time
	last       string // the last file that this process has written
}

// DumpOnFailure writes the flight recorder to a new file and returns its path.
// One failure has one file: a call within 2 s of the last returns that one's
// path. Older files of this user's failures make room. The file is in Chrome's
// format, lies in $RINGCLI_TRACE_DIR or os.TempDir(), and is for its owner alone,
// since printed events have host names and addresses.
func DumpOnFailure(reason string) (path string, err error) {
	failures.Lock()
	defer failures.Unlock()
	if failures.last != "" && time.Since(failures.at) < sameFailure {
		return failures.last, nil
	}
	r := Record()
	r.Reason = reason
	f, err := createDump(&r)
	if err == nil {
		err = errors.Join(WriteRecordings(f, []Recording{r}), f.Close())
		if err != nil {
			_ = os.Remove(f.Name()) // half a file is of no use; the error says why there is none
		}
	}
	if err != nil {
		return "", fmt.Errorf("trace: flight recorder not written: %w (%s chooses another directory)", err, DirVar)
	}
	failures.at, failures.last = time.Now(), f.Name()
	makeRoom(filepath.Dir(f.Name()))
	return f.Name(), nil
}

// makeRoom removes the oldest files of this user's failures in a directory. Ranks that
// fail together do so at the same time, each after its own file is whole.
func makeRoom(dir string) {
	names, _ := filepath.Glob(filepath.Join(dir, "ringcli-*rank*-*-*T*Z.trace.json")) // the pattern is well formed
	stamp := func(name string) string { return name[strings.LastIndexByte(name, '-'):] }
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(stamp(b), stamp(a)) })
	files, bytes := 0, int64(0)
	for _, name := range names {
		info, err := os.Lstat(name)
		if err != nil || !info.Mode().IsRegular() || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
			continue
		}
		if files, bytes = files+1, bytes+info.Size(); files > 1 && (files > maxFailureFiles || bytes > maxFailureBytes) {
			_ = os.Remove(name) // another rank may have done so
		}
	}
}

func createDump(r *Recording) (*os.File, error) {
	dir := os.Getenv(DirVar)
	if dir == "" {
		dir = os.TempDir()
	}
	rank := "norank"
	if r.Rank >= 0 {
		rank = fmt.Sprintf("rank%d", r.Rank)
	}
	name := fmt.Sprintf("ringcli-%s-%d-%s.trace.json", rank, r.PID, r.Written.UTC().Format("20060102T150405.000000000Z"))
	// O_EXCL: in a directory for all, nobody may have put a link there.
	return os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// ErrFile is wrapped by errors about files that are no recordings.
var ErrFile = errors.New("trace: not a recording of ringcli")

// ReadFile reads the recordings of the file at path.
func ReadFile(path string) ([]Recording, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	list, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range list {
		list[i].Source = path
	}
	return list, nil
}
