package render

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"ringcli/trace"
)

// The settings of a pager that name no command.
const (
	PagerAuto = "auto" // $PAGER, else less, if there is one
	PagerOff  = "off"
)

// pagerGrace is how long a pager may take to end once it is told to.
const pagerGrace = time.Second

// Pager is a writer to a terminal that keeps what is written until Show, which gives it to
// a program that shows it page by page if it is longer than the terminal. Who waits for it
// reads: it is for what is read at once, not for what comes row by row.
type Pager struct {
	w    io.Writer
	text bytes.Buffer
	// Command is the program and its arguments, PagerAuto or PagerOff.
	Command string
	// Lend, if set, leaves the terminal and Ctrl-C to the program, which shows a text, until
	// the returned function is called.
	Lend func(text []byte) (back func())
}

// NewPager returns a Pager for a stream; nil if that is no terminal that one can be read on.
func NewPager(w io.Writer, command string) *Pager {
	if !trace.IsTerminal(w) || os.Getenv("TERM") == "" || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &Pager{w: w, Command: command}
}

// Write keeps b.
func (p *Pager) Write(b []byte) (int, error) { return p.text.Write(b) }

// Fd is the terminal's, so that what is written is as wide and as coloured as it.
func (p *Pager) Fd() uintptr { return p.w.(interface{ Fd() uintptr }).Fd() }

// Show shows what was written: in a pager, or all at once if it fits the terminal, the
// context has ended, or the pager cannot be started. A pager that is left early, or ended,
// has shown enough.
func (p *Pager) Show(ctx context.Context) error {
	text := bytes.Clone(p.text.Bytes())
	p.text.Reset()
	// The prompt takes a line, too.
	columns, most := trace.TerminalSize(p.w)
	if ctx.Err() == nil && columns > 0 && rows(text, columns) >= most && p.page(ctx, text) {
		return nil
	}
	_, err := p.w.Write(text)
	return err
}

// page tells whether a pager was started.
func (p *Pager) page(ctx context.Context, text []byte) bool {
	words := pagerWords(p.Command)
	if len(words) == 0 {
		return false
	}
	terminal, err := unix.FcntlInt(p.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return false
	}
	screen := os.NewFile(uintptr(terminal), "terminal")
	defer func() { _ = screen.Close() }()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), screen, screen
	cmd.Env = os.Environ()
	if _, set := os.LookupEnv("LESS"); !set {
		cmd.Env = append(cmd.Env, "LESS=FRX") // as git has it: colours, and the page stays
	}
	// Ended by SIGTERM it gives the terminal back; it outlives this process in no case. The
	// signal comes when the thread ends that has started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.WaitDelay = pagerGrace
	if p.Lend != nil {
		defer p.Lend(text)()
	}
	before, unknown := unix.IoctlGetTermios(terminal, unix.TCGETS)
	if err := cmd.Start(); err != nil {
		return false
	}
	_ = cmd.Wait() // what it ends with says nothing of what was to be shown
	if unknown == nil {
		_ = unix.IoctlSetTermios(terminal, unix.TCSETSW, before)
	}
	return true
}

// pagerWords are a pager and its arguments; none for no pager.
func pagerWords(command string) []string {
	if command == PagerAuto || command == "" {
		var set bool
		if command, set = os.LookupEnv("PAGER"); !set {
			command = "less -FRX"
		}
	}
	if command == PagerOff || command == "cat" {
		return nil
	}
	return strings.Fields(command)
}

// rows is how many rows of a terminal a text takes.
func rows(text []byte, width int) (n int) {
	for line := range strings.Lines(string(text)) {
		columns := utf8.RuneCountInString(colours.ReplaceAllString(strings.TrimRight(line, "\n"), ""))
		n += max(1, (columns+width-1)/width)
	}
	return n
}

// colours are what paint and the traces put into a text (ECMA-48, select graphic rendition).
var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")
