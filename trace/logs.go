package trace

import (
	"log/slog"
	"sync"
)

// LogTexts is how many printed events the recorder keeps, 256 bytes each.
const LogTexts = 2048

// logText is a printed event with its text.
type logText struct {
	at        int64
	subsystem Subsystem
	level     int8 // a slog.Level
	length    uint8
	clipped   bool
	text      [244]byte
}

var logs struct {
	mu   sync.Mutex // guards the rest
	next uint64
	list [LogTexts]logText
}

// plain renders attributes for the recorder.
var plain = textHandler{}

// recordLog keeps a printed event.
func recordLog(s Subsystem, l slog.Level, msg string, attrs []slog.Attr) {
	line := lines.Get().(*[]byte)
	defer lines.Put(line)
	b := appendMessage((*line)[:0], msg)
	for _, a := range attrs {
		b = plain.appendAttr(b, "", a)
	}
	*line = b
	logs.mu.Lock()
	defer logs.mu.Unlock()
	e := &logs.list[logs.next%LogTexts]
	logs.next++
	n := copy(e.text[:], b)
	e.at, e.subsystem, e.level, e.length, e.clipped = Clock(), s, int8(l), uint8(n), n < len(b)
}

// copyLogs returns the printed events, the oldest first, and how many were
// overwritten.
func copyLogs() (list []logText, lost uint64) {
	logs.mu.Lock()
	defer logs.mu.Unlock()
	lost = max(logs.next, LogTexts) - LogTexts
	for i := lost; i < logs.next; i++ {
		list = append(list, logs.list[i%LogTexts])
	}
	return list, lost
}
