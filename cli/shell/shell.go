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
	"ringcli/configs/trust"
	"ringcli/repl"
	"ringcli/ring"
	"ringcli/ring/bootstrap"
)

// Open makes the shell, through which all output goes from now on.
func Open(s *session.Session, t *command.Table) error {
	h := &host{Turns: &session.Turns{Base: s}, table: t}
	history, init := trusted(s, "history", historyFile()), trusted(s, "init file", initFile())
	shell, err := repl.New(repl.Options{
		Host: h, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr, HistoryFile: history, Init: init,
		OnError: h.report, Interrupt: h.interrupt,
	})
	if err != nil {
		return err
	}
	s.Interactive = true
	s.Shell, s.Jobs, s.Explain = shell, shell.Jobs(), h.explain
	s.Turns = h.Turns
	s.Stdout, s.Stderr = shell.Out(), shell.Err()
	s.Out = s.Printer()
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

// historyFile is where typed lines are kept; "" without a home directory.
func historyFile() string {
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "ringcli", "history")
	}
	dir, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, ".local", "state", "ringcli", "history")
}

// initFile has the lines that a shell runs first; "" without a home directory.
func initFile() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "ringcli", "init.ring")
}

// trusted is a file's path, or "" after a message if another user can change the file: HOME
// can be another user's, as under sudo. The shell reports other errors when it opens the file.
func trusted(s *session.Session, what, path string) string {
	if path == "" {
		return ""
	}
	err := trust.CheckPlace(path)
	if !errors.Is(err, trust.ErrUntrusted) {
		return path
	}
	_ = render.New(s.Stderr, render.Table).Complain(render.Fair, fmt.Sprintf("the shell's %s %s is not used: %v", what, path, err))
	return ""
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

// host runs the shell's lines, each in a session of its own: a fork of the base of the
// turns, so that a line in the background and one in front share nothing but the ring.
type host struct {
	table *command.Table
	*session.Turns
	// The lock of the turns guards these.
	front *session.Session // the line in front, if one runs
	told  *ring.Ring       // that it has failed
}

// Prompt implements repl.Host.
func (h *host) Prompt() (string, repl.Mood) {
	h.Mu.Lock()
	r := h.Base.Ring
	h.Mu.Unlock()
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
		err = h.over(s, err)
	}
	if cause := context.Cause(ctx); errors.Is(cause, repl.ErrInterrupted) || errors.Is(cause, repl.ErrStopped) {
		if why := s.Interrupted(exit.ErrInterrupted); why != nil && (s.Ring == nil || !s.Ring.Failed()) {
			return why
		}
		return fmt.Errorf("%w: %w", exit.ErrInterrupted, err)
	}
	return err
}

// explain says of the first job that a ring has failed under what that leads to.
func (h *host) explain(_ context.Context, s *session.Session, err error) error {
	h.Mu.Lock()
	news := s.Ring != nil && s.Ring != h.told && s.Ring.Failed()
	h.Mu.Unlock()
	if news {
		err = h.over(s, err)
	}
	return err
}

// over is told of a ring that has failed.
func (h *host) over(s *session.Session, err error) error {
	h.Mu.Lock()
	h.told = s.Ring
	h.Mu.Unlock()
	return over(s, err)
}

func (h *host) fork(ctx context.Context) *session.Session {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if job := session.OfJob(ctx); job != nil { // which runs lines itself
		s := h.Base.ForJob()
		s.Out.Job, s.Running, s.Stop = job.Out.Job, job.Running, job.Stop
		return s
	}
	s := h.Base.Fork()
	h.front = s
	return s
}

// merge takes over what a line has changed. Settings are those of the front.
func (h *host) merge(ctx context.Context, s *session.Session) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if s.Fresh {
		h.Base.Results = s.Results
	}
	if session.OfJob(ctx) != nil {
		return
	}
	h.front = nil
	// A line that runs others, such as source, must not undo what they set.
	if s.Config != s.Forked {
		h.Base.Config = s.Config
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
		h.Mu.Lock()
		r := h.Base.Ring
		news := r != nil && r != h.told && r.Failed() && h.front == nil && len(h.Base.Jobs.List()) == 0
		if news {
			h.told = r
		}
		h.Mu.Unlock()
		if news {
			h.report(over(h.Base, r.Err()))
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

// interrupt is the n-th Ctrl-C: what can stops at its next boundary, all else is
// cancelled.
func (h *host) interrupt(n int, cancel func()) {
	h.Mu.Lock()
	s := h.front
	h.Mu.Unlock()
	if s == nil || n > 1 || !s.AskToStop("; Ctrl-C again cancels it") {
		cancel()
		return
	}
	time.AfterFunc(s.StopGrace, cancel) // which does nothing once the line has ended
}

// report prints an error of a line.
func (h *host) report(err error) {
	h.Mu.Lock()
	s := h.Base.Fork()
	h.Mu.Unlock()
	failure.Report(s, "shell", err, exit.Code(err))
}

// Complete implements repl.Host.
func (h *host) Complete(line string, pos int) ([]repl.Candidate, int) {
	return Complete(h.Base, h.table, line[:pos])
}

// Complete asks cobra what the last word of the last command may become.
func Complete(s *session.Session, t *command.Table, text string) ([]repl.Candidate, int) {
	words, from := lastCommand(text)
	if len(words) > 1 && s.Shell != nil {
		if full, is := s.Shell.Aliases()[words[0]]; is {
			if expanded, err := lines.Split(full); err == nil && len(expanded) > 0 {
				words = append(expanded[len(expanded)-1].Words, words[1:]...)
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
	if last := len(commands) - 1; err == nil && last >= 0 && !commands[last].Job {
		words = commands[last].Words
	}
	return append(words, text[from:]), from
}

// Repeatable implements repl.Host.
func (h *host) Repeatable(line string) bool {
	commands, err := lines.Split(line)
	if err != nil || len(commands) == 0 {
		return false
	}
	return !slices.ContainsFunc(commands, func(given repl.Command) bool {
		c, found := h.table.Find(given.Words[0], command.Line)
		return !found || !c.Harmless || given.Job
	})
}

// Secret implements repl.Host: no line that names a token or a password is kept.
func (h *host) Secret(line string) bool {
	return secrets.MatchString(line)
}

var secrets = regexp.MustCompile(`(?i)token|password|secret`)
