package repl

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pty is a terminal, held at both ends.
type pty struct {
	t       *testing.T
	master  *os.File // what a person types and sees
	slave   *os.File // the program's end
	drained chan struct{}

	mu   sync.Mutex
	seen bytes.Buffer
	from int // what has been waited for is before it
}

// newPTY returns an 80-column terminal that lives as long as the test.
func newPTY(t *testing.T) *pty {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	var number int
	conn, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if e := conn.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); e != nil || err != nil {
		t.Fatal(e, err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &pty{t: t, master: master, slave: slave, drained: make(chan struct{})}
	p.resize(80)
	go func() {
		defer close(p.drained)
		var b [4096]byte
		for {
			n, err := master.Read(b[:])
			p.mu.Lock()
			p.seen.Write(b[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = slave.Close()
		_ = master.Close()
		<-p.drained
	})
	return p
}

func (p *pty) resize(columns uint16) {
	p.t.Helper()
	if err := unix.IoctlSetWinsize(int(p.slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pty) termios() unix.Termios {
	p.t.Helper()
	now, err := unix.IoctlGetTermios(int(p.slave.Fd()), unix.TCGETS)
	if err != nil {
		p.t.Fatal(err)
	}
	return *now
}

func (p *pty) press(keys string) {
	p.t.Helper()
	if _, err := io.WriteString(p.master, keys); err != nil {
		p.t.Fatal(err)
	}
}

// see waits until text was shown after what was waited for before.
func (p *pty) see(text string) {
	p.t.Helper()
	for end := time.Now().Add(deadline); ; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		all := p.seen.String()
		at := strings.Index(all[p.from:], text)
		if at >= 0 {
			p.from += at + len(text)
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		if time.Now().After(end) {
			p.t.Fatalf("waited in vain for %q in %q after %q", text, all[p.from:], all[:p.from])
		}
	}
}

// shown is all that was.
func (p *pty) shown() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen.String()
}

// here runs a shell of this process on the terminal.
func (p *pty) here(o Options) (s *Shell, h *demoHost, ended chan error) {
	p.t.Helper()
	p.t.Setenv("TERM", "xterm")
	h = &demoHost{}
	o.Host, o.Stdin, o.Stdout, o.Stderr = h, p.slave, p.slave, p.slave
	s, err := New(o)
	if err != nil {
		p.t.Fatal(err)
	}
	h.shell = s
	ended = make(chan error, 1)
	go func() { ended <- s.Run(p.t.Context()) }()
	return s, h, ended
}

// ends checks that the shell ends, without an error.
func (p *pty) ends(ended chan error) {
	p.t.Helper()
	select {
	case err := <-ended:
		if err != nil {
			p.t.Errorf("the shell ended with %v", err)
		}
	case <-time.After(deadline):
		p.t.Fatalf("the shell did not end; it showed %q", p.shown())
	}
	const mark = "<ended>" // what the shell wrote last may still be on its way: another shell's is after this
	if _, err := io.WriteString(p.slave, mark+"\n"); err != nil {
		p.t.Fatal(err)
	}
	p.see(mark)
}

// program starts the demo shell as a process whose terminal this is.
func (p *pty) program(env ...string) *exec.Cmd {
	p.t.Helper()
	self, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), "TERM=xterm", asShell+"=", "GORACE=atexit_sleep_ms=0"), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.slave, p.slave, p.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd
}

// exits checks how the process ends.
func (p *pty) exits(cmd *exec.Cmd, code int) {
	p.t.Helper()
	timer := time.AfterFunc(deadline, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
	defer timer.Stop()
	_ = cmd.Wait() // the state says it
	if cmd.ProcessState.ExitCode() != code {
		p.t.Errorf("%v, want exit code %d; it showed %q", cmd.ProcessState, code, p.shown())
	}
}

func TestTerminalIsRestored(t *testing.T) {
	for name, leave := range map[string]func(p *pty, cmd *exec.Cmd){
		"Ctrl-D": func(p *pty, _ *exec.Cmd) { p.press("\x04") },
		"quit":   func(p *pty, _ *exec.Cmd) { p.press("quit\r") },
		"after a panic": func(p *pty, _ *exec.Cmd) {
			p.press("panic\r")
			p.see("the shell goes on")
			p.see("demo>")
			p.press("quit\r")
		},
		"SIGTERM at a prompt": func(p *pty, cmd *exec.Cmd) { p.press("half"); p.see("half"); _ = cmd.Process.Signal(syscall.SIGTERM) },
		"SIGHUP in a line": func(p *pty, cmd *exec.Cmd) {
			p.press("sleep 600\r")
			p.see("sleeping")
			_ = cmd.Process.Signal(syscall.SIGHUP)
		},
		"a line that hangs": func(p *pty, _ *exec.Cmd) {
			p.press("hang\r")
			p.see("hanging")
			for n := range 3 { // one after the other: signals that come at once are one
				p.press("\x03")
				p.see(fmt.Sprintf("<Ctrl-C %d>", n+1))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPTY(t)
			before := p.termios()
			cmd := p.program()
			p.see("demo>")
			eventually(t, "the terminal is raw", func() bool { return p.termios() != before })
			leave(p, cmd)
			switch {
			case strings.HasPrefix(name, "SIG"):
				p.exits(cmd, 4)
				p.see("ended by the signal")
			case name == "a line that hangs":
				p.exits(cmd, 130)
				p.see(`"hang" has not ended`)
			case name == "after a panic", name == "Ctrl-D", name == "quit":
				p.exits(cmd, 0)
			}
			if after := p.termios(); after != before {
				t.Errorf("before %+v\nafter  %+v", before, after)
			}
		})
	}
}

func TestCtrlCOnATerminal(t *testing.T) {
	p := newPTY(t)
	cmd := p.program()
	p.see("demo>")
	p.press("echo never\x03")
	p.see("^C")
	p.see("demo>")
	p.press("\x03")
	p.see("^C") // only then the prompt is the next one
	p.see("demo>")
	p.press("\x03")
	p.see("Ctrl-D or quit leaves")
	p.see("demo>")
	p.press("sleep 600\r")
	p.see("sleeping")
	p.press("\x03")
	p.see("interrupted")
	p.see("demo>")
	p.press("echo still\x04\x04 here\r") // Ctrl-D does not leave: there is text
	p.see("\nstill here")
	p.see("demo>")
	p.press("\x1b[3~\x00\x14\x1a") // Delete, Ctrl-Space, Ctrl-T, Ctrl-Z on an empty line
	p.press("a\x14b\x7f\x7f")      // Ctrl-T on one character
	p.press("echo alive\r")
	p.see("\nalive")
	p.see("demo>")
	p.press("error\r")
	p.see("this failed")
	p.see("demo>")
	p.press("\x04")
	p.exits(cmd, 2)
	if strings.Contains(p.shown(), "\nnever") {
		t.Error("a line that was cleared ran")
	}
}

func TestHangUp(t *testing.T) {
	p := newPTY(t)
	_, h, ended := p.here(Options{})
	p.see("demo>")
	p.press("echo half")
	p.see("half")
	if err := p.master.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		t.Logf("ended with %v", err) // its terminal cannot be restored
	case <-time.After(deadline):
		t.Fatal("the shell goes on without a terminal")
	}
	if ran := h.ran(); ran != nil {
		t.Errorf("half a line ran: %q", ran)
	}
}

// All that is printed while a line is edited appears whole, and the line is not
// harmed. Under the race detector this also shows that nothing but readline's
// own goroutine touches the line.
func TestOutputDuringEditing(t *testing.T) {
	p := newPTY(t)
	s, h, ended := p.here(Options{})
	p.see("demo>")
	stop, writers := make(chan struct{}), sync.WaitGroup{}
	for w := range 2 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					_, _ = fmt.Fprintf(s.Out(), "<trace %d %d>\n", w, i)
				}
			}
		})
	}
	long := strings.Repeat("0123456789", 30)
	var want []string
	for i := range 20 {
		line := fmt.Sprintf("echo %d %s", i, long[:i*15])
		want = append(want, strings.TrimSpace(line))
		for key := range strings.SplitSeq(line, "") {
			p.press(key)
		}
		p.press("\x1b[D\x1b[C\x01\x05\r") // left, right, to the begin, to the end
		if i%5 == 0 {
			p.resize(uint16(60 + i))
			_ = unix.Kill(os.Getpid(), unix.SIGWINCH) // it is not this process's own terminal
		}
	}
	eventually(t, "all lines ran", func() bool { return len(h.ran()) == len(want) })
	close(stop)
	writers.Wait()
	p.see("demo>")
	p.press("half")
	p.see("half")
	s.Quit() // leaves from within a line
	p.ends(ended)
	if got := strings.Join(h.ran(), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("ran %s", got)
	}
	for line := range strings.SplitSeq(p.shown(), "\n") {
		text := string(plainText([]byte(line)))
		if at := strings.Index(text, "<trace"); at >= 0 && !strings.HasSuffix(strings.TrimRight(text, "\r"), ">") {
			t.Errorf("a line was cut: %q", line)
		}
	}
}

