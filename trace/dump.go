package trace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// DumpFormat is how a recording is written.
type DumpFormat string

// The formats of dumps. Both are read back by Read.
const (
	DumpChrome DumpFormat = "chrome" // Chrome/Perfetto JSON: open it at https://ui.perfetto.dev
	DumpLines  DumpFormat = "lines"  // JSON lines: a header, then an event a line
)

// WriteRecordings writes recordings to w as one file, in Chrome's format with an
// arrow for each flow.
func WriteRecordings(w io.Writer, format DumpFormat, list []Recording, flows ...Flow) error {
	switch format {
	case DumpChrome:
		return writeChrome(w, list, flows)
	case DumpLines:
		return writeLines(w, list)
	}
	return fmt.Errorf("trace: unknown dump format %q, known are %s and %s", format, DumpChrome, DumpLines)
}

// DirVar names the environment variable with the directory for dumps of
// failures; the default is os.TempDir().
const DirVar = "RINGCLI_TRACE_DIR"

// A failure makes others: what a rank, its ring and its command report within
// this time is one, and has one file.
const sameFailure = 2 * time.Second

// maxFailureFiles is how many files of failures one process leaves: the newest.
const maxFailureFiles = 16

var failures struct {
	sync.Mutex // held while a file is written, so that a second caller waits for its name
	last       time.Time
	files      []string // written by this process, the oldest first
}

// DumpOnFailure writes the flight recorder to a new file and returns its path.
// One failure has one file: a call within 2 s of the last returns that one's
// path. A process leaves the newest 16. The file is in Chrome's format, lies
// in $RINGCLI_TRACE_DIR or os.TempDir(), and is for its owner alone, since
// printed events have host names and addresses.
func DumpOnFailure(reason string) (path string, err error) {
	failures.Lock()
	defer failures.Unlock()
	if n := len(failures.files); n > 0 && time.Since(failures.last) < sameFailure {
		return failures.files[n-1], nil
	}
	r := Record()
	r.Reason = reason
	f, err := createDump(&r)
	if err == nil {
		err = errors.Join(WriteRecordings(f, DumpChrome, []Recording{r}), f.Close())
		if err != nil {
			_ = os.Remove(f.Name()) // half a file is of no use; the error says why there is none
		}
	}
	if err != nil {
		return "", fmt.Errorf("trace: flight recorder not written: %w (%s chooses another directory)", err, DirVar)
	}
	failures.last = time.Now()
	failures.files = append(failures.files, f.Name())
	if len(failures.files) > maxFailureFiles {
		_ = os.Remove(failures.files[0]) // somebody may have moved it
		failures.files = failures.files[1:]
	}
	return f.Name(), nil
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
