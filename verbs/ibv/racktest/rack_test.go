package racktest

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringcli/verbs/ibv/racktest/rack"
)

// What a machine is.
func TestMachine(t *testing.T) {
	if got := inVM(t, 1, "uname", "-r"); got != bench.Kernel() {
		t.Errorf("the kernel is %s, expected %s", got, bench.Kernel())
	}
	info := inVM(t, 1, "ibv_devinfo", "-v", "-d", "rxe0")
	t.Log("device\n" + info)
	for _, want := range []string{"PORT_ACTIVE", "active_mtu:\t\t4096", "::ffff:10.77.0.1", "fd77::1"} {
		if !strings.Contains(info, want) {
			t.Errorf("ibv_devinfo does not say %q", want)
		}
	}
	if got := inVM(t, 2, "cat", "/etc/hostname", "/proc/sys/kernel/hostname"); !strings.HasSuffix(got, "vm2") {
		t.Errorf("the host name is %q", got)
	}
	if got := inVM(t, 2, "sh", "-c", "ulimit -l"); got != "unlimited" {
		t.Errorf("%s KiB of memory may be locked", got)
	}
}

// A command in a machine behaves as it does at home.
func TestCommand(t *testing.T) {
	t.Run("exit status", func(t *testing.T) {
		_, err := tryVM(t, deadline, 1, "sh", "-c", "echo no >&2; exit 7")
		var exit *rack.ExitError
		if !errors.As(err, &exit) || exit.Code != 7 || string(exit.Stderr) != "no\n" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("not found", func(t *testing.T) {
		if _, err := tryVM(t, deadline, 1, "no-such-command"); err == nil || !strings.Contains(err.Error(), "no-such-command") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("words and streams", func(t *testing.T) {
		words := []string{"it's", "$HOME", "a  b", `"`, `\`, "", "ü\n"}
		c := bench.Command(t.Context(), 1, "sh", append([]string{"-c", `printf '%s|' "$@"; cat; echo "$A $PWD" >&2`, "sh"}, words...)...)
		var stdout, stderr strings.Builder
		c.Stdin, c.Stdout, c.Stderr = strings.NewReader("from stdin"), &stdout, &stderr
		c.Env, c.Dir = []string{"A=b c"}, "/usr/bin"
		if err := c.Run(); err != nil {
			t.Fatal(err)
		}
		if want := strings.Join(words, "|") + "|from stdin"; stdout.String() != want {
			t.Errorf("out %q, want %q", stdout.String(), want)
		}
		if want := "b c /usr/bin\n"; stderr.String() != want {
			t.Errorf("err %q, want %q", stderr.String(), want)
		}
	})
	t.Run("much", func(t *testing.T) {
		file, err := os.ReadFile("/usr/bin/bash")
		if err != nil {
			t.Fatal(err)
		}
		out, err := bench.Command(t.Context(), 2, "cat", "/usr/bin/bash").Output()
		if err != nil || sha256.Sum256(out) != sha256.Sum256(file) {
			t.Errorf("%d bytes of %d, or not the same ones: %v", len(out), len(file), err)
		}
	})
	t.Run("streaming", func(t *testing.T) {
		p := startVM(t, 1, "sh", "-c", "echo first; exec sleep 1000")
		p.await(t, "first", deadline) // long before the end
	})
	t.Run("many at once", func(t *testing.T) {
		var all []*process
		for i := range 8 {
			all = append(all, startVM(t, i%nodes+1, "sh", "-c", fmt.Sprintf("cat /proc/sys/kernel/hostname; echo %d", i)))
		}
		for i, p := range all {
			if got, want := p.wait(t, deadline), fmt.Sprintf("vm%d\n%d\n", i%nodes+1, i); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
	t.Run("signal", func(t *testing.T) {
		p := startVM(t, 1, "sh", "-c", "trap 'echo caught; exit 3' TERM; echo ready; while :; do sleep 0.05; done")
		p.await(t, "ready", deadline)
		if err := p.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		p.await(t, "caught", deadline)
		<-p.done
		var exit *rack.ExitError
		if !errors.As(p.err, &exit) || exit.Code != 3 {
			t.Errorf("got %v", p.err)
		}
	})
	t.Run("timeout ends all of it", func(t *testing.T) {
		_, err := tryVM(t, 500*time.Millisecond, 1, "sh", "-c", "sleep 98765 & sleep 98765; true")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if left, err := tryVM(t, deadline, 1, "pgrep", "-f", "sleep 98765"); err == nil {
			t.Errorf("left in the machine: %s", left)
		}
	})
}

func TestShare(t *testing.T) {
	file := filepath.Join(shared, "note")
	for _, text := range []string{"one", "two, longer"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := inVM(t, 1, "cat", file); got != text {
			t.Errorf("the machine reads %q, written was %q", got, text)
		}
	}
	inVM(t, 2, "sh", "-c", "echo three >"+file)
	if got, err := os.ReadFile(file); err != nil || string(got) != "three\n" {
		t.Errorf("the host reads %q, %v", got, err)
	}
}

// pingpong runs the stock tool between machines 1 and 2, and returns the server when
// the client has ended well.
func pingpong(t *testing.T, options ...string) (server *process) {
	t.Helper()
	args := append([]string{"ibv_rc_pingpong", "-d", "rxe0", "-g", "1"}, options...)
	server = startVM(t, 1, args...)
	eventually(t, deadline, "the server listens", func() bool {
		return strings.Contains(inVM(t, 1, "ss", "-Hltn"), ":18515 ")
	})
	client := startVM(t, 2, append(args, bench.Address(1).String())...)
	if out := client.wait(t, deadline); !strings.Contains(out, "iters in") {
		t.Errorf("the client says\n%s", out)
	}
	return server
}

func TestPingpong(t *testing.T) { pingpong(t, "-n", "50").wait(t, deadline) }

func TestImpair(t *testing.T) {
	if err := bench.Impair(2, "loss", "10%"); err != nil {
		t.Fatal(err)
	}
	// The server may not end: the tool leaves without waiting for its peer, and if
	// the client's last acknowledgement got lost there is nobody to repeat it, while
	// rxe takes the tool's retry count of 7 for ever.
	pingpong(t, "-n", "20", "-s", "1024")
	if got := inVM(t, 2, "tc", "qdisc", "show", "dev", "eth0"); !strings.Contains(got, "netem") || !strings.Contains(got, "loss 10%") {
		t.Errorf("the queue is %q", got)
	}
	for range 2 { // the second has nothing to do
		if err := bench.Impair(2); err != nil {
			t.Fatal(err)
		}
	}
	if got := inVM(t, 2, "tc", "qdisc", "show", "dev", "eth0"); strings.Contains(got, "netem") {
		t.Errorf("the queue is %q", got)
	}
}

// reaches says whether machine 1 gets an answer from machine 2 in time.
func reaches(t *testing.T) bool {
	_, err := tryVM(t, deadline, 1, "ping", "-c", "1", "-W", "1", bench.Address(2).String())
	return err == nil
}

func portState(t *testing.T, k int) string {
	return strings.TrimSpace(inVM(t, k, "cat", "/sys/class/infiniband/rxe0/ports/1/state"))
}

func TestLink(t *testing.T) {
	t.Cleanup(func() {
		if err := bench.Link(1, rack.LinkUp); err != nil {
			t.Error(err)
		}
	})
	for _, step := range []struct {
		to      rack.LinkState
		port    string
		reaches bool
	}{
		{rack.LinkCut, "4: ACTIVE", false},
		{rack.LinkUp, "4: ACTIVE", true},
		{rack.LinkDown, "1: DOWN", false},
		{rack.LinkUp, "4: ACTIVE", true},
	} {
		if err := bench.Link(1, step.to); err != nil {
			t.Fatal(err)
		}
		eventually(t, deadline, fmt.Sprintf("link %v: port %s", step.to, step.port), func() bool { return portState(t, 1) == step.port })
		if step.reaches {
			eventually(t, deadline, "an answer", func() bool { return reaches(t) })
		} else if reaches(t) {
			t.Errorf("link %v: there is an answer", step.to)
		}
	}
}

func TestPause(t *testing.T) {
	if err := bench.Pause(2); err != nil {
		t.Fatal(err)
	}
	answered := reaches(t)
	if err := bench.Resume(2); err != nil {
		t.Fatal(err)
	}
	if answered {
		t.Error("a paused machine answers")
	}
	eventually(t, deadline, "an answer", func() bool { return reaches(t) })
}

func TestKillAndStart(t *testing.T) {
	p := startVM(t, 4, "sleep", "1000")
	if err := bench.Kill(4); err != nil {
		t.Fatal(err)
	}
	<-p.done
	if !errors.Is(p.err, rack.ErrDown) {
		t.Errorf("the command's error is %v", p.err)
	}
	if _, err := tryVM(t, deadline, 4, "true"); !errors.Is(err, rack.ErrDown) {
		t.Errorf("a new command's error is %v", err)
	}
	began := time.Now()
	if err := bench.Start(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	t.Logf("booted in %.1f s", time.Since(began).Seconds())
	if got := portState(t, 4); got != "4: ACTIVE" {
		t.Errorf("the port is %s", got)
	}
	inVM(t, 1, "ping", "-c", "1", "-W", "5", bench.Address(4).String())
}

// The host's leg reaches the machines, by both families and from further addresses.
func TestHost(t *testing.T) {
	further := netip.MustParsePrefix("10.77.0.200/24")
	if err := bench.AddHostAddress(further); err != nil {
		t.Fatal(err)
	}
	p := startVM(t, 3, helper(t, "echo", ":5000")...)
	p.await(t, "listening", deadline)
	for _, to := range []netip.Addr{bench.Address(3), bench.Address6(3)} {
		address := netip.AddrPortFrom(to, 5000).String()
		if got, want := onHost(t, helper(t, "ask", address, "hello")...), "hello from "+address; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	inVM(t, 1, "ping", "-c", "1", "-W", "5", further.Addr().String())
}

// What is built here runs there.
func TestBinaries(t *testing.T) {
	if got := inVM(t, 1, binary(t, "ringcli"), "version"); !strings.Contains(got, "soft") {
		t.Errorf("version says %q", got)
	}
	if got := inVM(t, 1, testBinary(t, product, "./verbs"), "-test.run", "^$"); !strings.Contains(got, "PASS") {
		t.Errorf("the tests say %q", got)
	}
}

// A machine can do without rdma_rxe for a while.
func TestPlain(t *testing.T) {
	t.Run("without", func(t *testing.T) {
		plain(t, 3)
		if got := inVM(t, 3, "ls", "/sys/class/infiniband"); got != "" {
			t.Errorf("there still is %s", got)
		}
		p := startVM(t, 3, helper(t, "echo", ":4791")...)
		p.await(t, "listening", deadline)
	})
	if got := portState(t, 3); got != "4: ACTIVE" {
		t.Errorf("the port is %s", got)
	}
}

// A rack whose process is killed leaves nothing running, and in its directory only
// what the next one sweeps away.
func TestKilledParent(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperVariable+"=up", "TMPDIR="+shared)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	network, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Error(err)
	}
	network = strings.TrimSpace(network)
	if err := checkGone("", network); err == nil {
		t.Error("there is nothing in the network of a rack that is up")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // killed
	eventually(t, deadline, "nothing is left in its network", func() bool { return checkGone("", network) == nil })
}
