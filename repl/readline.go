package repl

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/chzyer/readline"
	"golang.org/x/sys/unix"
)

// lineEditor edits lines with readline, which has faults that it keeps away:
//
//   - Close hangs while a line is read, or leaves goroutines: a line is given up
//     by keys (see filter) and only then the terminal is closed, not the whole.
//   - Any goroutine that prints races with the one that edits: they print
//     through the queue, which the editing goroutine empties.
//   - The list of candidates is drawn wrongly on a line that wraps, and fails on
//     one wider than the window: candidates are printed above the prompt.
//   - At the start of a wrapped row it steps back before it goes up, which leads
//     one row too far up on terminals that step back across rows: see upward.
//   - The end of a file and Ctrl-Space run a half-typed line or end the editor,
//     the Delete key leaves the shell, Ctrl-T on one character and Ctrl-R
//     without a history panic: see filter and keys.
//   - It stops the parent too at Ctrl-Z, handles signals for the whole process
//     and writes the history for all to read: it is not asked to.
type lineEditor struct {
	shell    *Shell
	out      *os.File
	term     terminal
	keys     *keys
	rl       *readline.Instance // nil before the first line
	history  []string
	resized  chan os.Signal
	reflow   func()        // makes readline ask for the width
	columns  int           // the width that readline knows
	watching chan struct{} // closed once resized is not watched any more
	wide     atomic.Bool   // the window's width has changed

	mu    sync.Mutex // guards what follows
	fresh bool       // a line begins
	size  int        // of the line, characters
	pos   int        // of the cursor in it
}

func newLineEditor(s *Shell, in, out *os.File) (*lineEditor, error) {
	w, err := newWaiter(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	e := &lineEditor{
		shell:    s,
		out:      out,
		term:     terminal{fd: int(in.Fd())},
		keys:     &keys{waiter: w},
		resized:  make(chan os.Signal, 1),
		watching: make(chan struct{}),
	}
	signal.Notify(e.resized, unix.SIGWINCH)
	go func() {
		defer close(e.watching)
		for range e.resized {
			e.wide.Store(true)
			e.keys.call()
		}
	}()
	return e, nil
}

// start makes the readline. It is left until the first line, after which it can
// be closed without a race.
func (e *lineEditor) start() (err error) {
	e.columns = width(e.out)
	e.rl, err = readline.NewEx(&readline.Config{
		HistoryLimit:           historyLimit + 2,
		DisableAutoSaveHistory: true,
		HistorySearchFold:      true,
		AutoComplete:           e,
		Listener:               e,
		Painter:                e,
		EOFPrompt:              "\n", // none
		FuncGetWidth:           func() int { return width(e.out) },
		FuncIsTerminal:         func() bool { return true },
		FuncMakeRaw:            e.term.raw,
		FuncExitRaw:            e.term.restore,
		FuncOnWidthChanged:     func(f func()) { e.reflow = f },
		FuncFilterInputRune:    e.filter,
		Stdin:                  e.keys,
		Stdout:                 upward{e.out},
		Stderr:                 e.out,
	})
	if err == nil {
		e.SetHistory(e.history)
	}
	return err
}

func (e *lineEditor) ReadLine(ctx context.Context, prompt string) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if e.rl == nil {
		if err := e.start(); err != nil {
			return "", err
		}
	}
	if e.wide.Swap(false) {
		e.columns = width(e.out)
		e.reflow()
	}
	stop := context.AfterFunc(ctx, e.keys.finish)
	defer stop()
	e.rl.SetPrompt(e.fitting(prompt))
	line, err := e.rl.Readline()
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case e.keys.state().eof:
		return "", io.EOF
	case errors.Is(err, readline.ErrInterrupt):
		return line, errCleared
	}
	return line, err
}

// fitting is the prompt, which readline wants on one line.
func (e *lineEditor) fitting(prompt string) string {
	if columns(prompt) >= width(e.out) {
		return "> "
	}
	return prompt
}

// OnChange is called by readline after each key, in its goroutine, and before
// that with key 0 in ReadLine's, once the terminal is raw.
func (e *lineEditor) OnChange(line []rune, pos int, key rune) ([]rune, int, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.size, e.pos = len(line), pos
	e.fresh = e.fresh || key == 0
	return nil, 0, false
}

// Paint is called by readline when it draws the line. The first time that is in
// ReadLine's goroutine and under the lock that each key waits for: from then on
// keys can be taken without a race.
func (e *lineEditor) Paint(line []rune, _ int) []rune {
	e.mu.Lock()
	fresh := e.fresh
	e.fresh = false
	e.mu.Unlock()
	if fresh {
		e.keys.begin()
	}
	return line
}

