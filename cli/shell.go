package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"ringcli/cli/render"
	"ringcli/repl"
	"ringcli/ring"
)

// openShell makes the shell, through which all output goes from now on.
func (s *Session) openShell(t *Table) error {
	h := &host{s: s, table: t, jobs: map[int]*Session{}}
	history, init := shellFiles()
	shell, err := repl.New(repl.Options{
		Host: h, Stdin: s.stdin, Stdout: s.stdout, Stderr: s.stderr, HistoryFile: history, Init: init, Color: true,
		OnError: h.report, Interrupt: h.interrupt,
	})
	if err != nil {
		return err
	}
	s.interactive = true
	s.shell, s.claim, s.stopJob = shell, h.claim, h.stopJob
	s.stdout, s.stderr = shell.Out(), shell.Err()
	s.Out = render.New(s.stdout, s.Out.Format())
	s.Progress = newProgress(s.stderr)
	return s.setTrace()
}

// runShell is the shell that was opened, in a ring or before one.
func (s *Session) runShell(ctx context.Context) error {
	if s.shell.Interactive() {
		if err := s.Out.Notes(render.Plain, s.banner()...); err != nil {
			return err
		}
	}
	s.signals.leaveInterrupts()
	err := s.shell.Run(ctx)
	if last := s.shell.LastError(); err == nil && !s.shell.Interactive() && last != nil {
		return &exitError{code: ExitCode(last), err: errReported}
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
func (s *Session) banner() []string {
	place := ""
	switch {
	case s.ring == nil:
		place = "no ring yet: open, init, exchange, rtr, rts; or connect, which takes all steps"
	case s.leads:
		place = fmt.Sprintf("rank 0 of %d leads: what runs on the ring runs on all ranks", s.ring.Size())
	default:
		place = fmt.Sprintf("rank %d of %d: an operation begins when all ranks have given it", s.ring.Rank(), s.ring.Size())
	}
	return []string{place, "help lists the commands, Tab completes, Ctrl-D leaves"}
}

// host runs the shell's lines, each in a session of its own: a fork of s, so
// that a line in the background and one in front share nothing but the ring.
type host struct {
	table *Table
	mu    sync.Mutex // guards what follows
	// s is the session between two lines. Its ring, member and leads change only
	// while holder is set, by its holder.
	s      *Session
	holder string           // what uses the ring: a command, with its job
	front  *Session         // the line in front, if one runs
	jobs   map[int]*Session // those in the background
}

// Prompt says where this rank stands: "ring 2/4 RTR soft:lo>".
func (h *host) Prompt() (string, repl.Mood) {
	h.mu.Lock()
	r := h.s.ring
	h.mu.Unlock()
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
	return fmt.Sprintf("ring %d/%d %s %s>", r.Rank(), r.Size(), state, deviceOf(r)), mood
}

// Run implements repl.Host.
func (h *host) Run(ctx context.Context, line string) error {
	s := h.fork(ctx)
	defer h.merge(ctx, s)
	was := s.ring
	failedBefore := was != nil && was.Failed()
	err := s.runScript(ctx, h.table, line)
	if err == nil {
		return nil
	}
	if s.ring != nil && s.ring.Failed() && (s.ring != was || !failedBefore) {
		err = fmt.Errorf("%w; the ring is over: `connect` brings up a new one", err)
	}
	if cause := context.Cause(ctx); errors.Is(cause, repl.ErrInterrupted) || errors.Is(cause, repl.ErrStopped) {
		return fmt.Errorf("%w: %w", errInterrupted, err)
	}
	return err
}

func (h *host) fork(ctx context.Context) *Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.s.fork()
	if id, ok := repl.JobOf(ctx); ok {
		h.jobs[id] = s
		s.Progress = nil
	} else {
		h.front = s
	}
	return s
}

// merge takes over what a line has changed. Settings are those of the front.
func (h *host) merge(ctx context.Context, s *Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.fresh {
		h.s.results = s.results
	}
	if id, ok := repl.JobOf(ctx); ok {
		delete(h.jobs, id)
		return
	}
	h.front = nil
	// A line that runs others, such as source, must not undo what they set.
	if s.Config != s.forked {
		h.s.Config = s.Config
	}
}

// claim gives the ring to one command at a time.
func (h *host) claim(s *Session, command string) (release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.holder != "" {
		return nil, usageError("%s: the ring is busy with %s: `wait` for it, or `stop` it", command, h.holder)
	}
	h.holder = command
	s.ring, s.member, s.leads = h.s.ring, h.s.member, h.s.leads
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.holder = ""
		h.s.ring, h.s.member, h.s.leads = s.ring, s.member, s.leads
	}, nil
}

