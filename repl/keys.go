package repl

import (
	"io"
	"sync"
)

// Keys that end a line, as a terminal in raw mode sends them.
const (
	ctrlC   = 0x03
	ctrlD   = 0x04
	newline = '\n'
	enter   = '\r'
	escape  = 0x1b
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

	mu      sync.Mutex // guards what follows
	open    bool       // a line is edited
	judging bool       // whether the last byte ended the line is not known yet
	woken   bool       // a wakeKey is to be sent
	last    bool       // the line is to be given up: the shell ends
	eof     bool
	closed  bool
	typed   []byte
	within  int // how far the last byte is within an escape sequence
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
		if k.closed {
			k.mu.Unlock()
			return 0, io.EOF
		}
		ready := k.open && !k.judging
		if ready && len(k.typed) > 0 {
			b := k.typed[0]
			k.typed = k.typed[1:]
			if b != 0 && b != wakeKey { // readline takes 0 for the end
				k.follow(b)
				k.mu.Unlock()
				p[0] = b
				return 1, nil
			}
			k.mu.Unlock()
			continue
		}
		timeout := -1
		if ready && k.woken {
			if k.within == outside || waited {
				k.woken = k.within == inCode // there it is taken for the sequence's end
				k.within = outside
				k.mu.Unlock()
				p[0] = wakeKey
				return 1, nil
			}
			timeout, waited = splitKey, true
		}
		reading := ready && !k.eof
		k.mu.Unlock()
		readable, err := k.wait(reading, timeout)
		if err == nil && readable {
			err = k.fill()
		}
		if err != nil {
			// readline would run what was typed so far. It is given up instead.
			k.mu.Lock()
			k.eof, k.last, k.woken = true, true, true
			k.mu.Unlock()
		}
	}
}

func (k *keys) fill() error {
	var b [256]byte
	n, err := k.read(b[:])
	k.mu.Lock()
	defer k.mu.Unlock()
	k.typed = append(k.typed, b[:n]...)
	return err
}

// follow needs the lock. It does as readline does with escape sequences.
func (k *keys) follow(b byte) {
	switch {
	case k.within == inCode:
		if b < '0' || b > '9' && b != ';' {
			k.within = outside
		}
		return
	case k.within == afterEsc && (b == '[' || b == 'O'):
		k.within = inCode
		return
	case b == escape:
		k.within = afterEsc
		return
	}
	k.within = outside
	k.judging = b == ctrlC || b == ctrlD || b == enter || b == newline
}

// begin opens the keys for a line.
func (k *keys) begin() {
	k.mu.Lock()
	k.open, k.judging, k.within = true, false, outside
	k.mu.Unlock()
	k.wake()
}

// judge says whether the byte that may end the line did.
func (k *keys) judge(ended bool) {
	k.mu.Lock()
	k.judging = false
	if ended {
		k.open = false
	}
	k.mu.Unlock()
	k.wake()
}

// judged tells whether judge is not expected.
func (k *keys) judged() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.judging
}

// call has a wakeKey sent while a line is edited.
func (k *keys) call() {
	k.mu.Lock()
	k.woken = true
	k.mu.Unlock()
	k.wake()
}

// state tells whether a line is edited and whether it is to be given up.
func (k *keys) state() (lineOpen, last bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.open, k.last
}

// finish has the line given up.
func (k *keys) finish() {
	k.mu.Lock()
	k.last, k.woken = true, true
	k.mu.Unlock()
	k.wake()
}

func (k *keys) ended() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.eof
}

// Close ends the Read that is going on, and all others.
func (k *keys) Close() error {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.wake()
	return nil
}
