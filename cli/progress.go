package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"ringcli/cli/render"
)

// progressAfter is how long an operation runs before it says how far it is.
const progressAfter = 2 * time.Second

// progressEvery keeps the line from flickering and the terminal from costing.
const progressEvery = 200 * time.Millisecond

// Progress overwrites one line on a terminal: "all-reduce 16M eager: 12/20". It
// writes nothing where there is no terminal. A nil Progress does nothing.
type Progress struct {
	mu    sync.Mutex
	w     io.Writer // nil: no terminal
	now   func() time.Time
	begun time.Time
	last  time.Time
	width int // of the line on the screen; 0 if there is none
	what  string
}

// newProgress returns a Progress for a stream.
func newProgress(stream io.Writer) *Progress {
	p := &Progress{now: time.Now}
	if render.IsTerminal(stream) {
		p.w = stream
	}
	return p
}

// Begin starts the clock of one operation.
func (p *Progress) Begin(format string, args ...any) {
	if p == nil || p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.begun = fmt.Sprintf(format, args...), p.now()
}

// Step says how far the operation is, if it has run for long enough.
func (p *Progress) Step(format string, args ...any) {
	if p == nil || p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if now.Sub(p.begun) < progressAfter || now.Sub(p.last) < progressEvery {
		return
	}
	p.last = now
	line := p.what + ": " + fmt.Sprintf(format, args...)
	width := utf8.RuneCountInString(line)
	// A terminal that cannot be written is no reason to stop measuring.
	_, _ = fmt.Fprintf(p.w, "\r%s%s", line, strings.Repeat(" ", max(0, p.width-width)))
	p.width = width
}

// Clock begins an operation that cannot say how far it is, and shows the time it
// has taken until the returned function is called, which ends it.
func (p *Progress) Clock(format string, args ...any) (end func()) {
	if p == nil || p.w == nil {
		return func() {}
	}
	p.Begin(format, args...)
	begun, done, ended := p.begun, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				p.Step("%s", p.now().Sub(begun).Truncate(time.Second))
			}
		}
	}()
	return func() {
		close(done)
		<-ended
		p.End()
	}
}

// End clears the line.
func (p *Progress) End() {
	if p == nil || p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width > 0 {
		_, _ = fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", p.width))
		p.width = 0
	}
}
