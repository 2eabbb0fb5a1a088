package ledger

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/configs/codes"
	"ringcli/ring/diagnose/links"
)

// most is how many cases, and how many series, are kept: a script may run for days. Of
// more, the cases that failed are kept, up to as many again.
const most = 20000

// rankMark stands for this process's rank in the name of a file.
const rankMark = "%r"

// NameOf is a file's name, with this process's rank in the place of its mark.
func NameOf(path string, rank int) string {
	return strings.ReplaceAll(path, rankMark, strconv.Itoa(max(rank, 0)))
}

// Files are those that a ledger is written to, in whose names %r stands for the rank;
// empty: none.
type Files struct {
	JUnit, Metrics string
	// Log has each record at once, and the trace's events.
	Log          string
	LogMebibytes int // after which it is put aside
	// Good and Bad are lists of hosts.
	Good, Bad string
	// Report is another's to write, beside these.
	Report string
}

// Ledger keeps what a run has found. It is safe for concurrent use; a nil one keeps nothing.
type Ledger struct {
	Files
	log  *journal // nil: there is none
	logs bool     // the parent has one
	run  Run      // that the log files begin with

	begun    time.Time
	mu       sync.Mutex       // guards what follows
	others   map[int]*journal // log files of the ranks that this process has started, but for log
	pipe     io.Writer        // to another process's ledger, which keeps it instead
	broken   error            // of the pipe
	section  string
	rank     int // of this process; -1: not known
	cases    []found
	failed   int // of the cases
	left     int // cases that are not kept
	retries  int
	blames   []blame
	failures []string // their codes
	shared   *found   // the last failure that no rank has for itself
	samples  map[string]sample
	ranks    map[int]*found
	hosts    hostNames
}

// found is a case.
type found struct {
	section, class, name string
	ok, skipped          bool
	why, code, detail    string
	assumed              bool // ok, of a rank: it may have failed with the others
	seconds              float64
	from, to             float64 // of a link
}

// blame is what a finding says of links.
type blame struct {
	links.Finding
	why, code string
}

// named are the files with their flags.
func (f Files) named() [][2]string {
	return slices.DeleteFunc([][2]string{{"--junit", f.JUnit}, {"--metrics", f.Metrics}, {"--log-file", f.Log}, {"--good-hosts", f.Good}, {"--bad-hosts", f.Bad}, {"--report-on-failure", f.Report}},
		func(each [2]string) bool { return each[1] == "" })
}

// CheckApart refuses names that the ranks of a command would share, of whom a host has so
// many: the last of them would replace what the others have written.
func (l *Ledger) CheckApart(ranks int) error {
	if l == nil || ranks < 2 {
		return nil
	}
	for _, f := range l.named() {
		if NameOf(f[1], 0) == f[1] {
			return exit.Usagef("%s %s: %d ranks of a host would write the same file: expected %s in its name, which stands for the rank", f[0], f[1], ranks, rankMark)
		}
	}
	return nil
}

// Open returns a ledger for files that can be written, or nil if there are none.
func Open(files Files, run Run, rank int) (*Ledger, error) {
	named := map[string]string{}
	for _, f := range files.named() {
		path := NameOf(f[1], rank)
		if other := named[path]; other != "" {
			return nil, exit.Usagef("%s and %s both name %s: expected a file for each", other, f[0], path)
		}
		named[path] = f[0]
		if err := render.CheckWritable(f[0], path); err != nil {
			return nil, err
		}
	}
	if len(named) == 0 {
		return nil, nil
	}
	l := empty(rank)
	l.Files = files
	if files.Log != "" {
		l.log = newJournal(files.LogMebibytes)
		if rank >= 0 || NameOf(files.Log, 0) == files.Log {
			l.log.name(NameOf(files.Log, rank))
		}
		l.run = run
		l.log.started(run)
	}
	return l, nil
}

// Send returns a ledger that hands all to that of a parent, which reads the pipe and may
// have a log file.
func Send(pipe io.Writer, logs bool) *Ledger {
	l := empty(-1)
	l.pipe, l.logs = pipe, logs
	return l
}

func empty(rank int) *Ledger {
	l := &Ledger{begun: time.Now(), rank: rank, samples: map[string]sample{}, ranks: map[int]*found{}, others: map[int]*journal{}}
	l.hosts.forget()
	return l
}

// entry is a record on its way to a parent's ledger.
type entry struct {
	Kind   string `json:"kind"`
	Record record `json:"record,omitempty"`
	Line   string `json:"line,omitempty"` // of an event
}

// Line is a command of a script, or of the shell.
type Line struct {
	OK       bool    `json:"ok"`
	Text     string  `json:"text"`
	Error    string  `json:"error,omitempty"`
	Code     string  `json:"code,omitempty"`
	Duration float64 `json:"duration"`
}

// Place is this process's place in a ring: of 0 ranks before there is one.
type Place struct {
	Rank  int      `json:"rank"`
	Ranks int      `json:"ranks"`
	Hosts []string `json:"hosts,omitempty"` // of the ranks
}

