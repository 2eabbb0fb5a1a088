package trace

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"
	"unicode"

	"github.com/fatih/color"
)

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
