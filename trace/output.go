package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/fatih/color"
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
	format Format    // never Auto
	copy   io.Writer // nil: none
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

// SetCopy sends events to another writer too, in JSON; nil ends that.
func SetCopy(w io.Writer) {
	output.Lock()
	defer output.Unlock()
	output.copy = w
	rebuild()
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
	var h handler
	if output.format == Text {
		h = newTextHandler(output.w, s, output.rank, output.color)
	} else {
		h = newJSONHandler(output.w, s)
	}
	if output.copy != nil {
		return both{h, newJSONHandler(lineWriter{output.copy}, s)}
	}
	return h
}

// NewJSONHandler is slog's, whose times always have six digits of a second: readers take more
// or fewer for another form.
func NewJSONHandler(w io.Writer) slog.Handler {
	return slog.NewJSONHandler(w, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime {
			a.Value = slog.StringValue(a.Value.Time().Format("2006-01-02T" + timeLayout + "Z07:00"))
		}
		return a
	}})
}

func newJSONHandler(w io.Writer, s Subsystem) handler {
	attrs := []slog.Attr{slog.String("subsystem", s.String())}
	if output.rank != noRank {
		attrs = append(attrs, slog.Int("rank", output.rank))
	}
	return NewJSONHandler(w).WithAttrs(attrs)
}

// both are two handlers, each of which has all.
type both [2]handler

func (b both) Handle(ctx context.Context, r slog.Record) error {
	return errors.Join(b[0].Handle(ctx, r), b[1].Handle(ctx, r))
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

// textHandler writes events for people, one a line:
//
//	15:04:05.000000 DEBUG rank=2 ring: connected to neighbour neighbour=3
//
// The date is left out: a run is looked at while it happens, and JSON has it.
type textHandler struct {
	w      io.Writer // takes a whole line with each Write
	rank   string    // "rank=2 ", or empty
	name   string    // "ring: ", coloured
	labels map[slog.Level]string
	paint  *color.Color // for attribute keys; nil is plain
}

// timeLayout has microseconds: a small message's round trip takes a few.
const timeLayout = "15:04:05.000000"

func newTextHandler(w io.Writer, s Subsystem, rank int, colored bool) *textHandler {
	paint := func(text string, attrs ...color.Attribute) string {
		if !colored {
			return text
		}
		return Color(attrs...).Sprint(text)
	}
	h := &textHandler{
		w:    w,
		name: paint(s.String()+":", color.Bold) + " ",
		labels: map[slog.Level]string{
			slog.LevelDebug: paint("DEBUG", color.FgCyan),
			slog.LevelInfo:  paint("INFO ", color.FgGreen),
			slog.LevelWarn:  paint("WARN ", color.FgYellow),
			slog.LevelError: paint("ERROR", color.FgRed, color.Bold),
		},
	}
	if colored {
		h.paint = Color(color.Faint)
	}
	if rank != noRank {
		h.rank = "rank=" + strconv.Itoa(rank) + " "
	}
	return h
}

// Color makes a colour that color.NoColor, which is about standard output alone, has no
// say in: who writes decides for the own writer.
func Color(attrs ...color.Attribute) *color.Color {
	c := color.New(attrs...)
	c.EnableColor()
	return c
}

// lines keeps the buffers of written lines for the next ones.
var lines = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

func (h *textHandler) Handle(_ context.Context, r slog.Record) error {
	line := lines.Get().(*[]byte)
	defer lines.Put(line)
	b := r.Time.AppendFormat((*line)[:0], timeLayout)
	b = append(b, ' ')
	b = append(b, h.labels[r.Level]...)
	b = append(b, ' ')
	b = append(b, h.rank...)
	b = append(b, h.name...)
	b = appendMessage(b, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		b = h.appendAttr(b, "", a)
		return true
	})
	b = append(b, '\n')
	*line = b
	_, err := h.w.Write(b)
	return err
}

func (h *textHandler) appendAttr(b []byte, prefix string, a slog.Attr) []byte {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, member := range v.Group() {
			b = h.appendAttr(b, prefix, member)
		}
		return b
	}
	if a.Key == "" && v.Kind() == slog.KindAny && v.Any() == nil {
		return b // the zero Attr means nothing
	}
	b = append(b, ' ')
	if h.paint == nil {
		b = append(b, prefix...)
		b = append(b, a.Key...)
		b = append(b, '=')
	} else {
		b = append(b, h.paint.Sprint(prefix+a.Key+"=")...)
	}
	return appendValue(b, v)
}

func appendValue(b []byte, v slog.Value) []byte {
	if v.Kind() == slog.KindTime {
		return v.Time().AppendFormat(b, time.RFC3339Nano)
	}
	return appendText(b, v.String())
}

// appendText quotes what would not read back as one word. Control characters
// are always quoted: a peer's text must not drive the operator's terminal.
func appendText(b []byte, text string) []byte {
	if text == "" {
		return append(b, `""`...)
	}
	for _, r := range text {
		if r == ' ' || r == '=' || r == '"' || r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return strconv.AppendQuote(b, text)
		}
	}
	return append(b, text...)
}

// Printable quotes a text, such as one from a file, that would drive a terminal or
// not read back as one word.
func Printable(text string) string { return string(appendText(nil, text)) }

// appendMessage leaves a message as it is, unless it has control characters.
func appendMessage(b []byte, msg string) []byte {
	for _, r := range msg {
		if !unicode.IsPrint(r) {
			return strconv.AppendQuote(b, msg)
		}
	}
	return append(b, msg...)
}
