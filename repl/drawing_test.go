package repl

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// window is an 80-column terminal that draws what the demo shell writes.
type window struct {
	t      *testing.T
	tmux   string
	server string
}

func newWindow(t *testing.T) *window {
	t.Helper()
	tmux, err := exec.LookPath("tmux")
	if err != nil {
		t.Skip("tmux is not installed; it draws what a terminal shows")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &window{t, tmux, filepath.Join(t.TempDir(), "tmux")}
	t.Setenv(asShell, "")
	t.Setenv("TERM", "xterm-256color")
	w.do("new-session", "-d", "-x", "80", "-y", "24", "-s", "shell", self)
	t.Cleanup(func() { w.do("kill-server") })
	w.await("demo>")
	return w
}

func (w *window) do(args ...string) string {
	w.t.Helper()
	// The flag -f keeps the user's configuration out.
	out, err := exec.Command(w.tmux, append([]string{"-S", w.server, "-f", "/dev/null"}, args...)...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

func (w *window) press(keys ...string) {
	w.t.Helper()
	w.do(append([]string{"send-keys", "-t", "shell"}, keys...)...)
}

// await waits until all that is on the screen, without blanks at line ends, is
// the text.
func (w *window) await(want string) {
	w.t.Helper()
	w.until("a screen with\n"+want, func(got string) bool { return got == want })
}

// awaitEnds waits for a screen that begins and ends so.
func (w *window) awaitEnds(begin, end string) {
	w.t.Helper()
	w.until("a screen with\n"+begin+"...\n"+end, func(got string) bool {
		return strings.HasPrefix(got, begin) && strings.HasSuffix(got, end)
	})
}

func (w *window) until(what string, ok func(screen string) bool) {
	w.t.Helper()
	var got string
	defer func() {
		if w.t.Failed() {
			w.t.Logf("on the screen:\n%s", got)
		}
	}()
	eventually(w.t, what, func() bool {
		var lines []string
		for line := range strings.SplitSeq(strings.TrimRight(w.do("capture-pane", "-p", "-S", "-", "-t", "shell"), "\n"), "\n") {
			lines = append(lines, strings.TrimRight(line, " "))
		}
		got = strings.Join(lines, "\n")
		return ok(got)
	})
}

// wrapped is how 80 columns show a line.
func wrapped(line string) string {
	var b strings.Builder
	for len(line) > 80 {
		b.WriteString(line[:80] + "\n")
		line = line[80:]
	}
	return b.String() + line
}

// Output that arrives while half a line is typed is above it.
func TestDrawingOutputAboveThePrompt(t *testing.T) {
	w := newWindow(t)
	w.press("later", "Enter", "echo half")
	w.await("demo> later\nlater 0\nlater 1\nlater 2\ndemo> echo half")
	w.press(" a line", "Enter")
	w.await("demo> later\nlater 0\nlater 1\nlater 2\ndemo> echo half a line\nhalf a line\ndemo>")
}

// A line of 300 columns is drawn right while it is typed, edited in the middle,
// printed around, and run.
func TestDrawingLongLine(t *testing.T) {
	w := newWindow(t)
	long := strings.Repeat("0123456789", 30)
	w.press("later", "Enter", "echo "+long)
	above := "demo> later\nlater 0\nlater 1\nlater 2\n"
	w.await(above + wrapped("demo> echo "+long))
	w.press("C-a", "C-f", "C-f", "C-f", "C-f", "C-f", "x", "C-e", "y")
	w.await(above + wrapped("demo> echo x"+long+"y"))
	w.press("C-a", "C-k")
	w.await(above + "demo>")
	w.press("C-y", "Enter")
	w.await(above + wrapped("demo> echo x"+long+"y") + "\n" + wrapped("x"+long+"y") + "\ndemo>")
}

func TestDrawingOtherWidth(t *testing.T) {
	w := newWindow(t)
	line, above := "demo> echo "+strings.Repeat("abcdefghij", 9), "demo> later\nlater 0\nlater 1\nlater 2\n"
	w.press("later", "Enter", line[len("demo> "):])
	w.await(above + wrapped(line))
	w.do("resize-window", "-t", "shell", "-x", "50", "-y", "24")
	w.press("k")
	w.awaitEnds(above, line[:50]+"\n"+line[50:100]+"\n"+line[100:]+"k")
	w.do("resize-window", "-t", "shell", "-x", "80", "-y", "24")
	w.press("l")
	w.awaitEnds(above, wrapped(line+"kl"))
}
