package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"ringcli/cli/exit"
	"ringcli/cli/failure"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/cli/tables"
	"ringcli/configs/codes"
	"ringcli/ring/bootstrap/seal"
	"ringcli/trace"
	"ringcli/verbs/cpu"
)

// killAfter the pipe was closed, for a rank that does not end: longer than
// its own ChildGrace.
const killAfter = session.ChildGrace + time.Second

// crowd is the ranks to a CPU from which on people are told what that means.
const crowd = 16

type rankProcess struct {
	rank int
	cmd  *exec.Cmd
	err  error // of Wait
}

// startProcesses starts the ranks from first to below n. If one cannot be started,
// those that were are ended. Rank 0 writes what it found to report, if that is not nil.
func startProcesses(s *session.Session, first, n int, args []string, list string, report *os.File) (*processes, error) {
	if _, _, err := tables.Of(s.Config); err != nil { // which rank 0 will read
		return nil, err
	}
	if err := session.RoomFor(n - first); err != nil {
		return nil, err
	}
	if cpus, err := cpu.Allowed(); err == nil && n > crowd*len(cpus) {
		trace.Warn(trace.Ring, fmt.Sprintf("%d ranks on %d CPUs: each waits for its turn: times tell of the scheduler, and waits last longer: give a longer --timeout if one ends too soon", n, len(cpus)))
	}
	token := seal.Random() // this ring's alone
	if first > 0 {         // the others are of this process
		s.Secrets.Use(token)
	}
	// The user's own is for rings of several hosts.
	args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return strings.HasPrefix(arg, "--token-file=") })
	secrets, err := s.Secrets.HandOver(s.Config, token)
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a pipe to the ranks: %w", err), secrets.Close())
	}
	f := &processes{s: s, list: list, pipe: write, secrets: secrets, report: report, ended: make(chan *rankProcess, n), running: map[int]*rankProcess{}}
	if trace.IsTerminal(s.Stderr) && s.Config.String("trace-format") == string(trace.Auto) {
		args = append(slices.Clone(args), "--trace-format="+string(trace.Text)) // the pipe to us is none
	}
	f.args = args
	for rank := first; rank < n && err == nil; rank++ {
		err = f.start(rank, read)
	}
	if err = errors.Join(err, read.Close()); err != nil {
		f.release()
		return nil, errors.Join(err, f.wait(context.Background()))
	}
	return f, nil
}

// processes are the ranks of one ring, as the parent sees them.
type processes struct {
	s       *session.Session
	args    []string // of each rank, and the list of all
	list    string
	pipe    *os.File // its end ends the ranks; nil once closed
	secrets *os.File // the ranks' token; open as long as pipe
	report  *os.File // rank 0 writes to it; nil for nobody
	ended   chan *rankProcess
	running map[int]*rankProcess
	mu      sync.Mutex // guards the session's output
}

func (f *processes) start(rank int, pipe *os.File) error {
	args := append(slices.Clone(f.args), "--index="+strconv.Itoa(rank), "--list="+f.list)
	cmd := exec.Command("/proc/self/exe", append(args, "--"+session.ParentFlag+"=3", "--"+session.SecretsFlag+"=4")...)
	cmd.Args[0] = "ringcli"
	cmd.ExtraFiles = []*os.File{pipe, f.secrets}
	cmd.Stderr = &rankWriter{f: f, rank: rank}
	if rank == 0 && f.report != nil {
		cmd.Args = append(cmd.Args, "--"+session.ReportFlag+"=5")
		cmd.ExtraFiles = append(cmd.ExtraFiles, f.report)
	}
	if rank == 0 {
		cmd.Stdout = &lockedWriter{&f.mu, f.s.Stdout}
		if file, ok := f.s.Stdout.(*os.File); ok {
			cmd.Stdout = file // so that the leader sees whether it is a terminal
		}
		if trace.IsTerminal(f.s.Stderr) {
			cmd.Stderr = f.s.Stderr // for the progress line
		}
	}
	ledger, err := f.listen(cmd, rank)
	if err != nil {
		return err
	}
	if f.s.Interactive {
		// Ctrl-C is for the shell, which shares the terminal with the ranks.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	// A descendant that kept the streams open must not hold up the end.
	cmd.WaitDelay = time.Second
	err = cmd.Start()
	heard := ledger.hear(f.s.Ledger, rank, err == nil)
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return fmt.Errorf("start rank %d: %w; raise the limit of open files (`ulimit -n`) or start fewer ranks", rank, err)
	} else if err != nil {
		return fmt.Errorf("start rank %d: %w", rank, err)
	}
	p := &rankProcess{rank: rank, cmd: cmd}
	f.running[rank] = p
	go func() {
		p.err = cmd.Wait()
		if w, ok := cmd.Stderr.(*rankWriter); ok {
			w.flush()
		}
		heard(p)
		f.ended <- p
	}()
	return nil
}

