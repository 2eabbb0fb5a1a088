package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/connect"
	"ringcli/cli/exit"
	"ringcli/cli/failure"
	"ringcli/cli/lines"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/cli/shell"
	"ringcli/cli/tables"
	"ringcli/trace"
)

const (
	// survivorsGrace is how long the other ranks have, after one has failed, to
	// find out for themselves and say so.
	survivorsGrace = 2 * time.Second
	// killAfter the pipe was closed, for a rank that does not end: longer than
	// its own ChildGrace.
	killAfter = session.ChildGrace + time.Second
)

func settingsOfLocal() []string {
	return session.Without(session.RingSettings, "list", "index")
}

// RanksFlag says how many ranks to run on this machine.
func RanksFlag(fs *pflag.FlagSet, ranks int64) {
	command.NumberFlag(fs, "ranks", "n", ranks, min(ranks, 1), maxLocalRanks, "how many ranks to run on this machine",
		"ranks to run on this machine, each a process with an address of its own")
}

func runLocal(ctx context.Context, s *session.Session, call command.Call) error {
	script, err := connect.ReadScript(s, call.Flags)
	if err != nil {
		return err
	}
	n := command.NumberOf(call.Flags, "ranks")
	if command.IsOn(call.Flags, "shell") {
		if script != "" || command.IsOn(call.Flags, "check") {
			return exit.Usagef("--shell with -c, -f or --check: expected it alone")
		}
		s.TakeFault(call.Flags)
		return localShell(ctx, s, call.Table, n, append([]string{"connect", "--follow"}, ChangedFlags(call.Flags, notForRanks...)...))
	}
	if script == "" {
		script = connect.SelfCheckName
	}
	if err := lines.Check(ctx, s, call.Table, script, n); err != nil {
		return err
	}
	args := append([]string{"connect"}, ChangedFlags(call.Flags, notForRanks...)...)
	return Run(ctx, s, n, append(args, "--command="+script))
}

// notForRanks are the flags of local that are not passed on.
var notForRanks = []string{"ranks", "command", "file", "check", "shell"}

// localShell is a shell as rank 0, which leads the other ranks: processes of this
// machine.
func localShell(ctx context.Context, s *session.Session, t *command.Table, n int, args []string) (err error) {
	port := s.Config.Int("tcp-port")
	net, err := ClaimSubnet(n, port)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, net.Close()) }()
	if err := shell.Open(s, t); err != nil {
		return err
	}
	for name, value := range map[string]string{"list": net.List(n, port), "index": "0"} {
		if s.Config, err = s.Config.With(name, value); err != nil {
			return err
		}
	}
	f, err := startProcesses(s, 1, n, args, net.List(n, port))
	if err != nil {
		return err
	}
	// The followers end when the leader says so, or when their pipe does.
	over := make(chan error, 1)
	gone, cancel := context.WithCancelCause(ctx)
	var left atomic.Bool // the shell
	go func() {
		err := f.wait(gone)
		// A rank that was killed is what the others' errors come from.
		if err != nil && !errors.Is(err, exit.ErrReported) && !errors.Is(err, context.Cause(gone)) {
			advice := ""
			if !left.Load() {
				advice = ": quit, and start again"
			}
			_, _ = fmt.Fprintf(s.Stderr, "ringcli: %v%s\n", err, advice)
			err = &exit.Error{Code: exit.Code(err), Err: exit.ErrReported}
		}
		over <- err
	}()
	err = connect.InRing(ctx, s, func(ctx context.Context) error { return shell.Run(ctx, s) })
	left.Store(true)
	if err != nil {
		cancel(err)
	}
	select {
	case ended := <-over:
		cancel(nil)
		if err == nil && exit.Code(ended) != exit.Interrupted {
			err = ended
		}
	case <-time.After(killAfter):
		cancel(exit.ErrInterrupted)
		err = errors.Join(err, <-over)
	}
	return err
}

// rankProcess is one rank as a child.
type rankProcess struct {
	rank int
	cmd  *exec.Cmd
	err  error // of Wait
}