// interrupt is the n-th Ctrl-C: what can stops at its next boundary, all else is
// cancelled.
func (h *host) interrupt(n int, cancel func()) {
	h.mu.Lock()
	s := h.front
	h.mu.Unlock()
	if s == nil || n > 1 || !s.askToStop() {
		cancel()
		return
	}
	time.AfterFunc(stopGrace, cancel) // which does nothing once the line has ended
}

// stopGrace is how long a command may take to its next boundary: longer than an
// iteration of any size that is usual, shorter than patience with a rank that is
// not there.
const stopGrace = 10 * time.Second

// stopJob asks a line in the background to stop at its next boundary.
func (h *host) stopJob(id int) bool {
	h.mu.Lock()
	s := h.jobs[id]
	h.mu.Unlock()
	return s != nil && s.askToStop()
}

// askToStop asks what runs to stop at its next boundary. It reports whether it
// will.
func (s *Session) askToStop() bool {
	c := s.running.Load()
	if c == nil || !c.stops {
		return false
	}
	s.stop.Store(true)
	s.Progress.End()
	// A terminal that is gone has nobody to read it.
	_, _ = fmt.Fprintf(s.stderr, "%s stops at its next boundary, within %s; Ctrl-C again cancels it at once\n", c.name, stopGrace)
	return true
}

// report prints an error of a line or of a job.
func (h *host) report(err error) {
	h.mu.Lock()
	s := h.s.fork()
	h.mu.Unlock()
	s.report("shell", err, ExitCode(err))
}

// Complete implements repl.Host.
func (h *host) Complete(line string, pos int) ([]repl.Candidate, int) {
	return h.s.complete(h.table, line[:pos])
}

// complete asks cobra what the last word of the last command may become.
func (s *Session) complete(t *Table, text string) ([]repl.Candidate, int) {
	words, from := lastCommand(text)
	if len(words) > 1 && s.shell != nil {
		if full, is := s.shell.Aliases()[words[0]]; is {
			if expanded, err := splitScript(full); err == nil && len(expanded) == 1 {
				words = append(expanded[0], words[1:]...)
			}
		}
	}
	var out bytes.Buffer
	root := t.lineTree(&out, func(context.Context, Command, Call) error { return nil })
	root.SetErr(io.Discard)
	root.SetArgs(append([]string{"__complete"}, words...))
	if root.Execute() != nil {
		return nil, from
	}
	typed := words[len(words)-1]
	if flag, value, isFlag := strings.Cut(typed, "="); isFlag && strings.HasPrefix(flag, "-") {
		from, typed = from+len(flag)+1, value // cobra answers with the value alone
	}
	list := candidates(out.String(), typed)
	if len(words) == 1 && s.shell != nil {
		for name, text := range s.shell.Aliases() {
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
	commands, err := splitScript(strings.TrimRight(before, `"'`))
	if err == nil && len(commands) > 0 {
		words = commands[len(commands)-1]
	}
	return append(words, text[from:]), from
}

// Repeatable implements repl.Host.
func (h *host) Repeatable(line string) bool {
	commands, err := splitScript(line)
	if err != nil || len(commands) == 0 {
		return false
	}
	for _, words := range commands {
		if c, found := h.table.find(words[0], Line); !found || !c.Harmless {
			return false
		}
	}
	return true
}

// Secret implements repl.Host: no line that names a token or a password is kept.
func (h *host) Secret(line string) bool {
	line = strings.ToLower(line)
	for _, word := range []string{"token", "password", "secret"} {
		if strings.Contains(line, word) {
			return true
		}
	}
	return false
}