// release closes the pipe, which ends every rank that still runs.
func (f *processes) release() {
	if f.pipe != nil {
		// Nothing is buffered in a pipe that nobody wrote to.
		_ = f.pipe.Close()
		_ = f.secrets.Close()
		f.pipe = nil
	}
}

// tended are the ranks of a shell, which starts those again that have ended.
type tended struct {
	requests chan revival
	left     chan struct{} // closed when the shell has ended: the ranks end by themselves
	within   time.Duration // limits the wait for each
}

// reviveWithin is far more than it takes to start as many processes as there are ranks.
const reviveWithin = time.Minute

// revival has the ranks that have ended, or end until it is over, started again, each
// once, but for some.
type revival struct {
	begins  bool
	without []int
	done    chan<- error // of one that begins; has room
}

// revive implements session.Place.Revive.
func (t *tended) revive(without []int) (end func(), err error) {
	done := make(chan error, 1)
	if err := t.request(revival{true, without, done}); err != nil {
		return nil, err
	}
	end = func() { _ = t.request(revival{}) } // whoever does not take it has ended, or is told no more
	select {
	case err = <-done:
		return end, err
	case <-time.After(t.within):
		end()
		return nil, fmt.Errorf("start ranks again: waited %v for the start of those that have ended, without %v", t.within, without)
	}
}

// request hands a request to tend.
func (t *tended) request(r revival) error {
	select {
	case t.requests <- r:
		return nil
	case <-t.left:
		return errors.New("start ranks again: the shell that they belong to has ended")
	case <-time.After(t.within):
		return fmt.Errorf("start ranks again: waited %v for what starts the ranks of this machine, which is at others still", t.within)
	}
}

// tend collects the ranks of a shell until that has ended, and waits for the rest then. The
// exit code is that of the worst that nobody has started again or left out.
func (f *processes) tend(ctx context.Context, t *tended) error {
	fallen := map[int]int{} // exit codes
	var now revival
	var again []int // ranks that were started since it began
	for {
		select {
		case <-t.left:
			code := exit.OK
			for _, c := range fallen {
				code = exit.Worse(code, c)
			}
			err := f.wait(ctx)
			// A rank that was killed is what the others' errors come from.
			if err != nil && !errors.Is(err, exit.ErrReported) && !errors.Is(err, context.Cause(ctx)) {
				_ = render.New(f.s.Stderr, render.Table).Complain(render.Bad, err.Error())
				return &exit.Error{Code: exit.Code(err), Err: exit.ErrReported}
			}
			if err == nil && code != exit.OK {
				err = &exit.Error{Code: code, Err: exit.ErrReported}
			}
			return err
		case p := <-f.ended:
			delete(f.running, p.rank)
			fallen[p.rank] = rankCode(p)
			if now.begins && !slices.Contains(again, p.rank) {
				again = append(again, p.rank)
				if err := f.restart(fallen, now.without); err != nil {
					_ = render.New(f.s.Stderr, render.Table).Complain(render.Bad, err.Error())
				}
				continue
			}
			if death, _ := p.killedBy(); death != nil {
				_ = render.New(f.s.Stderr, render.Table).Complain(render.Bad, fmt.Sprintf("%v: `reconnect` starts it again, `reconnect --without %d` goes on without it", death, p.rank))
			}
		case now = <-t.requests:
			again = nil
			if now.begins {
				now.done <- f.restart(fallen, now.without)
			}
		}
	}
}