// Joined says that this process is a rank; of 0 ranks before there is a ring, which is to be
// of the hosts.
func (l *Ledger) Joined(rank, ranks int, hosts []string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.rank = rank
	l.mu.Unlock()
	if l.log != nil {
		l.log.name(NameOf(l.Log, rank))
	}
	l.Add(Place{rank, ranks, hosts})
}

// Add keeps a record, but for a failure: AddFailure does, whether it is printed or not.
func (l *Ledger) Add(r any) {
	if reflect.TypeOf(r).Name() != failure {
		l.add(r, false)
	}
}

// AddFailure keeps a failure: of all ranks, or of this one.
func (l *Ledger) AddFailure(r any, shared bool) { l.add(r, !shared) }

// failure is the kind of what AddFailure keeps.
const failure = "Failure"

func (l *Ledger) add(r any, own bool) {
	if l == nil {
		return
	}
	text, err := json.Marshal(r)
	e := entry{Kind: reflect.TypeOf(r).Name()}
	if err == nil {
		err = json.Unmarshal(text, &e.Record)
	}
	if err != nil {
		return // it is no record, and was not printed either
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if own && l.rank >= 0 {
		e.Record["rank"] = float64(l.rank)
	}
	if l.pipe == nil {
		l.log.entered(e)
		l.take(e)
		return
	}
	l.send(e)
}

// send hands an entry to a parent. It needs the lock.
func (l *Ledger) send(e entry) {
	text, err := json.Marshal(e)
	if err == nil {
		_, err = l.pipe.Write(append(text, '\n'))
	}
	if l.broken == nil {
		l.broken = err
	}
}

// Receive takes what the ledger of a rank that this process has started sends, until the
// pipe ends. Rank 0 speaks for all; of another rank it takes what is about itself, and writes
// all to the log file if the rank has one of its own.
func (l *Ledger) Receive(pipe io.Reader, rank int) error {
	lines, log := bufio.NewReader(pipe), l.logOf(rank)
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil // what a child was about to write when it was killed is lost
			}
			return err
		}
		var e entry
		if err := json.Unmarshal(text, &e); err != nil {
			return fmt.Errorf("what a rank has found: %w", err)
		}
		if e.Kind == event {
			if log != nil {
				_, _ = io.WriteString(log, e.Line) // Close says it
			}
			continue
		}
		own := rank == 0 || e.Kind == failure || e.Kind == "Place"
		if own || log != l.log {
			log.entered(e)
		}
		if own {
			l.mu.Lock()
			l.take(e)
			l.mu.Unlock()
		}
	}
}

// Begin begins a section: what comes is of another ring.
func (l *Ledger) Begin(section string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	l.section, l.ranks, l.blames = section, map[int]*found{}, nil
}

// RankEnded says how a process ended that was a rank; death is why it did not end by itself.
func (l *Ledger) RankEnded(rank, code int, death string) {
	log := l.logOf(rank)
	l.mu.Lock()
	defer l.mu.Unlock()
	if log != nil {
		log.Info("rank ended", "rank", rank, "exit_code", code, "why", death)
	}
	c := l.rankOf(rank)
	switch {
	case !c.ok && !c.assumed: // which is known better
	case death != "":
		c.fail(death, string(codes.Lost), "")
	default:
		c.ok, c.assumed, c.why = code == exit.OK, code != exit.OK, fmt.Sprintf("exit code %d", code)
	}
}

// rankOf is a rank's case. Nothing is known of it before it has ended.
func (l *Ledger) rankOf(rank int) *found {
	if l.ranks[rank] == nil {
		l.ranks[rank] = &found{class: "rank", name: fmt.Sprintf("rank %d", rank), ok: true, assumed: true, code: "failed"}
	}
	return l.ranks[rank]
}

func (c *found) fail(why, code, detail string) {
	c.ok, c.assumed, c.why, c.code, c.detail = false, false, why, code, detail
}

// settle closes a section: findings fail the links that they are about, and each rank has a
// case.
func (l *Ledger) settle() {
	for i := range l.cases {
		c := &l.cases[i]
		if c.class != "link" || !c.ok || c.section != l.section {
			continue
		}
		for _, b := range l.blames {
			if b.Has(links.Pair{From: int(c.from), To: int(c.to)}) {
				c.ok, c.why, c.code = false, b.why, b.code
				l.failed++
				break
			}
		}
	}
	known := len(l.failures) > 0 // why the ring has failed
	for _, c := range l.ranks {
		known = known || !c.ok && !c.assumed
	}
	for _, rank := range slices.Sorted(maps.Keys(l.ranks)) {
		c := *l.ranks[rank]
		if c.assumed && known {
			c.skipped, c.why = true, "the ring has failed, and the verdict does not name this rank"
		}
		l.keep(c)
		if c.skipped {
			continue
		}
		l.sample(sample{"rank_success", []label{{"of_rank", strconv.Itoa(rank)}}, truth(c.ok)})
	}
	l.ranks = map[int]*found{}
}

