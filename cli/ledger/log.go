package ledger

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"

	"gopkg.in/natefinch/lumberjack.v2"

	"ringcli/trace"
)

// logsKept is how many files of former lines are kept beside a log file.
const logsKept = 5

// journal is a log file: an object of JSON a line, as slog writes it. It is written as
// things happen, and lumberjack puts it aside when it is full. It is safe for concurrent use.
type journal struct {
	*slog.Logger // to the file

	mu      sync.Mutex // guards what follows
	file    *lumberjack.Logger
	pending bytes.Buffer // what came before the file had its name
	closed  bool
	broken  error // why a line was not written, the first time
}

// newJournal returns one whose file is put aside after so many MiB.
func newJournal(mebibytes int) *journal {
	j := &journal{file: &lumberjack.Logger{MaxSize: mebibytes, MaxBackups: logsKept}}
	j.Logger = slog.New(trace.NewJSONHandler(j))
	return j
}

// name gives the file its name, once; until then lines wait.
func (j *journal) name(path string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file.Filename != "" {
		return
	}
	j.file.Filename = path
	for line := range bytes.Lines(j.pending.Bytes()) {
		j.put(line)
	}
	j.pending = bytes.Buffer{}
}

// put writes a line to the file. It needs the lock.
func (j *journal) put(line []byte) {
	if _, err := j.file.Write(line); j.broken == nil {
		j.broken = err
	}
}

// Write implements io.Writer: of a line.
func (j *journal) Write(line []byte) (n int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.closed:
	case j.file.Filename == "":
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
