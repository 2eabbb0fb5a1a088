package ledger

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"gopkg.in/natefinch/lumberjack.v2"

	"ringcli/trace"
)

// logsKept is how many files of former lines are kept beside a log file.
const logsKept = 5

// apart is the time between two files that are put aside: lumberjack names them by the
// millisecond, and one of the same would take the place of the other.
const apart = time.Millisecond

// begins is how much is shown of a line that is left out: enough to tell which it was.
const begins = 200

// journal is a log file: an object of JSON a line, as slog writes it. It is written as
// things happen, and put aside when it is full. It is safe for concurrent use.
type journal struct {
	*slog.Logger // to the file

	mu      sync.Mutex // guards what follows
	file    *lumberjack.Logger
	named   bool         // the file has its name
	pending bytes.Buffer // what came before that
	since   int          // bytes written since the last pause
	wrote   time.Time    // the last line
	closed  bool
	broken  error // why a line was not written, the first time
}

// newJournal returns one whose file is put aside after so many MiB.
func newJournal(mebibytes int) *journal {
	j := &journal{file: &lumberjack.Logger{MaxSize: mebibytes, MaxBackups: logsKept}}
	j.Logger = slog.New(trace.NewJSONHandler(j))
	return j
}

// name says what the file is called, once; until then lines wait.
func (j *journal) name(path string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.named {
		return
	}
	j.named, j.file.Filename = true, path
	for line := range bytes.Lines(j.pending.Bytes()) {
		j.put(line)
	}
	j.pending = bytes.Buffer{}
}

// put writes a line to the file. In the place of one that no file has room for it writes that
// there was one. It needs the lock.
func (j *journal) put(line []byte) {
	if len(line) > j.file.MaxSize<<20 { // which lumberjack refuses
		var b bytes.Buffer
		slog.New(trace.NewJSONHandler(&b)).Warn("a line is left out, which is longer than --log-size", "bytes", len(line), "begins", string(line[:begins]))
		line = b.Bytes()
	}
	if j.since += len(line); j.since > j.file.MaxSize<<20 { // the file may be put aside a second time
		time.Sleep(apart - time.Since(j.wrote))
		j.since = len(line)
	}
	_, err := j.file.Write(line)
	j.wrote = time.Now()
	if j.broken == nil {
		j.broken = err
	}
}

// Write implements io.Writer: of a line.
func (j *journal) Write(line []byte) (n int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.closed:
	case !j.named:
		j.pending.Write(line)
	default:
		j.put(line) // Close says whether it is there
	}
	return len(line), nil
}

// Close closes the file, and tells whether all lines are in it.
func (j *journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	return errors.Join(j.broken, j.file.Close())
}

// entered writes an entry.
func (j *journal) entered(e entry) {
	switch {
	case j == nil:
	case e.Kind == failure:
		j.Error("failure", "record", e.Record)
	case e.Record["ok"] == false:
		j.Warn("result", "kind", e.Kind, "record", e.Record)
	case e.Kind == "Place":
		j.Info("joined", "rank", e.Record["rank"], "ranks", e.Record["ranks"])
	default:
		j.Info("result", "kind", e.Kind, "record", e.Record)
	}
}

// started writes the first line of a run.
func (j *journal) started(run Run) {
	host, _ := os.Hostname() // or the attribute is empty
	j.Info("started", "command", run.Command, "version", run.Version, "host", host, "pid", os.Getpid())
}

// Events takes the trace's events, a line of JSON each, for the log file; nil where there is
// none.
func (l *Ledger) Events() io.Writer {
	switch {
	case l == nil:
		return nil
	case l.log != nil:
		return l.log
	case l.pipe != nil && l.logs:
		return eventPipe{l}
	}
	return nil
}

// event is the kind of a trace's event on its way to a parent's log file.
const event = "Event"

// eventPipe sends events to a parent's ledger.
type eventPipe struct{ l *Ledger }

func (p eventPipe) Write(line []byte) (int, error) {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	p.l.send(entry{Kind: event, Line: string(line)})
	return len(line), nil
}

// logOf returns the log file of a rank that this process has started: one of its own if %r
// is in the name, and else that of all. It is nil if there is none.
func (l *Ledger) logOf(rank int) *journal {
	if l.log == nil || NameOf(l.Log, 0) == l.Log {
		return l.log
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	path := NameOf(l.Log, rank)
	if rank <= 0 { // which this process speaks for
		l.log.name(path)
		return l.log
	}
	if l.others[rank] == nil {
		l.others[rank] = newJournal(l.LogMebibytes)
		l.others[rank].name(path)
		l.others[rank].started(l.run)
	}
	return l.others[rank]
}