// restart starts the ranks that have fallen, but for some.
func (f *processes) restart(fallen map[int]int, without []int) error {
	var again []int
	for rank := range fallen {
		if fallen[rank] = exit.OK; !slices.Contains(without, rank) {
			again = append(again, rank)
		}
	}
	if len(again) == 0 {
		return nil
	}
	read, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", f.pipe.Fd()))
	if err != nil {
		return fmt.Errorf("start ranks again: %w", err)
	}
	for _, rank := range again {
		if err = f.start(rank, read); err != nil {
			break
		}
		delete(fallen, rank)
	}
	return errors.Join(err, read.Close())
}

// wait collects all ranks. The first that fails, or Ctrl-C, ends the others.
func (f *processes) wait(ctx context.Context) error {
	var (
		cancelled = ctx.Done()
		grace     <-chan time.Time // until the survivors are ended
		kill      <-chan time.Time
		killed    bool // the ranks that were left, by this process
		code      = exit.OK
		death     error
		byUser    bool // is what death is
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
			if exit.IsInterruption(status) && f.pipe == nil {
				break // as it was told to
			}
			code = exit.Worse(code, status)
			if death == nil && !killed {
				death, byUser = p.killedBy()
			}
			switch {
			case kill != nil:
			case status == exit.Pipe:
				end()
			case status >= exit.Critical && grace == nil:
				grace = time.After(f.s.SurvivorsGrace)
			}
		}
	}
	if death != nil && byUser {
		// By a signal to the whole group, perhaps, which is about to come here, too.
		select {
		case <-ctx.Done():
		case <-time.After(session.GroupSignal):
		}
	}
	switch {
	case death != nil && !errors.Is(context.Cause(ctx), exit.ErrInterrupted):
		return codes.With(codes.Lost, &exit.Error{Code: code, Err: fmt.Errorf("%w; the other ranks were ended", death)})
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

// killedBy says that a rank was killed, and whether as a user ends a program; nil if it
// ended by itself.
func (p *rankProcess) killedBy() (death error, byUser bool) {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled():
		by := status.Signal()
		return fmt.Errorf("rank %d (pid %d) was killed by signal %d (%s)",
			p.rank, p.cmd.ProcessState.Pid(), by, by), by == syscall.SIGINT || by == syscall.SIGTERM
	case ok && status.ExitStatus() == exit.Interrupted:
		return fmt.Errorf("rank %d (pid %d) was interrupted", p.rank, p.cmd.ProcessState.Pid()), true
	case ok && status.ExitStatus() == exit.Terminated:
		return fmt.Errorf("rank %d (pid %d) was terminated", p.rank, p.cmd.ProcessState.Pid()), true
	}
	return nil, false
}

// rankWriter passes a rank's standard error on, whole lines with the rank.
type rankWriter struct {
	f    *processes
	rank int
	part []byte
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
func (w *rankWriter) flush() {
	if len(w.part) > 0 {
		w.line(string(w.part))
		w.part = nil
	}
}

func (w *rankWriter) line(text string) {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	s := w.f.s
	message, isError := strings.CutPrefix(text, "ringcli: ")
	var f failure.Failure
	switch {
	case w.rank > 0 && s.Out.Format() == render.JSON && json.Unmarshal([]byte(text), &f) == nil && f.Code != "":
		f.Rank = &w.rank
		// Standard output that cannot be written leaves nowhere to say so.
		_ = s.Out.Print(f)
	case isError && w.rank > 0:
		_ = render.New(s.Stderr, render.Table).Complain(render.Bad, fmt.Sprintf("rank %d: %s", w.rank, message))
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