// Run runs n ranks of a ring as processes with these arguments, which
// --index, --list and the pipe are added to. It returns when all have ended.
func Run(ctx context.Context, s *session.Session, n int, args []string) (err error) {
	port := s.Config.Int("tcp-port")
	net, err := ClaimSubnet(n, port)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, net.Close()) }()
	f, err := startProcesses(s, 0, n, args, net.List(n, port))
	if err != nil {
		return err
	}
	return f.wait(ctx)
}

// startProcesses starts the ranks from first to below n. If one cannot be started,
// those that were are ended.
func startProcesses(s *session.Session, first, n int, args []string, list string) (*family, error) {
	if _, _, err := tables.Of(s.Config); err != nil { // which rank 0 will read
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe to the ranks: %w", err)
	}
	f := &family{s: s, pipe: write, ended: make(chan *rankProcess, n), running: map[int]*rankProcess{}}
	if render.IsTerminal(s.Stderr) && s.Config.String("trace-format") == string(trace.Auto) {
		args = append(slices.Clone(args), "--trace-format="+string(trace.Text)) // the pipe to us is none
	}
	for rank := first; rank < n && err == nil; rank++ {
		err = f.start(rank, append(slices.Clone(args), "--index="+strconv.Itoa(rank), "--list="+list), read)
	}
	if err = errors.Join(err, read.Close()); err != nil {
		f.release()
		return nil, errors.Join(err, f.wait(context.Background()))
	}
	return f, nil
}

// family is the ranks of one ring, as the parent sees them.
type family struct {
	s       *session.Session
	pipe    *os.File // its end ends the ranks; nil once closed
	ended   chan *rankProcess
	running map[int]*rankProcess
	mu      sync.Mutex // guards the session's output
}

func (f *family) start(rank int, args []string, pipe *os.File) error {
	cmd := exec.Command("/proc/self/exe", append(args, "--"+session.ParentFlag+"=3")...)
	cmd.Args[0] = "ringcli"
	cmd.ExtraFiles = []*os.File{pipe}
	cmd.Stderr = &rankWriter{f: f, rank: rank, command: args[0]}
	if rank == 0 {
		cmd.Stdout = &lockedWriter{&f.mu, f.s.Stdout}
		if file, ok := f.s.Stdout.(*os.File); ok {
			cmd.Stdout = file // so that the leader sees whether it is a terminal
		}
		if render.IsTerminal(f.s.Stderr) {
			cmd.Stderr = f.s.Stderr // for the progress line
		}
	}
	if f.s.Interactive {
		// Ctrl-C is for the shell, which shares the terminal with the ranks.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	// A descendant that kept the streams open must not hold up the end.
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start rank %d: %w", rank, err)
	}
	p := &rankProcess{rank: rank, cmd: cmd}
	f.running[rank] = p
	go func() {
		p.err = cmd.Wait()
		if w, ok := cmd.Stderr.(*rankWriter); ok {
			w.flush(rankCode(p))
		}
		f.ended <- p
	}()
	return nil
}

// release closes the pipe, which ends every rank that still runs.
func (f *family) release() {
	if f.pipe != nil {
		// Nothing is buffered in a pipe that nobody wrote to.
		_ = f.pipe.Close()
		f.pipe = nil
	}
}

// wait collects all ranks. The first that fails, or Ctrl-C, ends the others.
func (f *family) wait(ctx context.Context) error {
	var (
		cancelled = ctx.Done()
		grace     <-chan time.Time // until the survivors are ended
		kill      <-chan time.Time
		killed    bool // the ranks that were left, by this process
		code      = exit.OK
		death     error
	)
	end := func() {
		f.release()
		kill = time.After(killAfter)
	}
	defer f.release()
	if f.pipe == nil {
		end()
	}
	for len(f.running) > 0 {
		select {
		case <-cancelled:
			cancelled = nil
			end()
		case <-grace:
			end()
		case <-kill:
			killed = true
			for _, p := range f.running {
				// It may have ended just now.
				_ = p.cmd.Process.Kill()
			}
		case p := <-f.ended:
			delete(f.running, p.rank)
			status := rankCode(p)
			if status == exit.Interrupted && f.pipe == nil {
				break // as it was told to
			}
			code = exit.Worse(code, status)
			if death == nil && !killed {
				death = p.obituary()
			}
			if status >= exit.Critical && grace == nil && kill == nil {
				grace = time.After(survivorsGrace)
			}
		}
	}
	switch {
	case death != nil && !errors.Is(context.Cause(ctx), exit.ErrInterrupted):
		return &exit.Error{Code: code, Err: death}
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case code != exit.OK:
		return &exit.Error{Code: code, Err: exit.ErrReported}
	}
	return nil
}

