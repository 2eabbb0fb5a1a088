package repl

import (
	"io"
	"slices"
	"sync"

	"github.com/chzyer/readline"
)

// wakeKey is a key (Ctrl-^) that readline is sent when the shell wants to do
// something in readline's own goroutine, the only one that may touch the line:
// to print, to follow the window's width, to end.
const wakeKey = 0x1e

// splitKey is how long the rest of a key's escape sequence may take before
// something else may come between, ms.
const splitKey = 20

// keys is the terminal as readline reads it: one byte at a time, and after one
// that may end the line only once it is known whether it did. So nothing that is
// typed ahead gets lost in readline's buffers, or is edited while a line runs.
type keys struct {
	*waiter

	mu sync.Mutex // guards what follows
	keyState
	woken  bool // a wakeKey is to be sent
	closed bool
	typed  []byte
	within int // how far the last byte is within an escape sequence
}

// keyState is what the editor asks the keys for.
type keyState struct {
	open    bool // a line is edited
	judging bool // whether the last byte ended the line is not known yet
	last    bool // the line is to be given up: the shell ends
	eof     bool
}

// Places within an escape sequence.
const (
	outside  = iota
	afterEsc // ESC
	inCode   // ESC [ or ESC O, and digits
)

func (k *keys) Read(p []byte) (int, error) {
	waited := false
	for {
		k.mu.Lock()
		closed, ready := k.closed, k.open && !k.judging
		reading, timeout, key := ready && !k.eof, -1, byte(0)
		switch {
		case closed || !ready:
		case len(k.typed) > 0:
			key, k.typed = k.typed[0], k.typed[1:]
			k.follow(key)
		case k.woken && (k.within == outside || waited):
			key, k.woken = wakeKey, k.within == inCode // there it is taken for the sequence's end
			k.within = outside
		case k.woken:
			timeout, waited = splitKey, true
		}
		k.mu.Unlock()
		switch {
		case closed:
			return 0, io.EOF
		case key != 0:
			p[0] = key
			return 1, nil
		}
		readable, err := k.wait(reading, timeout)
		if err == nil && readable {
			err = k.fill()
		}
		if err != nil {
			// readline would run what was typed so far. It is given up instead.
			k.change(func() { k.eof, k.last, k.woken = true, true, true })
		}
	}
}

func (k *keys) fill() error {
	var b [256]byte
	n, err := k.read(b[:])
	k.mu.Lock()
	defer k.mu.Unlock()
	// readline takes 0 for the end.
	k.typed = append(k.typed, slices.DeleteFunc(b[:n], func(key byte) bool { return key == 0 || key == wakeKey })...)
	return err
}

// follow needs the lock. It does as readline does with escape sequences.
func (k *keys) follow(b byte) {
	switch {
	case k.within == inCode:
		if b < '0' || b > '9' && b != ';' {
			k.within = outside
		}
	case k.within == afterEsc && (b == '[' || b == 'O'):
		k.within = inCode
	case b == readline.CharEsc:
		k.within = afterEsc
	default:
		k.within = outside
		k.judging = b == readline.CharInterrupt || b == readline.CharDelete || b == readline.CharEnter || b == readline.CharCtrlJ
	}
}

// change changes what Read goes by, and has it look again.
func (k *keys) change(to func()) {
	k.mu.Lock()
	to()
	k.mu.Unlock()
	k.wake()
}

// begin opens the keys for a line.
func (k *keys) begin() { k.change(func() { k.open, k.judging, k.within = true, false, outside }) }

// judge says whether the byte that may end the line did.
func (k *keys) judge(ended bool) { k.change(func() { k.open, k.judging = k.open && !ended, false }) }

// call has a wakeKey sent while a line is edited.
func (k *keys) call() { k.change(func() { k.woken = true }) }

// finish has the line given up.
func (k *keys) finish() { k.change(func() { k.last, k.woken = true, true }) }

func (k *keys) state() keyState {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keyState
}

// Close ends the Read that is going on, and all others.
func (k *keys) Close() error {
	k.change(func() { k.closed = true })
	return nil
}
