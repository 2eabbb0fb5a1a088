package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/verbs/verbstest"
)

// screenDeadline is how long a screen may take to show what is expected: much
// longer than it does, on a machine that does a lot besides.
const screenDeadline = 2 * time.Minute

// tmux is a server of a test's own, each of whose windows is a terminal of 80
// columns and 40 rows.
type tmux struct {
	path, socket string
	env          []string
	windows      int
}

// newTmux skips the test where tmux is missing.
func newTmux(t *testing.T, env ...string) *tmux {
	t.Helper()
	path, err := exec.LookPath("tmux")
	if err != nil {
		t.Skip("NOT TESTED: tmux is not installed; it gives a shell a terminal that can be looked at")
	}
	dir, err := os.MkdirTemp("", "ringcli-test-") // short: a socket's path is
	if err != nil {
		t.Fatal(err)
	}
	m := &tmux{path: path, socket: filepath.Join(dir, "socket")}
	m.env = append(os.Environ(), "TERM=xterm-256color", "NO_COLOR=", "GORACE=atexit_sleep_ms=0",
		"XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_CONFIG_HOME="+filepath.Join(dir, "config"))
	m.env = append(m.env, env...)
	t.Cleanup(func() {
		if m.windows > 0 {
			m.do(t, "kill-server")
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return m
}

// do runs a tmux command and returns what it prints. The flag -f keeps the
// user's configuration out.
func (m *tmux) do(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(m.path, append([]string{"-S", m.socket, "-f", "/dev/null"}, args...)...)
	cmd.Env = m.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// pane is a terminal in which a ringcli runs.
type pane struct {
	t      *testing.T
	m      *tmux
	id     string
	status string // the file of the exit code
}

// open runs a ringcli in a terminal.
func (m *tmux) open(t *testing.T, args ...string) *pane {
	t.Helper()
	return m.openWith(t, nil, "", args...)
}

// openWith takes variables of the environment, and a file for all that is written
// to the terminal, escape codes and all.
func (m *tmux) openWith(t *testing.T, env []string, raw string, args ...string) *pane {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if m.windows == 0 {
		// A window takes these options when it is made; this one is only there for
		// the server.
		m.do(t, "new-session", "-d", "-x", "80", "-y", "40", "-s", "test", "cat")
		m.do(t, "set-option", "-g", "remain-on-exit", "on")
		m.do(t, "set-option", "-g", "history-limit", "100000")
	}
	m.windows++
	status := filepath.Join(filepath.Dir(m.socket), fmt.Sprintf("exit%d", m.windows))
	// Ctrl-C is for the ringcli; the shell around it lives on, to say how it ended.
	const around = `trap : INT; "$@"; echo $? >"$0"`
	window := []string{"new-window", "-d", "-P", "-F", "#{pane_id}", "-t", "test:"}
	command := []string{"sh", "-c", around, status, "env"}
	if raw != "" {
		// It waits until what it writes is kept.
		command[2] = `read go; ` + around
	}
	id := m.do(t, slices.Concat(window, command, env, []string{self}, args)...)
	if raw != "" {
		m.do(t, "pipe-pane", "-t", id, "cat >"+raw)
		m.do(t, "send-keys", "-t", id, "Enter")
	}
	return &pane{t, m, id, status}
}

// keys presses keys by their names, such as C-c or Enter.
func (p *pane) keys(names ...string) {
	p.t.Helper()
	p.m.do(p.t, append([]string{"send-keys", "-t", p.id}, names...)...)
}

// text types as a person does, without Enter.
func (p *pane) text(text string) {
	p.t.Helper()
	p.m.do(p.t, "send-keys", "-t", p.id, "-l", text)
}

// screen is all that the terminal has shown; what it wrapped is joined.
func (p *pane) screen() string {
	p.t.Helper()
	return strings.TrimRight(p.m.do(p.t, "capture-pane", "-p", "-J", "-S", "-", "-t", p.id), " \n")
}

// await waits until the screen is as it should be.
func (p *pane) await(what string, is func(screen string) bool) string {
	p.t.Helper()
	begun := time.Now()
	for {
		screen := p.screen()
		if is(screen) {
			return screen
		}
		if time.Since(begun) > screenDeadline {
			lines := strings.Split(screen, "\n")
			p.t.Fatalf("%s is not on the screen after %s:\n%s", what, screenDeadline, strings.Join(lines[max(0, len(lines)-60):], "\n"))
		}
		time.Sleep(40 * time.Millisecond)
	}
}

var promptOnScreen = regexp.MustCompile(`(?m)^(?:ring \d/\d \S+ \S+|no ring)>\z`)

// prompt waits for a prompt that matches, with nothing typed after it.
func (p *pane) prompt(want string) {
	p.t.Helper()
	p.await("the prompt "+want, func(screen string) bool {
		at := promptOnScreen.FindString(screen)
		return at != "" && strings.Contains(at, want)
	})
}

// begin types a line, which may go on for a while.
func (p *pane) begin(line string) (typed int) {
	p.t.Helper()
	before := strings.Count(p.screen(), "> "+line+"\n")
	p.text(line)
	p.keys("Enter")
	return before + 1
}

// printed is what the screen shows after a line was typed the n-th time.
func printed(screen, line string, n int) (string, bool) {
	parts := strings.SplitAfterN(screen, "> "+line+"\n", n+1)
	if len(parts) <= n {
		return "", false
	}
	return parts[n], true
}

// run types a line and waits until what it prints matches every pattern and the
// prompt is back. It returns what was printed.
func (p *pane) run(line string, want ...string) string {
	p.t.Helper()
	return p.finish(line, p.begin(line), want...)
}

// shows waits until a line that was begun, and goes on, has shown a text.
func (p *pane) shows(text, line string, typed int) {
	p.t.Helper()
	p.await(fmt.Sprintf("%q after %q", text, line), func(screen string) bool {
		got, found := printed(screen, line, typed)
		return found && strings.Contains(got, text)
	})
}

// finish waits for the end of a line that was begun.
func (p *pane) finish(line string, typed int, want ...string) (got string) {
	p.t.Helper()
	for _, w := range want {
		pattern := regexp.MustCompile(w)
		p.await(fmt.Sprintf("%q after %q", w, line), func(screen string) bool {
			text, found := printed(screen, line, typed)
			// An error is wrapped at words.
			return found && (pattern.MatchString(text) || pattern.MatchString(strings.ReplaceAll(text, "\n  ", " ")))
		})
	}
	p.await(fmt.Sprintf("the prompt after %q", line), func(screen string) bool {
		var found bool
		got, found = printed(screen, line, typed)
		return found && promptOnScreen.MatchString(got)
	})
	return got
}

// runAll types a line in all terminals, and waits for all.
func runAll(panes []*pane, line string, want ...string) {
	panes[0].t.Helper()
	var typed []int
	for _, p := range panes {
		typed = append(typed, p.begin(line))
	}
	for i, p := range panes {
		p.finish(line, typed[i], want...)
	}
}

// child is the process of the ringcli.
func (p *pane) child() int {
	p.t.Helper()
	shell := p.m.do(p.t, "display-message", "-p", "-t", p.id, "#{pane_pid}")
	text, err := os.ReadFile(fmt.Sprintf("/proc/%s/task/%s/children", shell, shell))
	pid, wrong := strconv.Atoi(strings.TrimSpace(string(text)))
	if err = errors.Join(err, wrong); err != nil {
		p.t.Fatalf("the child of %s: %v", shell, err)
	}
	return pid
}

// halt stops the ringcli, as one that hangs; the returned function lets it go on.
func (p *pane) halt() (goOn func()) {
	p.t.Helper()
	pid := p.child()
	send := func(which syscall.Signal) {
		if err := syscall.Kill(pid, which); err != nil {
			p.t.Fatal(err)
		}
	}
	send(syscall.SIGSTOP)
	p.await("a stopped process", func(string) bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, path := range threads {
			text, _ := os.ReadFile(path) // gone: it does not run
			if _, state, _ := strings.Cut(string(text), ") "); !strings.HasPrefix(state, "T") {
				return false
			}
		}
		return err == nil && len(threads) > 0
	})
	return func() { send(syscall.SIGCONT) }
}

// running waits until the terminal is the line's: until Ctrl-C is a signal.
func (p *pane) running() {
	p.t.Helper()
	tty, err := os.Open(p.m.do(p.t, "display-message", "-p", "-t", p.id, "#{pane_tty}"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = tty.Close() }()
	p.await("a line that runs", func(string) bool {
		state, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
		return err == nil && state.Lflag&unix.ISIG != 0
	})
}

// left waits until the ringcli has ended and returns its exit code.
func (p *pane) left() string {
	p.t.Helper()
	begun := time.Now()
	for {
		if text, err := os.ReadFile(p.status); err == nil && strings.HasSuffix(string(text), "\n") {
			return strings.TrimSpace(string(text))
		}
		if time.Since(begun) > screenDeadline {
			p.t.Fatalf("it has not ended after %s:\n%s", screenDeadline, p.screen())
		}
		time.Sleep(40 * time.Millisecond)
	}
}

// The whole of it, as an operator types it at two nodes.
func TestTwoTerminalsBringUpARing(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	m := newTmux(t)
	list := freshList(t, 2)
	var panes []*pane
	for rank := range list {
		panes = append(panes, m.open(t, "shell", "--index", fmt.Sprint(rank), "--list", strings.Join(list, ",")))
	}
	zero, one := panes[0], panes[1]
	for _, p := range panes {
		p.prompt("no ring>")
		p.run("query soft:lo", `port 1`, `active_mtu +4096`, `GID\[\d+\]`)
		// What is too early names what is missing.
		p.run("rtr", `there is no ring: .open. comes first`)
		p.run("all-reduce", `(?m)step by step: open, init,\n  exchange, rtr, rts$`)
	}
	for _, step := range []struct {
		line, prompt string
		want         []string
		early, said  string // refused before it
	}{
		{"open", "open", []string{`(?m)^[01] of 2 soft:lo +1 ACTIVE 4096`}, "exchange", `init comes first`},
		{"init", "init", []string{`(?m)^left +own +[01] INIT +0x[0-9a-f]{6} 0x[0-9a-f]{6} +\d+ .*0x`, `(?m)^right +own +[01] INIT`}, "rtr", `exchange comes first`},
		{"exchange", "exchanged", []string{`(?m)^left +peer +[01] +0x[0-9a-f]{6} 0x[0-9a-f]{6} 4096 +0x[0-9a-f]+ ::ffff:127\.`}, "rts", `rtr comes first`},
		{"rtr", "RTR", []string{`(?m)^left +own +[01] RTR +0x[0-9a-f]{6}`, `(?m)^right +peer +[01] (INIT|RTR) `}, "all-reduce --check", `rts comes first`},
		{"rts", "RTS", []string{`(?m)^left +own +[01] RTS +0x[0-9a-f]{6}`, `(?m)^right +own +[01] RTS`}, "init", `reset`},
	} {
		runAll(panes, step.line, step.want...)
		for _, p := range panes {
			p.prompt(" " + step.prompt + " soft:lo>")
			p.run(step.early, step.said)
			p.prompt(" " + step.prompt + " soft:lo>") // as it was
		}
	}
	zero.run("ping right", `(?m)^0 -> 1 right`)
	one.run("ping left", `(?m)^1 -> 0 left`)
	runAll(panes, "status", `(?m)^rts +done +done`, `(?m)^left +own +[01] RTS`, `(?m)^right +peer +[01] RTS`)
	zero.run("qp right --all", `(?m)^right +qp_state +RTS +RTS`, `(?m)^right +path_mtu +4096 +4096`)
	runAll(panes, "all-reduce --size 64K --check", `(?m)^all-reduce +receiver-initiated +65536 .* 0$`)
	zero.run("counters", `sent`)

	// Lines of the trace come above a line that is being typed, and leave it whole.
	zero.run("trace wire=debug", `(?m)^wire +debug`)
	zero.text("counters --al")
	whole := func(screen string) bool {
		return strings.HasSuffix(screen, "ring 0/2 RTS soft:lo> counters --al")
	}
	zero.await("half a line", whole)
	before := strings.Count(zero.screen(), "packet received")
	one.run("ping left", `(?m)^1 -> 0 left`)
	zero.await("packets above half a line", func(screen string) bool {
		return whole(screen) && strings.Count(screen, "packet received") > before
	})
	zero.text("l")
	zero.keys("Enter")
	zero.finish("counters --all", 1, `(?m)^soft +port_rcv_packets +\d+`)
	zero.run("trace off", `(?m)^wire +off`)
	before = strings.Count(zero.screen(), "packet received")
	zero.text("st")
	one.run("ping left", `(?m)^1 -> 0 left`)
	if screen := zero.await("half a line", func(s string) bool { return strings.HasSuffix(s, "> st") }); strings.Count(screen, "packet received") != before {
		t.Errorf("packets are printed after trace off:\n%s", screen)
	}
	zero.keys("C-c") // a line that is given up
	zero.prompt("ring 0/2 RTS soft:lo>")

	// Ctrl-C stops what runs on both, and leaves the ring usable.
	const long = "all-reduce --size 256K --duration 1h"
	begunZero, begunOne := zero.begin(long), one.begin(long)
	zero.shows(" of 1h", long, begunZero)
	zero.keys("C-c")
	zero.finish(long, begunZero, `interrupted after \d+ iterations; the ring is usable`)
	one.finish(long, begunOne, `the ring is usable`)
	runAll(panes, "all-reduce --size 4K --check", `(?m)^all-reduce +\S+ +4096 .* 0$`)

	// Given up while the other has not begun, the ring is as it was.
	alone := zero.begin("all-reduce --size 4K --iters 7")
	zero.running()
	zero.keys("C-c")
	zero.shows("Ctrl-C again cancels it", "all-reduce --size 4K --iters 7", alone)
	zero.keys("C-c")
	zero.finish("all-reduce --size 4K --iters 7", alone, `interrupted`)
	// The other hears of it when it begins, if rank 0 had got that far.
	runAll(panes, "all-reduce --size 4K --iters 8 --check", `(?m)one has given up before the other began|^all-reduce`)
	runAll(panes, "all-reduce --size 4K --iters 9 --check", `(?m)^all-reduce +\S+ +4096 .* 0$`)

	// A second Ctrl-C cancels at once, here while the other rank hangs. Then it is
	// said what brings a ring back.
	begunZero, begunOne = zero.begin(long), one.begin(long)
	zero.shows(" of 1h", long, begunZero)
	goOn := one.halt()
	zero.keys("C-c")
	zero.shows("Ctrl-C again cancels it", long, begunZero)
	zero.keys("C-c")
	zero.finish(long, begunZero, `interrupted`, `connect`)
	goOn()
	one.finish(long, begunOne, `rank 0`, `connect`)
	runAll(panes, "all-reduce --size 4K", `(?s)the ring is over: it ended with.*fix: .reconnect. rebuilds it`)
	runAll(panes, "connect", `(?m)^left +peer +[01] RTS`)
	runAll(panes, "all-reduce --size 64K --check", `(?m)^all-reduce +receiver-initiated +65536 .* 0$`)

	for _, p := range panes {
		p.keys("C-d")
	}
	for rank, p := range panes {
		if code := p.left(); code != "0" {
			t.Errorf("rank %d: exit code %s after Ctrl-D\n%s", rank, code, p.screen())
		}
	}
	gone(t, list)
}