func rankCode(p *rankProcess) int {
	if p.err == nil || errors.Is(p.err, exec.ErrWaitDelay) {
		return exit.OK
	}
	var ended *exec.ExitError
	if errors.As(p.err, &ended) && ended.ExitCode() >= 0 {
		return ended.ExitCode()
	}
	return exit.Critical
}

// obituary says that a rank was killed; nil if it ended by itself.
func (p *rankProcess) obituary() error {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled():
		return fmt.Errorf("rank %d (pid %d) was killed by signal %d (%s); the other ranks were ended",
			p.rank, p.cmd.ProcessState.Pid(), status.Signal(), status.Signal())
	case ok && status.ExitStatus() == exit.Interrupted:
		return fmt.Errorf("rank %d (pid %d) was interrupted; the other ranks were ended", p.rank, p.cmd.ProcessState.Pid())
	}
	return nil
}

// rankWriter passes a rank's standard error on, whole lines with the rank.
type rankWriter struct {
	f        *family
	rank     int
	command  string
	part     []byte
	failures []string // in JSON, where they need the exit code
}

func (w *rankWriter) Write(b []byte) (int, error) {
	w.part = append(w.part, b...)
	for {
		i := slices.Index(w.part, '\n')
		if i < 0 {
			return len(b), nil
		}
		w.line(string(w.part[:i]))
		w.part = w.part[i+1:]
	}
}

// flush passes on what was left when the rank ended.
func (w *rankWriter) flush(code int) {
	if len(w.part) > 0 {
		w.line(string(w.part))
		w.part = nil
	}
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	for _, message := range w.failures {
		// Standard output that cannot be written leaves nowhere to say so.
		_ = w.f.s.Out.Print(failure.Failure{Command: w.command, Error: message, ExitCode: code, Rank: &w.rank})
	}
}

func (w *rankWriter) line(text string) {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	s := w.f.s
	message, isError := strings.CutPrefix(text, "ringcli: ")
	switch {
	case isError && w.rank > 0 && s.Out.Format() == render.JSON:
		w.failures = append(w.failures, message)
	case isError && w.rank > 0:
		_, _ = fmt.Fprintf(s.Stderr, "ringcli: rank %d: %s\n", w.rank, message)
	default: // a trace, which has its rank in it, or the leader's
		_, _ = fmt.Fprintln(s.Stderr, text)
	}
}

// lockedWriter takes turns with the other writers under a lock.
type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// Row is `ringcli local`.
func Row() command.Row {
	return command.Row{
		Name: "local", Group: command.GroupRing, Where: command.Process,
		Summary: "Run all ranks of a ring on this machine, as processes",
		Long: `Starts -n processes on this machine, each with a loopback address of its own in
a fresh subnet of 127.0.0.0/8, and runs the commands of -c or -f on all of them,
or the self-check (see connect). Rank 0's output is shown; the exit code is
that of the rank that fared worst.

` + connect.LineHelp,
		Example: `  ringcli local -n 4
  ringcli local -n 4 --shell
  ringcli local -n 2 -c 'all-reduce --protocol rendezvous-read --check'`,
		Settings: settingsOfLocal(),
		Flags: func(fs *pflag.FlagSet) {
			RanksFlag(fs, 4)
			connect.ScriptFlags(fs)
			fs.Bool("shell", false, "a shell as rank 0, which leads the other ranks")
			session.FaultFlag(fs)
		},
		Run: runLocal,
	}
}

// ChangedFlags returns the flags that were given, as arguments.
func ChangedFlags(flags *pflag.FlagSet, except ...string) []string {
	skip := map[string]bool{}
	for _, name := range except {
		skip[name] = true
	}
	var args []string
	flags.Visit(func(f *pflag.Flag) {
		if !skip[f.Name] {
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return args
}