func TestCompletionOnATerminal(t *testing.T) {
	p := newPTY(t)
	_, h, ended := p.here(Options{})
	p.see("demo>")
	p.press("e\t")
	p.see("echo   prints")
	p.see("error  fails")
	p.press("c\tl\tr\ta\t\r")
	p.see("\nleft right a") // what it prints: only then the prompt is the next one
	p.see("demo>")
	p.press("unknown\t\x15\x04")
	p.ends(ended)
	if got := h.ran(); len(got) != 1 || got[0] != `echo left right a\ b` {
		t.Errorf("ran %q", got)
	}
}

func TestHistoryOnATerminal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history")
	p := newPTY(t)
	_, _, ended := p.here(Options{HistoryFile: file})
	p.see("demo>")
	p.press("\x12\x03") // Ctrl-R without a history
	p.see("demo>")
	p.press("echo first\recho second\rtoken x\r\x04")
	p.ends(ended)

	_, h, ended := p.here(Options{HistoryFile: file})
	p.see("demo>")
	p.press("\x12fir") // Ctrl-R
	p.see("bck-i-search: fir")
	p.press("\r")
	p.see("\nfirst")
	p.press("\x12sec\x03") // given up, and the line cleared
	p.press("\x03")
	p.press("\x1b[A\x1b[A\r") // up, up
	p.see("\nsecond")
	p.see("demo>")
	p.press("\x04")
	p.ends(ended)
	if got := strings.Join(h.ran(), "|"); got != "echo first|echo second" {
		t.Errorf("ran %q", got)
	}
}