// filter is called by readline with each key, in its goroutine; ok false drops
// the key and draws the line.
func (e *lineEditor) filter(r rune) (key rune, ok bool) {
	e.mu.Lock()
	size, pos := e.size, e.pos
	e.mu.Unlock()
	searching := e.rl.Operation.IsSearchMode()
	switch r {
	case 0: // the keys are closed
		return r, true
	case wakeKey:
		switch now := e.keys.state(); {
		case !now.open: // sent before the line was given up
			return readline.CharBell, true // does nothing
		case !now.last:
			e.refresh()
			return 0, false
		}
		// One key after the other empties the line and leaves by its end, once.
		if !searching && size == 0 {
			e.keys.judge(true)
			return readline.CharDelete, true
		}
		e.keys.call()
		if searching || pos < size {
			return readline.CharLineEnd, true
		}
		return readline.CharCtrlU, true
	case readline.CharEnter, readline.CharCtrlJ:
		e.keys.judge(true)
	case readline.CharInterrupt:
		e.keys.judge(!searching)
	case readline.CharDelete: // Ctrl-D, or the Delete key
		if e.keys.state().judging {
			e.keys.judge(size == 0 && !searching)
		} else if size == 0 {
			return 0, false
		}
	case readline.CharTranspose:
		return r, size > 1
	case readline.CharBckSearch, readline.CharFwdSearch:
		return r, len(e.history) > 0
	case readline.CharCtrlZ:
		// A rank that is stopped is a lost one for its neighbours.
		return 0, false
	case readline.MetaTranspose, utf8.RuneError:
		return 0, false
	case readline.CharLineStart, readline.CharBackward, readline.CharLineEnd, readline.CharForward, readline.CharBell,
		readline.CharCtrlH, readline.CharTab, readline.CharKill, readline.CharCtrlL, readline.CharNext, readline.CharPrev,
		readline.CharCtrlU, readline.CharCtrlW, readline.CharCtrlY, readline.CharEsc, readline.CharBackspace:
	default:
		return r, !unicode.IsControl(r)
	}
	return r, true
}

// refresh shows what was printed meanwhile. It needs readline's goroutine.
func (e *lineEditor) refresh() {
	if e.wide.Swap(false) {
		e.resize()
	}
	if text := e.shell.screen.take(); len(text) > 0 {
		e.above(string(text))
		prompt, _ := e.shell.prompt()
		e.rl.SetPrompt(e.fitting(prompt)) // what has come may have changed it
	}
}

// resize follows the window's width. Whether the terminal has wrapped its rows
// anew cannot be known: of both numbers of rows that the line may take the
// smaller is cleared, so that a piece of the prompt may stay above, and no output
// is lost. It needs readline's goroutine.
func (e *lineEditor) resize() {
	before := e.columns
	e.columns = width(e.out)
	if e.columns < before {
		e.rl.Clean()
	}
	e.reflow()
}

// above writes whole lines in the prompt's place, which moves down when readline
// draws it next. It needs readline's goroutine.
func (e *lineEditor) above(text string) {
	e.rl.Clean()
	// A terminal that cannot be written shows itself when it is read.
	_, _ = e.out.WriteString(text)
}

// Do is called by readline at Tab, in its goroutine. It returns what to insert.
func (e *lineEditor) Do(line []rune, pos int) ([][]rune, int) {
	insert, list := e.shell.suggest(string(line), len(string(line[:pos])))
	if list != "" {
		e.above(list)
		e.rl.Refresh()
	}
	if insert == "" {
		return nil, 0
	}
	return [][]rune{[]rune(insert)}, 0
}

// SetHistory loads the history anew: readline's own loses its place when a line
// is left out of it.
func (e *lineEditor) SetHistory(lines []string) {
	e.history = lines
	if e.rl == nil {
		return
	}
	e.rl.ResetHistory()
	for _, line := range lines {
		_ = e.rl.SaveHistory(line) // in memory: it has no file
	}
}

func (e *lineEditor) show() { e.keys.call() }

// interrupt has nothing to do: Ctrl-C is a key while a line is edited, and a
// signal from elsewhere says nothing about the line.
func (e *lineEditor) interrupt() {}

func (e *lineEditor) Close() error {
	signal.Stop(e.resized)
	close(e.resized)
	<-e.watching
	_ = e.keys.Close() // never fails
	var err error
	if e.rl != nil {
		err = e.rl.Terminal.Close()
	}
	// Nothing reads the keys any more.
	_ = e.keys.close()
	return err
}

// upward is what readline draws on. It leaves out the step back at the start of a
// row: no terminal needs it, and some (tmux, xterm with reverse wraparound) go to
// the row above by it.
type upward struct{ w io.Writer }

func (u upward) Write(b []byte) (int, error) {
	// readline draws a line, and moves the cursor within it, in one Write.
	if _, err := u.w.Write(bytes.ReplaceAll(b, []byte("\b\x1b[A\r"), []byte("\x1b[A\r"))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// columns is the width of a prompt, which may hold colours.
func columns(prompt string) int {
	return utf8.RuneCountInString(strings.TrimSpace(string(plainText([]byte(prompt))))) + 1
}
