package repl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/trace"
)

// A Shell reads lines and runs them until it is left. Run is called once; all
// other methods may be called from any goroutine, also by the Host while it runs
// a line.
type Shell struct {
	options     Options
	host        Host
	screen      *screen
	out, err    *stream
	editor      editor
	term        *terminal // nil if stdin is none
	onTerminal  io.Writer // where the prompt is; nil if there is none
	interactive bool      // lines are typed on a terminal
	color       bool
	timing      atomic.Bool // the time that a line took is printed after it

	jobs *Jobs // its own lock

	quit     context.Context // ended by Quit
	quitNow  context.CancelFunc
	exit     func(code int) // os.Exit
	patience time.Duration  // leaveAfter

	mu      sync.Mutex // guards what follows
	history history
	aliases map[string]string
	last    error       // of the last line
	front   *foreground // what Ctrl-C is for; nil: the editor
}

// New returns a Shell for a Host. Run reads the history; one that cannot be read
// is reported, and the shell goes on without it.
func New(o Options) (*Shell, error) {
	if o.Host == nil {
		return nil, errors.New("repl: Options.Host is nil: expected who runs the commands")
	}
	s := &Shell{
		options:  o,
		host:     o.Host,
		exit:     os.Exit,
		patience: leaveAfter,
		jobs:     NewJobs(context.Background()),
		aliases:  map[string]string{},
		history:  history{path: o.HistoryFile, limit: historyLimit},
	}
	s.quit, s.quitNow = context.WithCancel(context.Background())
	if err := s.openTerminal(); err != nil {
		return nil, err
	}
	return s, nil
}

// Host is who runs the Shell's commands.
func (s *Shell) Host() Host { return s.host }

// openTerminal finds out what the streams are, and makes the streams and the
// editor that fit.
func (s *Shell) openTerminal() error {
	o := &s.options
	in, inFile := o.Stdin.(*os.File)
	typed := inFile && trace.IsTerminal(in)
	s.interactive = typed
	s.screen = &screen{escapes: !dumb()}
	newStream := func(w io.Writer) *stream {
		return &stream{s: s.screen, w: w, onScreen: trace.IsTerminal(w)}
	}
	s.out, s.err = newStream(o.Stdout), newStream(o.Stderr)
	if typed {
		s.term = &terminal{fd: int(in.Fd())}
		for _, each := range []*stream{s.err, s.out} {
			if each.onScreen {
				s.onTerminal = each.w
			}
		}
	}
	s.screen.prompts = s.onTerminal != nil
	// NO_COLOR counts if it is not empty (https://no-color.org).
	s.color = s.screen.prompts && s.screen.escapes && os.Getenv("NO_COLOR") == ""

	out, outFile := o.Stdout.(*os.File)
	var err error
	if typed && s.out.onScreen && outFile && !dumb() {
		s.editor, err = newLineEditor(s, in, out)
	} else {
		s.editor, err = newPlainEditor(o.Stdin, s.onTerminal, s.screen.take)
	}
	if err != nil {
		return fmt.Errorf("repl: prepare to read lines: %w", err)
	}
	s.screen.wake = s.editor.show
	return nil
}

