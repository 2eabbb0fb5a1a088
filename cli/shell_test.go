package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"ringcli/cli/clitest"
	"ringcli/cli/command"
	"ringcli/cli/exit"
)

// watched is an output that is read while it is written.
type watched struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// piped is a ringcli whose standard input is a pipe that stays open: a shell
// without a terminal.
type piped struct {
	*process
	t        *testing.T
	in       io.WriteCloser
	out, err *watched
}

func pipe(t *testing.T, args ...string) *piped {
	t.Helper()
	return pipeWith(t, nil, args...)
}

// pipeWith takes variables of the environment, too.
func pipeWith(t *testing.T, env []string, args ...string) *piped {
	t.Helper()
	p := program(t, args...)
	p.Env = append(p.Env, env...)
	return piping(t, p)
}

// piping starts a program whose lines the test gives.
func piping(t *testing.T, program *process) *piped {
	t.Helper()
	p := &piped{process: program, t: t, out: &watched{}, err: &watched{}}
	p.Stdout, p.Stderr = p.out, p.err
	var err error
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
	return p
}

// line gives the shell a line.
func (p *piped) line(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, text+"\n"); err != nil {
		p.t.Fatalf("%q: %v\n%s%s", text, err, p.out, p.err)
	}
}

// await waits until an output has a match, the n-th.
func (p *piped) await(w *watched, pattern string, n int) {
	p.t.Helper()
	want, begun := regexp.MustCompile(pattern), time.Now()
	for len(want.FindAllString(w.String(), n)) < n {
		if time.Since(begun) > screenDeadline {
			p.t.Fatalf("%.200q: no %q, %d times, after %s:\n%s%s", p.Args[1:], pattern, n, screenDeadline, p.out, p.err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// over closes the pipe and waits for the end.
func (p *piped) over() (code int) {
	p.t.Helper()
	_ = p.in.Close() // it may be closed
	code = p.end(p.t, hung)
	clitest.ValidateJSON(p.t, p.out.String())
	return code
}

// typed runs a ringcli with these lines as its standard input.
func typed(t *testing.T, env []string, lines string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := pipeWith(t, env, args...)
	p.line(strings.TrimSuffix(lines, "\n"))
	code = p.over()
	return code, p.out.String(), p.err.String()
}

// plainEnv is a home of a shell's own.
func plainEnv(dir string, more ...string) []string {
	return append([]string{"XDG_STATE_HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "NO_COLOR="}, more...)
}

func noEscapes(t *testing.T, what, text string) {
	t.Helper()
	if i := strings.IndexAny(text, "\x1b\x07\r\b"); i >= 0 {
		t.Errorf("%s has control characters: %q", what, text[max(0, i-40):min(len(text), i+40)])
	}
}

// Without a terminal nothing but results is written: no prompt, no banner, no
// escape code.
func TestAShellInAPipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	transcript := filepath.Join(dir, "transcript")
	init := filepath.Join(dir, "ringcli", "init.ring")
	if err := errors.Join(os.MkdirAll(filepath.Dir(init), 0o755), os.WriteFile(init, []byte("# first\nset protocol eager\nalias check4 all-reduce --size 4K --check\nalias both 'all-gather --size 4K; check4'\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := typed(t, plainEnv(dir), `transcript `+transcript+`
show protocol
connect   # all steps
both; expect wrong == 0
timing on
ping
timing off
alias
transcript off
set output json
check4
jobs
quit
all-reduce --size 1K`, "shell", "--index", "0", "--list", freshList(t, 1)[0])
	if code != exit.OK || stderr != "" {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	noEscapes(t, "stdout", stdout)
	for _, want := range []string{`(?m)^protocol +set +eager`, `(?m)^all-reduce +\S+ +4096 .* 0$`, `(?m)^all-gather +\S+ +4096 `, `(?m)^check4 +all-reduce`, `(?m)^both +all-gather --size 4K; check4$`, `(?m)^\{"command":"all-reduce".*"wrong":0`, `(?m)^\(\d+\.\d{3} s\)$`} {
		if !regexp.MustCompile(want).MatchString(stdout) {
			t.Errorf("no %s in\n%s", want, stdout)
		}
	}
	if regexp.MustCompile(`(?m)^(ring|no ring).*>`).MatchString(stdout) || strings.Contains(stdout, `"bytes":1024`) {
		t.Errorf("a prompt, or what came after quit:\n%s", stdout)
	}
	text, err := os.ReadFile(transcript)
	if err != nil {
		t.Fatal(err)
	}
	noEscapes(t, "the transcript", string(text))
	for _, want := range []string{"> connect", "both; expect wrong == 0", "all-reduce"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the transcript has no %q:\n%s", want, text)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "ringcli", "history")); err == nil {
		t.Error("lines that were not typed are in the history")
	}
}

// The first line that fails ends a shell in a pipe, with its exit code.
func TestAShellInAPipeStopsAtTheFirstFailure(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"table", "json"} {
		code, stdout, stderr := typed(t, plainEnv(t.TempDir()), "rtr\nquery soft:lo", "shell", "--index", "0", "--list", "127.0.0.1", "--output", format)
		if code != exit.Usage || !strings.Contains(stdout+stderr, "`open` comes first") || strings.Contains(stdout, "GID") {
			t.Errorf("%s: exit code %d\n%s%s", format, code, stdout, stderr)
		}
		if format == "json" {
			if o := objects(t, stdout); len(o) != 1 || o[0]["exit_code"] != 3.0 || stderr != "" {
				t.Errorf("%s%s", stdout, stderr)
			}
		}
	}
	if code, _, stderr := typed(t, plainEnv(t.TempDir()), "help 'it\nis", "shell"); code != exit.Usage || !strings.Contains(stderr, "opened and not closed") {
		t.Errorf("an open quote: exit code %d\n%s", code, stderr)
	}
}

// Each command, group and topic has help.
func TestHelpInAShell(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	topics := append(append([]string{""}, command.HelpTopics()...), testTable.HelpGroups()...)
	for _, c := range testTable.Rows {
		if c.Where&command.Line != 0 {
			topics = append(topics, c.Name)
		}
	}
	for _, topic := range topics {
		lines.WriteString("help " + topic + "\n")
	}
	code, stdout, stderr := typed(t, plainEnv(t.TempDir()), lines.String(), "shell")
	if code != exit.OK || stderr != "" {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	for _, c := range testTable.Rows {
		if c.Where&command.Line != 0 && !strings.Contains(stdout, c.Summary) {
			t.Errorf("no summary of %s", c.Name)
		}
	}
	code, _, stderr = typed(t, plainEnv(t.TempDir()), "help nonsense", "shell")
	if code != exit.Usage || !strings.Contains(stderr, "unknown command") {
		t.Errorf("help nonsense: exit code %d, %s", code, stderr)
	}
}

// A terminal that knows no escape codes gets none.
func TestDumbTerminalsAndNoColor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, env := range map[string]string{"dumb": "TERM=dumb", "nocolor": "NO_COLOR=1"} {
		m := newTmux(t)
		raw := filepath.Join(dir, name)
		p := m.openWith(t, []string{env}, raw, "shell", "--index", "0", "--list", freshList(t, 1)[0])
		p.prompt("no ring>")
		p.run("connect", `(?m)^left +own +0 RTS`)
		p.run("all-reduce --size 4K --check", `(?m)^all-reduce +\S+ +4096 .* 0$`)
		p.keys("C-d")
		if code := p.left(); code != "0" {
			t.Errorf("%s: exit code %s\n%s", name, code, p.screen())
		}
		text, err := os.ReadFile(raw)
		if err != nil {
			t.Fatal(err)
		}
		if name == "dumb" && bytes.ContainsRune(text, '\x1b') || regexp.MustCompile("\x1b\\[[0-9;]*[1-9][0-9;]*m").Match(text) {
			t.Errorf("%s: escape codes in %q", name, text)
		}
	}
}

// Completion, history and Enter, as a person has them.
func TestTypingInATerminal(t *testing.T) {
	t.Parallel()
	m := newTmux(t)
	p := m.open(t, "shell", "--index", "0", "--list", freshList(t, 1)[0])
	p.prompt("no ring>")
	tab := func(text, want string) {
		t.Helper()
		p.text(text)
		p.keys("Tab")
		p.await("what "+text+" is completed to, "+want, func(s string) bool { return strings.HasSuffix(s, "> "+want) })
		p.keys("C-u")
		p.prompt("")
	}
	tab("exch", "exchange")
	tab("query soft:l", "query soft:lo")
	tab("all-reduce --proto", "all-reduce --protocol")
	tab("all-reduce --protocol eag", "all-reduce --protocol eager")
	tab("set slot-s", "set slot-size")
	tab("set output js", "set output json")
	tab("help conc", "help concepts")
	tab("help @col", "help @collective")
	tab("rtr --side le", "rtr --side left")
	p.text("open; ini")
	p.keys("Tab")
	p.await("open; init", func(s string) bool { return strings.HasSuffix(s, "> open; init") })
	p.keys("C-u")

	p.run("connect", `(?m)^left +own +0 RTS`)
	p.run("set token-file-that-is-secret x", `ringcli: `)
	p.run("all-reduce --size 4K --check", `(?m)^all-reduce +\S+ +4096 .* 0$`)
	p.keys("Enter") // again
	p.await("the same again", func(s string) bool {
		return len(regexp.MustCompile(`(?m)^all-reduce +\S+ +4096`).FindAllString(s, -1)) == 2 && promptOnScreen.MatchString(s)
	})
	p.run("reset", `(?m)^left +own +0 RESET`)
	before := p.screen()
	p.keys("Enter", "Enter") // not again
	p.run("show timeout", `timeout`)
	if after := p.screen(); strings.Count(after, "RESET") != strings.Count(before, "RESET") {
		t.Errorf("Enter has repeated reset:\n%s", after)
	}
	begun := p.begin("watch 200ms show timeout")
	p.await("three rounds", func(s string) bool {
		got, _ := printed(s, "watch 200ms show timeout", begun)
		return strings.Count(got, "30s") >= 3 || strings.Count(got, "timeout") >= 3
	})
	p.keys("C-c")
	p.finish("watch 200ms show timeout", begun)
	p.keys("C-r")
	p.text("connec")
	p.await("what Ctrl-R finds", func(s string) bool { return strings.HasSuffix(s, "> connect\nbck-i-search: connec") })
	p.keys("C-c")
	p.prompt("ring 0/1")
	p.keys("C-d")
	if code := p.left(); code != "0" {
		t.Errorf("exit code %s\n%s", code, p.screen())
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(m.socket), "state", "ringcli", "history"))
	if err != nil || !strings.Contains(string(text), "all-reduce --size 4K --check\n") || strings.Contains(string(text), "token") {
		t.Errorf("the history is %q, %v: expected what was typed, but for the token", text, err)
	}
}
