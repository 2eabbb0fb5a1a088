//go:build !notrace

package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"ringcli/trace/tracetest"

	"golang.org/x/sys/unix"
)

// story is one of everything.
func story() {
	Debug(Ring, "connected to neighbour", slog.Int("neighbour", 3), slog.String("address", "127.0.0.3:18600"))
	SetRank(2)
	Info(Collective, "protocol chosen", slog.String("protocol", "eager"), slog.Uint64("bytes", 4096), slog.Bool("check", true), slog.Float64("busbw", 1.25))
	Warn(Bootstrap, "stranger on the port", slog.String("sent", "GET / HTTP/1.1\r\n\x1b[2J"), slog.Any("err", errors.New("no magic")), slog.String("name", ""))
	Error(Wire, "gave up", slog.Duration("after", 1500*time.Millisecond), slog.Group("packet", slog.Int("psn", 7), slog.String("opcode", "SEND_ONLY")))
	SetRank(-1)
	Debug(Repl, "two\nlines", slog.Time("at", time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)))
}

// Times have six digits, whatever the clock says: readers take two forms for two kinds.
func TestTimesHaveSixDigits(t *testing.T) {
	for nanoseconds, want := range map[int]string{0: "2030-01-02T03:04:05.000000Z", 120_000_000: "2030-01-02T03:04:05.120000Z", 123_456_789: "2030-01-02T03:04:05.123456Z"} {
		var b bytes.Buffer
		r := slog.NewRecord(time.Date(2030, 1, 2, 3, 4, 5, nanoseconds, time.UTC), slog.LevelInfo, "m", 0)
		if err := NewJSONHandler(&b).Handle(t.Context(), r); err != nil || !strings.Contains(b.String(), `"time":"`+want+`"`) {
			t.Errorf("%v: %s, want %s", err, b.String(), want)
		}
	}
}

func TestGoldenText(t *testing.T) {
	b := capture(t, Text)
	story()
	tracetest.Golden(t, "story.txt", b.Bytes())
}

func TestGoldenColor(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	b := captureAs(t, Auto, true)
	story()
	tracetest.Golden(t, "story.color.txt", b.Bytes())
}

func TestGoldenJSON(t *testing.T) {
	b := capture(t, JSON)
	story()
	for line := range strings.Lines(b.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	tracetest.Golden(t, "story.json", b.Bytes())
}

func TestNoColor(t *testing.T) {
	for name, env := range map[string][2]string{"NO_COLOR": {"NO_COLOR", "1"}, "dumb": {"TERM", "dumb"}} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("NO_COLOR", "")
			t.Setenv("TERM", "xterm")
			t.Setenv(env[0], env[1])
			b := captureAs(t, Auto, true)
			story()
			if strings.Contains(b.String(), "\x1b") {
				t.Errorf("coloured: %q", b)
			}
		})
	}
}

func TestAutoIsJSONWithoutTerminal(t *testing.T) {
	b := capture(t, Auto)
	Warn(Ring, "slow")
	if !json.Valid(b.Bytes()) {
		t.Errorf("got %q", b)
	}
}

func TestAutoIsColouredTextOnATerminal(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo-terminal here:", err)
	}
	defer func() { _ = terminal.Close() }()
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	restore(t)
	if _, ok := look(terminal, &bytes.Buffer{}); ok {
		t.Error("a terminal of 0 x 0, such as Open MPI's, counts as one")
	}
	if _, ok := look(terminal, terminal); !ok {
		t.Error("a terminal of 0 x 0 that is standard input, too, such as a serial line, counts as none")
	}
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	if err := SetOutput(terminal, Auto); err != nil {
		t.Fatal(err)
	}
	if output.format != Text || !output.color {
		t.Errorf("format %s, coloured %t", output.format, output.color)
	}
	t.Setenv("NO_COLOR", "1")
	if err := SetOutput(terminal, Auto); err != nil {
		t.Fatal(err)
	}
	if output.format != Text || output.color {
		t.Errorf("with NO_COLOR: format %s, coloured %t", output.format, output.color)
	}
	t.Cleanup(func() { shared.Store(false) })
	if ShareStreams(); IsTerminal(terminal) {
		t.Error("a terminal counts as one where a launcher's ranks share it")
	}
}

func TestUnknownFormatChangesNothing(t *testing.T) {
	b := capture(t, Text)
	err := SetOutput(&bytes.Buffer{}, "xml")
	if err == nil || !strings.Contains(err.Error(), `"xml"`) || !strings.Contains(err.Error(), "auto, text and json") {
		t.Errorf("got %v", err)
	}
	Warn(Ring, "still here")
	if !strings.Contains(b.String(), "still here") {
		t.Errorf("the output is gone: %q", b)
	}
}

func TestLevelsFilter(t *testing.T) {
	b := capture(t, Text)
	all := func() {
		Debug(Ring, "debug")
		Info(Ring, "info")
		Warn(Ring, "warn")
		Error(Ring, "error")
	}
	for spec, want := range map[string]int{"debug": 4, "info": 3, "warn": 2, "error": 1, "off": 0} {
		b.Reset()
		if err := Set("off,ring=" + spec); err != nil {
			t.Fatal(err)
		}
		all()
		Error(Wire, "of another subsystem")
		if got := strings.Count(b.String(), "\n"); got != want {
			t.Errorf("at %s %d lines, want %d", spec, got, want)
		}
		if Enabled(Ring) != (spec == "debug") || EnabledAt(Ring, slog.LevelError) != (spec != "off") {
			t.Errorf("at %s Enabled is %t", spec, Enabled(Ring))
		}
	}
}

func TestACopyHasWhatTheOutputHas(t *testing.T) {
	var shown, kept bytes.Buffer
	if err := SetOutput(&shown, Text); err != nil {
		t.Fatal(err)
	}
	SetCopy(&kept)
	Warn(Ring, "a peer is late", slog.Int("peer", 3))
	Debug(Ring, "what is off")
	SetCopy(nil)
	Warn(Ring, "after it")
	if err := SetOutput(os.Stderr, Auto); err != nil {
		t.Fatal(err)
	}
	var o struct {
		Level, Msg, Subsystem string
		Peer                  int
	}
	if err := json.Unmarshal(kept.Bytes(), &o); err != nil || o.Level != "WARN" || o.Msg != "a peer is late" || o.Subsystem != "ring" || o.Peer != 3 {
		t.Errorf("the copy is %q, %v", &kept, err)
	}
	if text := shown.String(); !strings.Contains(text, "a peer is late") || !strings.Contains(text, "after it") || strings.Contains(text, "off") {
		t.Errorf("shown is %q", text)
	}
}
