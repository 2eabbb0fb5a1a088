// Package shell is the interactive shell: it gives each line a session of its own and
// the ring to one of them at a time, and has the commands that only make sense where
// lines are typed or read from a file.
package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/failure"
	"ringcli/cli/lines"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/repl"
	"ringcli/ring"
	"ringcli/ring/bootstrap"
)

// Open makes the shell, through which all output goes from now on.
func Open(s *session.Session, t *command.Table) error {
	h := &host{s: s, table: t, jobs: map[int]*session.Session{}}
	history, init := shellFiles()
	shell, err := repl.New(repl.Options{
		Host: h, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr, HistoryFile: history, Init: init,
		OnError: h.report, Interrupt: h.interrupt, StopJob: func(id int) bool { return h.stopJob(id, "") },
	})
	if err != nil {
		return err
	}
	s.Interactive = true
	s.Shell, s.Claim = shell, h.claim
	s.StopJob = func(id int) bool { return h.stopJob(id, "; stop --now cancels it") }
	s.Visit, s.Visits = h.visit, &session.Visits{}
	s.Stdout, s.Stderr = shell.Out(), shell.Err()
	s.Out = render.New(s.Stdout, s.Out.Format())
	s.Progress = session.NewProgress(s.Stderr)
	return s.SetTrace()
}

// Run is the shell that was opened, in a ring or before one.
func Run(ctx context.Context, s *session.Session) error {
	if s.Shell.Interactive() {
		if err := s.Out.Notes(render.Plain, banner(s)...); err != nil {
			return err
		}
		end := make(chan struct{})
		var watching sync.WaitGroup
		watching.Go(func() { s.Shell.Host().(*host).watch(end) })
		defer watching.Wait()
		defer close(end)
	}
	s.Signals.LeaveInterrupts()
	err := s.Shell.Run(ctx)
	if last := s.Shell.LastError(); err == nil && !s.Shell.Interactive() && last != nil {
		// The other ranks are told its words: nobody stays to find out whom it suspects.
		return &exit.Error{Code: exit.Code(last), Err: exit.Reported(errors.New(last.Error()))}
	}
	return err
}

// shellFiles are the files of history and init; none without a home directory.
func shellFiles() (history, init string) {
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		history = filepath.Join(dir, "ringcli", "history")
	} else if dir, err := os.UserHomeDir(); err == nil {
		history = filepath.Join(dir, ".local", "state", "ringcli", "history")
	}
	if dir, err := os.UserConfigDir(); err == nil {
		init = filepath.Join(dir, "ringcli", "init.ring")
	}
	return history, init
}

// banner says where the shell begins, in lines for a person.
func banner(s *session.Session) []string {
	place := ""
	switch {
	case s.Ring == nil:
		place = "no ring yet: open, init, exchange, rtr, rts; or connect, which takes all steps"
	case s.Leads:
		place = fmt.Sprintf("rank 0 of %d leads: what runs on the ring runs on all ranks", s.Ring.Size())
	default:
		place = fmt.Sprintf("rank %d of %d: an operation begins when all ranks have given it", s.Ring.Rank(), s.Ring.Size())
	}
	return []string{place, "help lists the commands, Tab completes, Ctrl-D leaves"}
}

// host runs the shell's lines, each in a session of its own: a fork of s, so
// that a line in the background and one in front share nothing but the ring.
type host struct {
	table *command.Table
	mu    sync.Mutex // guards what follows
	// S is the session between two lines. Its ring, member and leads change only
	// while holder is set, by its holder.
	s      *session.Session
	holder string                   // what uses the ring: a command
	owner  *session.Session         // the line that it is of; nil once it has ended before its visitors
	guest  string                   // a visitor's command, which has the ring too
	guests int                      // how many visit
	freed  chan struct{}            // closed when none of them does any longer
	front  *session.Session         // the line in front, if one runs
	jobs   map[int]*session.Session // those in the background
	told   *ring.Ring               // that it has failed
}

// Prompt implements repl.Host.
func (h *host) Prompt() (string, repl.Mood) {
	h.mu.Lock()
	r := h.s.Ring
	h.mu.Unlock()
	return Prompt(r)
}

// Prompt says where a rank stands: "ring 2/4 RTR soft:lo>".
func Prompt(r *ring.Ring) (string, repl.Mood) {
	if r == nil {
		return "no ring>", repl.Plain
	}
	state := r.State()
	mood := repl.Busy
	switch state {
	case ring.StateRTS, ring.StateReady:
		mood = repl.Good
	case ring.StateError, ring.StateFailed, ring.StateClosed:
		mood = repl.Bad
	}
	return fmt.Sprintf("ring %d/%d %s %s>", r.Rank(), r.Size(), state, session.DeviceOf(r)), mood
}

