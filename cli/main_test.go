package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringcli/cli/clitest"
	"ringcli/cli/hand"
	"ringcli/cli/local"
	"ringcli/cli/session"
	"ringcli/verbs/route"
	"ringcli/verbs/verbstest"
)

// testTable is the command table.
var testTable = commandTable(&hand.Work{}, &session.Place{})

// asProgram makes the test binary be ringcli: `local` starts /proc/self/exe, and
// the end-to-end tests start real processes without building another binary.
const asProgram = "RINGTEST_AS_PROGRAM"

// benchSpan is how long a process measures what it was not said how often; as often as
// at least, if it is not set.
const benchSpan = "RINGTEST_SPAN"

// speakAfter is how long such a process waits before it says for whom.
const speakAfter = "RINGTEST_SPEAK_AFTER"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(MainWith(testOptions(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(runTests(m))
}

// testOptions are those of such a process, on a machine that may be busy: it would report more
// waits, and end ranks before they have reported why they failed.
func testOptions() session.Options {
	o := session.Options{SpeakAfter: hung, StopGrace: time.Minute, SurvivorsGrace: time.Minute, Corrupt: corruptOf(), ParentEnded: heldUp()}
	o.BenchSpan, _ = time.ParseDuration(os.Getenv(benchSpan))
	if after, err := time.ParseDuration(os.Getenv(speakAfter)); err == nil {
		o.SpeakAfter = after
	}
	return o
}

// raceRuns are what the race detector watches here, under which all takes ten times as long:
// those in which a process does several things at once, or is ended in the middle. The
// packages below have tests of their own.
const raceRuns = "Leader|Jobs|Reconnect|Regroup|Retry|Interrupt|ByHand|KeepGoing|LinksAsALine|Disagreement"

// parallel is how many of these tests run at once for each two CPUs, of which most wait for
// processes.
const parallel = 3

// runTests keeps what failing commands leave behind, and what a shell remembers,
// in a directory of its own.
func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ringcli-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for name, value := range map[string]string{
		asProgram:           "1",    // what a test starts, also by /proc/self/exe, runs no tests
		"RINGCLI_DEVICE":    "soft", // packets, loss and GIDs: tests of other devices name those
		"RINGCLI_TRACE_DIR": dir, "XDG_STATE_HOME": dir, "XDG_CONFIG_HOME": dir,
	} {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	flags := map[string]string{"test.parallel": fmt.Sprint(max(1, parallel*runtime.GOMAXPROCS(0)/2))}
	if verbstest.Race {
		flags = map[string]string{"test.run": raceRuns}
	}
	for name, value := range flags { // which those of the command line replace
		if err := flag.Set(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// process is a ringcli that runs as a process of its own.
type process struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
}

// program returns a ringcli that has not been started.
func program(t *testing.T, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(self, args...)}
	// Under the race detector a process sleeps for a second at its end, so that
	// other threads can report; here it has none.
	p.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	p.WaitDelay = 10 * time.Second
	return p
}

// launch starts it and ends it with the test.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	p := program(t, args...)
	p.start(t)
	return p
}

func (p *process) start(t *testing.T) {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
}

// end waits for it, at most for the limit, and returns its exit code.
func (p *process) end(t *testing.T, limit time.Duration) int {
	t.Helper()
	timer := time.AfterFunc(limit, func() { _ = p.Process.Signal(syscall.SIGQUIT) })
	defer timer.Stop()
	_ = p.Wait() // the state says it
	clitest.ValidateJSON(t, p.stdout.String())
	if code := p.ProcessState.ExitCode(); code >= 0 {
		return code
	}
	t.Fatalf("%q: %s after %s\n%s", p.Args[1:], p.ProcessState, limit, p.stderr.String())
	return -1
}

// hung is how long a process may take before it is taken for hung. Machines that
// serve many are slow at times.
const hung = 5 * time.Minute

// finish runs it to its end.
func finish(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := launch(t, args...)
	code = p.end(t, hung)
	return code, p.stdout.String(), p.stderr.String()
}

// reported returns what a process reported as its error. Warnings of the trace,
// such as of a peer that hung up in the middle of a greeting, are left out.
func reported(p *process) string { return reportedIn(p.stderr.String()) }

func reportedIn(stderr string) string {
	var b strings.Builder
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "ringcli: ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// freshList returns a server list of n addresses in a subnet of the test's own.
func freshList(t *testing.T, n int) []string {
	t.Helper()
	s, err := local.ClaimSubnets(n, testPort)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return strings.Split(s.List(), ",")
}

const testPort = 18600

// objects reads JSON lines.
func objects(t *testing.T, text string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(text) {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%q is no JSON object: %v", line, err)
		}
		all = append(all, o)
	}
	return all
}

// run is Main under a context and streams of the caller's.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	i := newInvocation(stdin, stdout, stderr, nil, session.TakeToken())
	i.Options = testOptions()
	return i.run(ctx, args)
}

// here runs a command line in this process.
func here(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	var out, errs bytes.Buffer
	code = run(ctx, args, strings.NewReader(""), &out, &errs)
	clitest.ValidateJSON(t, out.String())
	return code, out.String(), errs.String()
}

// gone fails if an address of the list is still bound by somebody.
func gone(t *testing.T, list []string) {
	t.Helper()
	for _, address := range list {
		l, err := net.Listen("tcp4", address)
		if err != nil {
			t.Errorf("still in use: %v", err)
			continue
		}
		_ = l.Close()
		host, _, _ := net.SplitHostPort(address)
		u, err := net.ListenPacket("udp4", net.JoinHostPort(host, fmt.Sprint(route.RoCEPort)))
		if err != nil {
			t.Errorf("still in use: %v", err)
			continue
		}
		_ = u.Close()
	}
}
