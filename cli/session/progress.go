package session

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"ringcli/cli/render"
	"ringcli/trace"
)

// progressAfter is how long an operation runs before it says how far it is.
const progressAfter = 2 * time.Second

// progressEvery keeps the line from flickering and the terminal from costing.
const progressEvery = 200 * time.Millisecond

// echoRoom is kept free behind the line: a terminal echoes "^C" there, and a
// person may press it again.
const echoRoom = 4

// Progress overwrites one line on a terminal: "all-reduce 16M eager: 12/20". It
// writes nothing where there is no terminal. A nil Progress does nothing.
type Progress struct {
	mu       sync.Mutex
	w        io.Writer // nil: no terminal
	now      func() time.Time
	terminal func() int // its columns; 0 if it does not say
	begun    time.Time
	last     time.Time
	width    int // of the line on the screen; 0 if there is none
	widest   int // of the lines since the screen was clear
	what     string
	awaited  string // the line, while it says who is awaited
}

// NewProgress returns a Progress for a stream.
func NewProgress(stream io.Writer) *Progress {
	p := &Progress{now: time.Now, terminal: func() int { return render.Width(stream) }}
	if trace.IsTerminal(stream) {
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
	if p.awaited != "" || now.Sub(p.begun) < progressAfter || now.Sub(p.last) < progressEvery {
		return
	}
	p.last = now
	p.draw(p.what + ": " + fmt.Sprintf(format, args...))
}

// Wait says who is awaited, instead of how far the operation is, until it is given "".
func (p *Progress) Wait(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.awaited
	switch p.awaited = text; text {
	case was:
	case "":
		p.clear()
	default:
		p.draw(text)
	}
}

// draw needs the lock.
func (p *Progress) draw(line string) {
	line = render.Tame(line)
	width := utf8.RuneCountInString(line)
	if most := p.most(); width > most { // a line that goes on below cannot be overwritten
		line, width = string([]rune(line)[:most]), most
	}
	// A terminal that cannot be written is no reason to stop measuring.
	_, _ = fmt.Fprintf(p.w, "\r%s%s", line, strings.Repeat(" ", max(0, min(p.width, p.most())-width)))
	p.width, p.widest = width, max(p.widest, width)
}

// most is how wide a line may be.
func (p *Progress) most() int {
	columns := cmp.Or(p.terminal(), defaultColumns)
	// In the last column some terminals begin a new line.
	return max(0, columns-1-echoRoom)
}

// defaultColumns are those of a terminal that does not say.
const defaultColumns = 80

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
	return sync.OnceFunc(func() {
		close(done)
		<-ended
		p.End()
	})
}

// End clears the line.
func (p *Progress) End() {
	if p == nil || p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

// clear needs the lock.
func (p *Progress) clear() {
	if p.widest > 0 {
		_, _ = fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", min(p.widest, p.most())+echoRoom))
		p.width, p.widest = 0, 0
	}
}