// Run implements repl.Host.
func (h *host) Run(ctx context.Context, line string) error {
	s := h.fork(ctx)
	defer h.merge(ctx, s)
	was := s.Ring
	failedBefore := was != nil && was.Failed()
	err := lines.Run(ctx, s, h.table, line)
	if err == nil {
		return nil
	}
	if s.Ring != nil && s.Ring.Failed() && (s.Ring != was || !failedBefore) {
		err = over(s, err)
		h.mu.Lock()
		h.told = s.Ring
		h.mu.Unlock()
	}
	if cause := context.Cause(ctx); errors.Is(cause, repl.ErrInterrupted) || errors.Is(cause, repl.ErrStopped) {
		if why := s.Interrupted(); why != nil && (s.Ring == nil || !s.Ring.Failed()) {
			return why
		}
		return fmt.Errorf("%w: %w", exit.ErrInterrupted, err)
	}
	return err
}

func (h *host) fork(ctx context.Context) *session.Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.s.Fork()
	if id, ok := repl.JobOf(ctx); ok {
		h.jobs[id] = s
		s.Progress = nil
	} else {
		h.front = s
	}
	if repl.Typed(ctx) && s.Shell.Interactive() {
		if s.Pager = render.NewPager(s.Stdout, s.Config.String("pager")); s.Pager != nil {
			s.Pager.Lend = s.Shell.Lend
		}
	}
	return s
}

// merge takes over what a line has changed. Settings are those of the front.
func (h *host) merge(ctx context.Context, s *session.Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.Fresh {
		h.s.Results = s.Results
	}
	if id, ok := repl.JobOf(ctx); ok {
		delete(h.jobs, id)
		return
	}
	h.front = nil
	// A line that runs others, such as source, must not undo what they set.
	if s.Config != s.Forked {
		h.s.Config = s.Config
	}
}

// watchEvery is how often the ring is looked at: at once, for a person.
const watchEvery = 100 * time.Millisecond

// watch tells that the ring has failed while no line runs, which would tell it, until end
// is closed.
func (h *host) watch(end <-chan struct{}) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-end:
			return
		case <-tick.C:
		}
		h.mu.Lock()
		r := h.s.Ring
		news := r != nil && r != h.told && r.Failed() && h.front == nil && len(h.jobs) == 0
		if news {
			h.told = r
		}
		h.mu.Unlock()
		if news {
			h.report(over(h.s, r.Err()))
		}
	}
}

// over says what an error of the ring leads to. What to do where a rank was a child of this
// process is told with its end.
func over(s *session.Session, err error) error {
	var v *ring.Verdict
	if s.Local && errors.As(err, &v) && v.Kind == bootstrap.KindLost {
		return fmt.Errorf("%w; the ring is over", err)
	}
	return fmt.Errorf("%w; the ring is over: `reconnect` rebuilds it", err)
}

// claim gives the ring to one command at a time.
func (h *host) claim(s *session.Session, command string) (release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.holder != "" {
		return nil, exit.Usagef("%w", &session.BusyError{Command: command, Holder: h.holder})
	}
	h.holder, h.owner, h.freed = command, s, make(chan struct{})
	s.Ring, s.Member, s.Leads = h.s.Ring, h.s.Member, h.s.Leads
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.owner = nil
		h.s.Ring, h.s.Member, h.s.Leads = s.Ring, s.Member, s.Leads
		h.free()
	}, nil
}

// free ends a claim once its command and its visitors have ended: a command that was
// cancelled ends before them. It needs the lock.
func (h *host) free() {
	switch {
	case h.owner != nil:
	case h.guests > 0:
		h.holder = h.guest
	default:
		h.holder = ""
		close(h.freed)
	}
}

// enter makes a command a visitor of the claim that it waited at, unless that has ended.
func (h *host) enter(s *session.Session, command string, freed chan struct{}) (leave func(), entered bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.owner == nil || h.freed != freed {
		return nil, false
	}
	h.guest = command
	h.guests++
	s.Ring, s.Member, s.Leads = h.s.Ring, h.s.Member, h.s.Leads
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.guests--
		h.free()
	}, true
}

// visit is a command's turn while another has the claim: when that one is at a boundary on
// all ranks, or has ended.
func (h *host) visit(ctx context.Context, s *session.Session, command string, busy error) (of string, release func(), err error) {
	limit := s.Config.Duration("timeout")
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		h.mu.Lock()
		of, owner, freed := h.holder, h.owner, h.freed
		h.mu.Unlock()
		if of == "" {
			if release, err = h.claim(s, command); err == nil {
				return "", release, nil
			}
			continue
		}
		var in <-chan struct{} // nil where the claim is only its visitors' any more
		leave := func() {}
		if owner != nil {
			if c := owner.Running.Load(); c == nil || !c.Stops {
				return "", nil, busy
			}
			in, leave = s.Visits.Knock()
		}
		hush := s.Await(ctx, begun, of+" in the background to come to a boundary")
		defer hush()
		select {
		case <-in:
			out, entered := h.enter(s, command, freed)
			if entered {
				return of, func() { out(); leave() }, nil
			}
			leave()
		case <-freed:
			leave()
		case <-ctx.Done():
			leave()
			if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				return "", nil, context.Cause(ctx)
			}
			awaits := ""
			if w, waits := s.Waits.Now(); waits {
				awaits = ": it waits for " + w.String()
			}
			return "", nil, fmt.Errorf("%s: %s in the background has come to no boundary in %s%s", command, of, limit, awaits)
		}
	}
}

