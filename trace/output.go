package trace

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mattn/go-isatty"
)

// Format is how events are written, one a line.
type Format string

// The formats. Text is coloured if the writer is a terminal, NO_COLOR is not set
// and TERM is not dumb.
const (
	Auto Format = "auto" // Text on a terminal, JSON otherwise
	Text Format = "text"
	JSON Format = "json"
)

// noRank is the rank before SetRank: events then carry none.
const noRank = -1

// sink is what emit writes to. It is never changed, only replaced whole, so
// that emit needs no lock.
type sink struct {
	handlers [subsystems]handler
	now      func() time.Time
}

// handler is what of a slog.Handler is called: the levels are checked before.
type handler interface {
	Handle(context.Context, slog.Record) error
}

var current atomic.Pointer[sink]

// output is what the sink is built from.
var output struct {
	sync.Mutex
	w      lineWriter
	format Format // never Auto
	color  bool
	rank   int
	now    func() time.Time // time.Now, except in golden tests
}

func init() {
	output.rank = noRank
	output.now = time.Now
	// Standard error is a valid writer and Auto a valid format.
	_ = SetOutput(os.Stderr, Auto)
}

// SetOutput sends events to w; the default is standard error in format Auto.
// It may be called while other goroutines trace; w then sees one Write at a
// time, a whole line each. A writer with an Fd method can be seen to be a
// terminal. An unknown format is an error and changes nothing.
func SetOutput(w io.Writer, format Format) error {
	return setOutput(w, format, IsTerminal(w))
}

func setOutput(w io.Writer, format Format, terminal bool) error {
	switch format {
	case Auto, "":
		format = JSON
		if terminal {
			format = Text
		}
	case Text, JSON:
	default:
		return fmt.Errorf("trace: unknown format %q, known are %s, %s and %s", format, Auto, Text, JSON)
	}
	output.Lock()
	defer output.Unlock()
	output.w = lineWriter{w}
	output.format = format
	output.color = terminal && ColorWanted()
	rebuild()
	return nil
}

// SetRank adds the rank to every later event; a negative rank removes it.
func SetRank(rank int) {
	output.Lock()
	defer output.Unlock()
	output.rank = max(rank, noRank)
	rebuild()
}

// rebuild needs output's lock.
func rebuild() {
	next := &sink{now: output.now}
	for s := range next.handlers {
		next.handlers[s] = newHandler(Subsystem(s))
	}
	current.Store(next)
}

func newHandler(s Subsystem) handler {
	if output.format == Text {
		return newTextHandler(output.w, s, output.rank, output.color)
	}
	attrs := []slog.Attr{slog.String("subsystem", s.String())}
	if output.rank != noRank {
		attrs = append(attrs, slog.Int("rank", output.rank))
	}
	return slog.NewJSONHandler(output.w, nil).WithAttrs(attrs)
}

// IsTerminal reports whether a stream leads to a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(interface{ Fd() uintptr })
	return ok && isatty.IsTerminal(f.Fd())
}

// ColorWanted reports what the environment says about colour: https://no-color.org, where
// NO_COLOR counts if not empty.
func ColorWanted() bool { return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" }

// writing is held during each Write. It is one for all outputs, so that a
// writer which is taken away and given again never sees two at a time.
var writing sync.Mutex

// lineWriter makes the handlers of all subsystems, also those of an older sink
// that is still in use, take turns.
type lineWriter struct{ w io.Writer }

func (l lineWriter) Write(line []byte) (int, error) {
	writing.Lock()
	defer writing.Unlock()
	return l.w.Write(line)
}
