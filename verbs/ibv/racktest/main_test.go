package racktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ringcli/verbs/ibv/racktest/rack"
)

// The rack that all tests share: booting one takes as long as many tests. Tests
// that run in parallel leave alone what others use; those that change a machine put
// it back in a Cleanup.
var (
	bench  *rack.Rack
	shared string // a directory that the host and all machines write, at the same path
)

// nodes is what the mixed ring of two ranks on rxe and two on soft needs.
const nodes = 4

// deadline is for one command in a machine where a test does not say its own.
const deadline = 30 * time.Second

func TestMain(m *testing.M) {
	if name := os.Getenv(helperVariable); name != "" {
		if err := helpers[name](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if shared, err = os.MkdirTemp("", "racktest-*"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(shared)) }()
	// MTU 9000: an active MTU of 4096, of which a queue pair may use less.
	bench, err = rack.Up(context.Background(), rack.Options{Nodes: nodes, MTU: 9000, Shares: []string{shared}, Log: os.Stdout})
	if err != nil {
		return 1, err
	}
	network, err := bench.Host(context.Background(), "readlink", "/proc/self/ns/net").Output()
	defer func() {
		err = errors.Join(err, bench.Down(), checkGone(bench.Dir(), strings.TrimSpace(string(network))))
	}()
	if err != nil {
		return 1, err
	}
	fmt.Printf("kernel      Linux %s\naccelerator %s\n", bench.Kernel(), bench.Accelerator())
	return m.Run(), nil
}

// checkGone looks for what a rack could leave behind: its directory, and whatever is
// still in its network, as its virtual machines and the host's commands are.
func checkGone(dir, network string) error {
	var errs []error
	if _, err := os.Lstat(dir); err == nil {
		errs = append(errs, fmt.Errorf("left behind: %s", dir))
	}
	threads, _ := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	for _, thread := range threads {
		// An error is a thread that has ended meanwhile.
		if in, err := os.Readlink(thread + "/ns/net"); err == nil && in == network {
			name, _ := os.ReadFile(thread + "/comm")
			errs = append(errs, fmt.Errorf("left behind: %s, %s", thread, strings.TrimSpace(string(name))))
		}
	}
	return errors.Join(errs...)
}

// inVM runs a command in machine k and returns its standard output, without the
// last line's end. The test fails where the command does.
func inVM(t testing.TB, k int, args ...string) string {
	t.Helper()
	out, err := tryVM(t, deadline, k, args...)
	if err != nil {
		t.Fatalf("%s\n%s", err, out)
	}
	return out
}

// tryVM is inVM with a deadline of its own, and an error instead of a failure.
func tryVM(t testing.TB, limit time.Duration, k int, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out, err := bench.Command(ctx, k, args[0], args[1:]...).Output()
	return strings.TrimSuffix(string(out), "\n"), err
}

// onHost runs a command on the host's leg, 10.77.0.254, as inVM does in a machine.
func onHost(t testing.TB, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	cmd := bench.Host(ctx, args[0], args[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("on the host's leg: %s: %v: %s\n%s", strings.Join(args, " "), err, stderr.Bytes(), out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// process is a command that runs beside the test.
type process struct {
	*rack.Cmd
	output *output
	done   chan struct{}
	err    error // of Wait, once done is closed
}

// startVM starts a command in machine k, which ends at the latest with the test.
func startVM(t testing.TB, k int, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{Cmd: bench.Command(ctx, k, args[0], args[1:]...), output: newOutput(), done: make(chan struct{})}
	p.Stdout, p.Stderr = p.output, p.output
	if err := p.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	go func() {
		p.err = p.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		cancel()
		<-p.done // Wait has a deadline after its context's end
	})
	return p
}

// wait waits for the command's end, which must be a good one, and returns its
// output and errors in order.
func (p *process) wait(t testing.TB, limit time.Duration) string {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		t.Fatalf("%v: not ended after %v; so far:\n%s", p.Args, limit, p.output)
	}
	if p.err != nil {
		t.Fatalf("%v\n%s", p.err, p.output)
	}
	return p.output.String()
}

// await waits until the command has printed text.
func (p *process) await(t testing.TB, text string, limit time.Duration) {
	t.Helper()
	expired := time.After(limit)
	for {
		so, more := p.output.now()
		if strings.Contains(so, text) {
			return
		}
		select {
		case <-more:
		case <-p.done:
			if so, _ = p.output.now(); !strings.Contains(so, text) {
				t.Fatalf("%v: ended (%v) without %q:\n%s", p.Args, p.err, text, so)
			}
		case <-expired:
			t.Fatalf("%v: no %q after %v:\n%s", p.Args, text, limit, so)
		}
	}
}

// output collects what a command prints, for readers that wait for more.
type output struct {
	mu   sync.Mutex // guards the rest
	b    bytes.Buffer
	more chan struct{} // closed, and made anew, when something has come
}

func newOutput() *output { return &output{more: make(chan struct{})} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.more)
	o.more = make(chan struct{})
	return o.b.Write(b)
}

func (o *output) now() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String(), o.more
}

func (o *output) String() string {
	s, _ := o.now()
	return s
}

// eventually asks until the answer is yes.
func eventually(t testing.TB, limit time.Duration, what string, ask func() bool) {
	t.Helper()
	for began := time.Now(); !ask(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > limit {
			t.Fatalf("%s: not after %v", what, limit)
		}
	}
}

// plain takes rdma_rxe out of machine k for the rest of the test, so that UDP port
// 4791 is free for the soft provider.
func plain(t testing.TB, k int) {
	t.Helper()
	t.Cleanup(func() {
		// Not inVM, whose context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		_, err := bench.Command(ctx, k, "sh", "-c", "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0").Output()
		if err != nil {
			t.Error(err)
		}
	})
	inVM(t, k, "sh", "-c", "rdma link delete rxe0 && rmmod rdma_rxe")
}

// builds has what binary and testBinary have built: path by name.
var builds struct {
	sync.Mutex
	done map[string]error
}

// product is where the module lies whose programs and tests run in the machines.
const product = "../../.."

// binary builds one of ringcli's commands, such as ringcli, once, and returns
// its path, which is the same on the host and in the machines.
func binary(t testing.TB, name string) string {
	t.Helper()
	return build(t, product, name, "build", "./cli/"+name)
}

// testBinary builds the tests of a package that lies in the module's directory, such
// as ./verbs/ibv of product, once, and returns the path of what runs them.
func testBinary(t testing.TB, module, pkg string) string {
	t.Helper()
	return build(t, module, strings.ReplaceAll(strings.TrimPrefix(pkg, "./"), "/", "-")+".test", "test", "-c", pkg)
}

func build(t testing.TB, module, name string, args ...string) string {
	t.Helper()
	builds.Lock()
	defer builds.Unlock()
	err, done := builds.done[name]
	if !done {
		pkg := len(args) - 1
		cmd := exec.Command("go", slices.Insert(args, pkg, "-buildvcs=false", "-o", filepath.Join(shared, name))...)
		cmd.Dir = module
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		var out []byte
		if out, err = cmd.CombinedOutput(); err != nil {
			err = fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
		}
		if builds.done == nil {
			builds.done = map[string]error{}
		}
		builds.done[name] = err
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(shared, name)
}

// waits are the lines by which a command says what it waits for, as it does on a busy machine.
var waits = regexp.MustCompile(`(?m)^waiting \d+s for .*\n`)

// withoutWaits leaves them out.
func withoutWaits(said string) string { return waits.ReplaceAllString(said, "") }