// interrupt is the n-th Ctrl-C: what can stops at its next boundary, all else is
// cancelled.
func (h *host) interrupt(n int, cancel func()) {
	h.mu.Lock()
	s := h.front
	h.mu.Unlock()
	if s == nil || n > 1 || !askToStop(s, "; Ctrl-C again cancels it") {
		cancel()
		return
	}
	time.AfterFunc(StopGrace, cancel) // which does nothing once the line has ended
}

// StopGrace is how long a command may take to its next boundary: longer than an
// iteration of any size that is usual, shorter than patience with a rank that is
// not there. Tests change it, on machines that are busy.
var StopGrace = 10 * time.Second

// stopJob asks a line in the background to stop at its next boundary.
func (h *host) stopJob(id int, harder string) bool {
	h.mu.Lock()
	s := h.jobs[id]
	h.mu.Unlock()
	return s != nil && askToStop(s, harder)
}

// askToStop asks what runs to stop at its next boundary. It reports whether it
// will. Harder says what does not wait for that.
func askToStop(s *session.Session, harder string) bool {
	c := s.Running.Load()
	if c == nil || !c.Stops {
		return false
	}
	s.Stop.Store(true)
	s.Progress.End()
	// A terminal that is gone has nobody to read it.
	_, _ = fmt.Fprintf(s.Stderr, "%s stops at its next boundary, within %s%s\n", c.Name, StopGrace, harder)
	return true
}

// report prints an error of a line or of a job.
func (h *host) report(err error) {
	h.mu.Lock()
	s := h.s.Fork()
	h.mu.Unlock()
	failure.Report(s, "shell", err, exit.Code(err))
}

// Complete implements repl.Host.
func (h *host) Complete(line string, pos int) ([]repl.Candidate, int) {
	return Complete(h.s, h.table, line[:pos])
}

// Complete asks cobra what the last word of the last command may become.
func Complete(s *session.Session, t *command.Table, text string) ([]repl.Candidate, int) {
	words, from := lastCommand(text)
	if len(words) > 1 && s.Shell != nil {
		if full, is := s.Shell.Aliases()[words[0]]; is {
			if expanded, err := lines.Split(full); err == nil && len(expanded) > 0 {
				words = append(expanded[len(expanded)-1], words[1:]...)
			}
		}
	}
	var out bytes.Buffer
	root := t.LineTree(&out, func(context.Context, command.Row, command.Call) error { return nil })
	root.SetErr(io.Discard)
	root.SetArgs(append([]string{"__complete"}, words...))
	if root.Execute() != nil {
		return nil, from
	}
	typed := words[len(words)-1]
	if flag, value, isFlag := strings.Cut(typed, "="); isFlag && strings.HasPrefix(flag, "-") {
		from, typed = from+len(flag)+1, value // cobra answers with the value alone
	}
	list := command.Candidates(out.String(), typed)
	if len(words) == 1 && s.Shell != nil {
		for name, text := range s.Shell.Aliases() {
			if strings.HasPrefix(name, words[0]) {
				list = append(list, repl.Candidate{Text: name, Hint: text})
			}
		}
	}
	return list, from
}

// lastCommand returns the words of the last command of a text that is being
// typed, the one under the cursor last, perhaps empty, and the byte where it
// begins.
func lastCommand(text string) (words []string, from int) {
	from = strings.LastIndexAny(text, " \t;\n") + 1
	// What is quoted is left to be completed as it is typed.
	if quote := strings.LastIndexAny(text, `"'`); quote >= 0 && strings.Count(text, text[quote:quote+1])%2 == 1 {
		from = quote + 1
	}
	before := text[:from]
	if i := strings.LastIndexAny(before, ";\n"); i >= 0 {
		before = before[i+1:]
	}
	commands, err := lines.Split(strings.TrimRight(before, `"'`))
	if err == nil && len(commands) > 0 {
		words = commands[len(commands)-1]
	}
	return append(words, text[from:]), from
}

// Repeatable implements repl.Host.
func (h *host) Repeatable(line string) bool {
	commands, err := lines.Split(line)
	if err != nil || len(commands) == 0 {
		return false
	}
	return !slices.ContainsFunc(commands, func(words []string) bool {
		c, found := h.table.Find(words[0], command.Line)
		return !found || !c.Harmless
	})
}

// Secret implements repl.Host: no line that names a token or a password is kept.
func (h *host) Secret(line string) bool {
	return secrets.MatchString(line)
}

var secrets = regexp.MustCompile(`(?i)token|password|secret`)
