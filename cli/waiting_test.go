package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringcli/cli/clitest"
)

// A wait says on standard error for whom, since when, and how that rank is; Ctrl-C says
// what was awaited; and what the other end says then.
func TestGoldenWaiting(t *testing.T) {
	t.Parallel()
	address, duration := regexp.MustCompile(`127\.\d+\.\d+\.`), regexp.MustCompile(`\b[0-9.]+m?s\b`)
	for name, commands := range map[string][3]string{ // of both ranks; "" is not started; and what is to be said
		"not-started":  {"ping", "", "waiting "},
		"other-sleeps": {"all-reduce", "sleep 100s; all-reduce", "to run all-reduce: up, in sleep for "},
	} {
		t.Run(name, func(t *testing.T) {
			after := "300ms"
			if commands[1] != "" {
				if testing.Short() {
					t.Skip("bring-up is to be shorter than what is told; `make test-long` runs it")
				}
				after = "2s"
			}
			t.Parallel()
			list := strings.Join(freshList(t, 2), ",")
			ranks := make([]*process, 0, 2)
			heard := make(chan struct{}, 16)
			for i, command := range commands[:2] {
				if command == "" {
					continue
				}
				p := program(t, "connect", "--index", string(rune('0'+i)), "--list", list, "--device", "soft", "-c", command)
				p.Env = append(p.Env, speakAfter+"="+after)
				p.Stderr = &listener{&p.stderr, commands[2], heard}
				p.start(t)
				ranks = append(ranks, p)
			}
			select { // either rank may be the first to speak, and rank 0 alone waits
			case <-heard:
			case <-time.After(90 * time.Second):
				t.Error("nobody says that it waits")
			}
			if err := ranks[0].Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for i, p := range ranks {
				code := p.end(t, hung)
				if i == 0 && code != 130 {
					t.Errorf("exit code %d after Ctrl-C", code)
				}
				b.WriteString(map[int]string{0: "rank 0:\n", 1: "rank 1:\n"}[i])
				for line := range strings.Lines(p.stderr.String()) { // a busy machine waits for other things, too
					if !strings.HasPrefix(line, "waiting ") || strings.Contains(line, commands[2]) {
						b.WriteString(line)
					}
				}
			}
			text := duration.ReplaceAllString(address.ReplaceAllString(b.String(), "127.x.y."), "T")
			clitest.Golden(t, filepath.Join("testdata", "waiting", name+".txt"), text)
		})
	}
}

// On a terminal the progress line says it, and of a rank at its prompt that it is idle.
func TestWaitingForAnIdleRank(t *testing.T) {
	if testing.Short() {
		t.Skip("two shells, and waits; `make test-long` runs it")
	}
	t.Parallel()
	m := newTmux(t, speakAfter+"=1s")
	list := strings.Join(freshList(t, 2), ",")
	zero := m.open(t, "connect", "--index", "0", "--list", list, "--device", "soft")
	const one = `rank 1 \(127\.\d+\.\d+\.2:18600\)`
	see := func(line string) {
		shown := regexp.MustCompile(strings.ReplaceAll(line, "ONE", one))
		zero.await(line, shown.MatchString)
	}
	see("waiting [0-9]+s for ONE: not running")
	m.open(t, "connect", "--index", "1", "--list", list, "--device", "soft").prompt("ready")
	zero.prompt("ready")
	zero.begin("all-reduce")
	see("waiting [0-9]+s for ONE: up, idle at its prompt")
	zero.keys("C-c")
	see("all-reduce stops at its next boundary")
	zero.keys("C-c")
	see("ringcli: interrupted; it had waited [0-9]+s for ONE to run")
}

// listener keeps what is written, and says when a wait is.
type listener struct {
	kept  *bytes.Buffer
	wait  string // what it says
	heard chan struct{}
}

func (l *listener) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(l.wait)) {
		l.heard <- struct{}{}
	}
	return l.kept.Write(b)
}

// What waits for no rank of a ring says so, too: for whom and since when, and at Ctrl-C.
func TestWaitingOutsideARing(t *testing.T) {
	t.Parallel()
	port := strconv.Itoa(18600 + os.Getpid()%1000)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a server": {[]string{"pingpong", "--bind", "127.0.0.1", "--port", port}, `a client on 127\.0\.0\.1:` + port},
		"a client": {[]string{"lab", "b", "127.0.0.1", "--tcp-port", "1"}, `a server on 127\.0\.0\.1:1`},
		"lab c":    {[]string{"lab", "c", "--index", "1", "--list", "127.0.0.1:2,127.0.0.2:2", "--device", "soft:lo"}, `rank 0 to meet on 127\.0\.0\.1:2`},
		"poll":     {[]string{"shell", "--index", "0", "--list", freshList(t, 1)[0], "--device", "soft:lo", "-c", "open; init; poll --timeout 20s"}, `a completion, at most 20s; nothing by hand is posted`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := program(t, c.args...)
			p.Env = append(p.Env, speakAfter+"=300ms")
			heard := make(chan struct{}, 16)
			p.Stderr = &listener{&p.stderr, "waiting ", heard}
			p.start(t)
			select {
			case <-heard:
			case <-time.After(20 * time.Second):
				t.Error("it does not say that it waits")
			}
			if err := p.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			code := p.end(t, hung)
			want := regexp.MustCompile(`(?s)^waiting [0-9.]+m?s for ` + c.want + `\n.*interrupted; it had waited [0-9.]+m?s for ` + c.want)
			if text := p.stderr.String(); code != 130 || !want.MatchString(text) {
				t.Errorf("exit code %d, and\n%s\nexpected %s", code, text, want)
			}
		})
	}
}