func truth(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}

// Run is what a ledger is of.
type Run struct {
	Command, Version string
	ExitCode         int
}

// Close writes the files. Nothing is added after it.
func (l *Ledger) Close(run Run) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pipe != nil {
		return l.broken
	}
	l.settle()
	var errs []error
	if l.log != nil {
		l.log.name(NameOf(l.Log, l.rank))
	}
	for _, log := range append(slices.Collect(maps.Values(l.others)), l.log) {
		if log == nil {
			continue
		}
		log.Info("ended", "command", run.Command, "exit_code", run.ExitCode, "seconds", time.Since(l.begun).Seconds())
		if err := log.Close(); err != nil {
			errs = append(errs, fmt.Errorf("--log-file %s: %w", filepath.Base(l.Log), err))
		}
	}
	switch {
	case run.ExitCode != 0 && l.failed == 0 && l.shared != nil: // else it is that of a check
		l.keep(*l.shared)
	case run.ExitCode != 0 && l.failed == 0, len(l.cases) == 0:
		l.keep(found{class: "run", name: run.Command, ok: run.ExitCode == 0, why: fmt.Sprintf("exit code %d", run.ExitCode), code: "failed"})
	}
	good, bad := l.hosts.lists(run.ExitCode)
	for _, f := range []struct {
		flag, path string
		write      func(io.Writer) error
	}{
		{"--junit", l.JUnit, func(w io.Writer) error { return writeJUnit(w, run, l.begun, l.cases, l.properties(run)) }},
		{"--metrics", l.Metrics, func(w io.Writer) error { return writeMetrics(w, l.all(run)) }},
		{"--good-hosts", l.Good, func(w io.Writer) error { return writeHosts(w, good) }},
		{"--bad-hosts", l.Bad, func(w io.Writer) error { return writeHosts(w, bad) }},
	} {
		if f.path != "" {
			path := NameOf(f.path, l.rank)
			if err := render.WriteFile(f.flag+" "+filepath.Base(path), path, f.write); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

func (l *Ledger) properties(run Run) [][2]string {
	list := [][2]string{{"version", run.Version}, {"exit_code", strconv.Itoa(run.ExitCode)}}
	if l.rank >= 0 {
		list = append(list, [2]string{"rank", strconv.Itoa(l.rank)})
	}
	if l.left > 0 {
		list = append(list, [2]string{"cases_left_out", strconv.Itoa(l.left)})
	}
	if l.retries > 0 {
		list = append(list, [2]string{"retries", strconv.Itoa(l.retries)})
	}
	return list
}

// ringOf is the label that keeps the series of a node's files apart: node_exporter drops a
// series that an earlier file has. It is the file's name, since a folder has each name once,
// the same for all ranks and for each run.
func ringOf(path string) string {
	return strings.ReplaceAll(strings.TrimSuffix(filepath.Base(path), ".prom"), rankMark, "*")
}

// all are the samples of a run, each with this process's rank: a node may have several files.
func (l *Ledger) all(run Run) []sample {
	list := make([]sample, 0, len(l.samples)+len(l.cases)+8)
	for _, s := range l.samples {
		list = append(list, s)
	}
	results := map[string]float64{"passed": 0, "failed": 0, "skipped": 0}
	for i, c := range l.cases {
		result := "failed"
		switch {
		case c.skipped:
			result = "skipped"
		case c.ok:
			result = "passed"
		}
		results[result]++
		if c.class == "rank" || c.class == "edge" || c.class == "link" || c.skipped || i >= most {
			continue // they have metrics of their own
		}
		labels := []label{{"class", c.class}, {"check", c.name}}
		if c.section != "" {
			labels = append(labels, label{"over", c.section})
		}
		list = append(list, sample{"check_success", labels, truth(c.ok)})
	}
	for result, n := range results {
		list = append(list, sample{"checks", []label{{"result", result}}, n})
	}
	for _, code := range l.failures {
		list = append(list, sample{"failure", []label{{"code", code}}, 1})
	}
	list = append(list,
		sample{"run_success", nil, truth(run.ExitCode == 0)},
		sample{"run_exit_code", nil, float64(run.ExitCode)},
		sample{"run_duration_seconds", nil, time.Since(l.begun).Seconds()},
		sample{"run_timestamp_seconds", nil, float64(time.Now().UnixMilli()) / 1e3},
		sample{"build_info", []label{{"version", run.Version}, {"goversion", runtime.Version()}}, 1},
	)
	for i := range list {
		own := []label{{"ring", ringOf(l.Metrics)}, {"command", run.Command}}
		if l.rank >= 0 {
			own = append(own, label{"rank", strconv.Itoa(l.rank)})
		}
		list[i].labels = append(own, list[i].labels...)
	}
	return list
}