// Run runs the init file and then lines until Quit, Ctrl-D or the end of the
// input, or, where lines are not typed on a terminal, the first that fails (see
// LastError). It then stops the jobs; where lines are not typed and none has failed it waits
// for them before. It returns the context's cause if that
// ended it, and a *SignalError after SIGTERM or SIGHUP.
//
// While it runs, SIGINT is the Shell's.
func (s *Shell) Run(ctx context.Context) (err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	s.jobs.mu.Lock()
	s.jobs.root = ctx
	s.jobs.mu.Unlock()
	stopSignals := s.handleSignals(end)
	defer stopSignals()
	if s.term != nil {
		// A terminal that was left in disorder gets Ctrl-C back meanwhile.
		if err := s.term.cooked(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.term.restore()) }()
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()

	if s.interactive {
		if err := s.history.load(); err != nil {
			s.options.OnError(err)
		}
		s.editor.SetHistory(s.History())
	}
	if s.runInit(ctx) {
		err = s.loop(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// close ends the jobs, and transcript and editor.
func (s *Shell) close(ctx context.Context) error {
	if !s.interactive && s.LastError() == nil && ctx.Err() == nil {
		s.done(s.foreground(ctx, "wait", s.waitJobs))
	}
	if err := s.jobs.StopAll(); err != nil {
		s.options.OnError(err)
	}
	return errors.Join(s.SetTranscript(""), s.editor.Close())
}

// waitJobs waits for the jobs. That one has failed was told when it ended.
func (s *Shell) waitJobs(ctx context.Context) error {
	ended, err := s.jobs.Wait(ctx, 0)
	failed := slices.IndexFunc(ended, func(j Job) bool { return j.State == JobFailed })
	s.mu.Lock()
	defer s.mu.Unlock()
	if failed >= 0 && s.last == nil {
		s.last = ended[failed].Err
	}
	return err
}

// Jobs are the commands in the background, which end with the shell.
func (s *Shell) Jobs() *Jobs { return s.jobs }

// runInit tells whether to go on.
func (s *Shell) runInit(ctx context.Context) bool {
	if s.options.Init == "" {
		return true
	}
	text, name, err := ReadFile(s.options.Init)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true
	case err != nil:
		return s.done(err)
	}
	return s.done(s.foreground(ctx, s.options.Init, func(ctx context.Context) error {
		return s.source(ctx, s.options.Init, name, text, false)
	}))
}

// loop reads and runs lines.
func (s *Shell) loop(ctx context.Context) error {
	editing, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(s.quit, func() { stop(nil) })()
	cleared := 0 // Ctrl-C on an empty line, in a row
	last := ""
	for ctx.Err() == nil && s.quit.Err() == nil {
		prompt, line, err := s.readLine(editing)
		switch {
		case s.quit.Err() != nil || ctx.Err() != nil || errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errCleared):
			if cleared++; strings.TrimSpace(line) != "" {
				cleared = 0
			}
			if cleared >= 2 {
				_, _ = fmt.Fprintln(s.out, "Ctrl-D or quit leaves")
			}
			if !s.interactive {
				s.done(ErrInterrupted)
				return nil
			}
			continue
		case err != nil:
			return fmt.Errorf("read a line: %w", err)
		}
		cleared = 0
		text := strings.TrimSpace(line)
		if text == "" {
			if !s.interactive || last == "" || !s.host.Repeatable(last) {
				continue
			}
			text = last
		}
		s.remember(prompt, line, text)
		last = text
		if !s.done(s.foreground(ctx, text, func(ctx context.Context) error { return s.line(ctx, text) })) {
			return nil
		}
	}
	return nil
}

// readLine reads a line, and what it goes on with where a quote is open, unless
// it is typed: then the Host says what is wrong with it.
func (s *Shell) readLine(ctx context.Context) (prompt, line string, err error) {
	shown, prompt := s.prompt()
	s.screen.edit(s.onTerminal)
	defer func() { s.screen.edited(s.onTerminal) }()
	line, err = s.editor.ReadLine(ctx, shown)
	for err == nil && !s.interactive && Lex(line).Open != 0 {
		var more string
		if more, err = s.editor.ReadLine(ctx, ""); err == nil {
			line += "\n" + more
		}
	}
	if errors.Is(err, io.EOF) && line != "" {
		err = nil // the Host says what is missing
	}
	return prompt, line, err
}

// prompt is the Host's prompt, as it is shown and without colours.
func (s *Shell) prompt() (shown, plain string) {
	text, mood := s.host.Prompt()
	text = strings.TrimRight(text, " ")
	if s.color {
		return mood.paint(text) + " ", text + " "
	}
	return text + " ", text + " "
}

// paint colours text (ECMA-48, select graphic rendition).
func (m Mood) paint(text string) string {
	code := map[Mood]string{Good: "32", Busy: "33", Bad: "31"}[m]
	if code == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// remember puts a line into transcript and history. As in other shells, one that
// begins with a space is not remembered.
func (s *Shell) remember(prompt, line, text string) {
	if s.secret(text) {
		s.typed(prompt, "(left out)")
		return
	}
	s.typed(prompt, text)
	if !s.interactive || strings.HasPrefix(line, " ") {
		return
	}
	s.mu.Lock()
	err := s.history.add(text)
	s.mu.Unlock()
	s.editor.SetHistory(s.History())
	if err != nil {
		s.options.OnError(err)
	}
}

// secret asks the Host also about what the aliases of a line stand for.
func (s *Shell) secret(line string) bool { return s.host.Secret(line) || s.host.Secret(s.expand(line)) }

// done keeps and reports what a line ended with, and tells whether to go on.
func (s *Shell) done(err error) bool {
	s.mu.Lock()
	if err != nil || s.interactive {
		s.last = err
	}
	s.mu.Unlock()
	if err == nil {
		return true
	}
	s.options.OnError(err)
	return s.interactive
}

// Quit leaves the Shell once the line that is running has ended, or now.
func (s *Shell) Quit() { s.quitNow() }

// Out is standard output as everything in the process must write to it: lines
// that arrive while one is edited are shown above the prompt, once they are
// whole. Its Fd says whether it is a terminal.
func (s *Shell) Out() io.Writer { return s.out }

// Err is the same for standard error.
func (s *Shell) Err() io.Writer { return s.err }

// Interactive tells whether lines are typed on a terminal.
func (s *Shell) Interactive() bool { return s.interactive }

// LastError is the error of the last line if lines are typed on a terminal, and
// else that of the last line that failed, or of a job that failed and was not
// waited for; nil if there is none.
func (s *Shell) LastError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// History returns the lines that were typed, oldest first.
func (s *Shell) History() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.history.lines)
}

// handleSignals gives SIGINT to the foreground or the editor, and ends the shell
// at SIGTERM and SIGHUP, until the returned function is called.
func (s *Shell) handleSignals(end context.CancelCauseFunc) (stop func()) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for sig := range signals {
			if sig == unix.SIGINT {
				s.interrupt()
				continue
			}
			end(&SignalError{sig})
			s.leaveLater(128 + int(sig.(unix.Signal)))
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-ended
	}
}
