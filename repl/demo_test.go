package repl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// asShell makes the test binary be a shell with a demo host, for tests on a
// terminal. Its value is the history file.
const asShell = "REPL_TEST_HISTORY"

func TestMain(m *testing.M) {
	if history, ok := os.LookupEnv(asShell); ok {
		os.Exit(demo(history))
	}
	goleak.VerifyTestMain(m)
}

// demo runs a shell on the process's streams.
func demo(history string) int {
	h := &demoHost{}
	s, err := New(Options{Host: h, HistoryFile: history, Init: os.Getenv("REPL_TEST_INIT"),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		OnError: func(err error) { _, _ = fmt.Fprintln(h.shell.Err(), err) },
		Interrupt: func(n int, cancel func()) {
			cancel()
			_, _ = fmt.Fprintf(h.shell.Out(), "<Ctrl-C %d>\n", n)
		}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	s.patience = time.Second
	h.shell = s
	_ = s.Alias("say", "echo") // it is a name
	if err := s.Run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 4
	}
	if s.LastError() != nil {
		return 2
	}
	return 0
}

// demoHost has a few commands, enough to try a shell.
type demoHost struct {
	shell *Shell

	mu   sync.Mutex
	runs []string
}

func (h *demoHost) Prompt() (string, Mood) { return "demo>", Good }

func (h *demoHost) Repeatable(line string) bool { return strings.HasPrefix(line, "echo") }

func (h *demoHost) Secret(line string) bool { return strings.HasPrefix(line, "token") }

var demoWords = []Candidate{{"echo", "prints"}, {"error", "fails"}, {"sleep", ""}, {"later", ""}, {"hang", ""}, {"quit", ""}}

func (h *demoHost) Complete(line string, pos int) ([]Candidate, int) {
	from := strings.LastIndexByte(line[:pos], ' ') + 1
	if from == 0 {
		return demoWords, 0
	}
	return []Candidate{{Text: "left"}, {Text: "right"}, {Text: "a b"}}, from
}

func (h *demoHost) Run(ctx context.Context, line string) error {
	h.mu.Lock()
	h.runs = append(h.runs, line)
	h.mu.Unlock()
	for _, command := range strings.Split(line, ";") {
		if err := h.one(ctx, strings.TrimSpace(command)); err != nil {
			return err
		}
	}
	return nil
}

func (h *demoHost) ran() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.runs...)
}

func (h *demoHost) one(ctx context.Context, command string) error {
	out := h.shell.Out()
	if line, is := strings.CutSuffix(command, "&"); is {
		line = strings.TrimSpace(line)
		h.shell.Jobs().Start(ctx, Task{Line: line, Run: func(ctx context.Context) (any, error) { return nil, h.one(ctx, line) }, Tell: func(j Job) {
			if _, _ = fmt.Fprintf(out, "[%d] %s: %s\n", j.ID, j.State, j.Line); j.State == JobFailed {
				h.shell.options.OnError(fmt.Errorf("[%d] %w", j.ID, j.Err))
			}
		}})
		return nil
	}
	name, rest, _ := strings.Cut(command, " ")
	switch name {
	case "echo":
		_, err := fmt.Fprintln(out, rest)
		return err
	case "part":
		_, err := fmt.Fprint(out, rest)
		return err
	case "error":
		return errors.New("this failed")
	case "panic":
		panic("oh")
	case "quit":
		h.shell.Quit()
		return nil
	case "sleep":
		seconds, err := strconv.ParseFloat(rest, 64)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(out, "sleeping")
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Duration(seconds * float64(time.Second))):
			return nil
		}
	case "hang":
		_, _ = fmt.Fprintln(out, "hanging")
		time.Sleep(time.Minute)
		return nil
	case "later": // prints while the next line is edited
		go func() {
			for i := range 3 {
				time.Sleep(300 * time.Millisecond)
				_, _ = fmt.Fprintf(out, "later %d\n", i)
			}
		}()
		return nil
	case "source":
		text, name, err := ReadFile(rest)
		if err != nil {
			return err
		}
		return h.shell.Source(ctx, rest, name, text)
	case "watch":
		every, line, _ := strings.Cut(rest, " ")
		d, err := time.ParseDuration(every)
		if err != nil {
			return err
		}
		return h.shell.Watch(ctx, d, line)
	case "transcript":
		return h.shell.SetTranscript(rest)
	case "timing":
		h.shell.SetTiming(rest == "on")
		return nil
	case "wait":
		ended, err := h.shell.Jobs().Wait(ctx, 0)
		for _, j := range ended {
			err = errors.Join(err, j.Err)
		}
		return err
	case "history":
		_, err := fmt.Fprintln(out, strings.Join(h.shell.History(), "|"))
		return err
	case "token":
		return nil
	}
	return fmt.Errorf("no such command: %q", name)
}
