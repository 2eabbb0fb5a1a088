package cli

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringcli/cli/exit"
)

// retriers starts the ranks of a script with --retry.
func retriers(t *testing.T, list []string, script string, args ...string) []*piped {
	t.Helper()
	ranks := make([]*piped, len(list))
	for rank := range ranks {
		ranks[rank] = retrier(t, list, rank, script, args...)
	}
	return ranks
}

// retrier starts one of them. Who does not retry waits for the others for long enough that they
// start on a busy machine.
func retrier(t *testing.T, list []string, rank int, script string, args ...string) *piped {
	t.Helper()
	return pipe(t, append([]string{"connect", "--index", fmt.Sprint(rank), "--list", strings.Join(list, ","), "--print", "all", "--output", "json",
		"--timeout", "20s", "-c", script}, args...)...)
}

// A rank that is lost, or was never there, is waited for, and the script runs anew on all.
func TestRetryWaitsForARank(t *testing.T) {
	t.Parallel()
	list := freshList(t, 3)
	// It goes on to its end once all are of the second start.
	const first, second = "all-reduce --size 4K --check; sleep 1h", "all-reduce --size 4K --check; set protocol rendezvous-write; all-reduce --size 4K --check"
	ranks := []*piped{retrier(t, list, 0, second, "--retry", "1m")}
	lost := retrier(t, list, 1, first)
	ranks = append(ranks, retrier(t, list, 2, second, "--retry", "1m"))
	for _, p := range ranks {
		p.await(p.out, `"command":"all-reduce"`, 1)
	}
	if err := lost.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = lost.Wait() // killed
	for _, p := range ranks {
		p.await(p.out, `"kind":"lost".*"retry_s":`, 1)
	}
	ranks = append(ranks, retrier(t, list, 1, second))
	for _, p := range ranks {
		if code := p.over(); code != exit.OK {
			t.Errorf("exit code %d\n%s%s", code, p.out, p.err)
		}
		var protocols []string
		for _, o := range of(objects(t, p.out.String()), "all-reduce") {
			protocols = append(protocols, fmt.Sprint(o["protocol"]))
		}
		if n := len(protocols); n < 2 || protocols[n-1] != "rendezvous-write" || protocols[n-2] == "rendezvous-write" {
			t.Errorf("protocols %v: expected the script from its first line, with the settings that it began with", protocols)
		}
	}
	gone(t, list)
}

// It ends when its time is over, with the last failure, and at once at Ctrl-C.
func TestRetryEnds(t *testing.T) {
	t.Parallel()
	list := freshList(t, 2)
	begun := time.Now()
	p := retrier(t, list, 0, "ping", "--timeout", "300ms", "--retry", "400ms")
	code := p.over()
	all := of(objects(t, p.out.String()), "connect")
	if last := all[len(all)-1]; code != exit.Critical || last["retry_s"] != nil || !strings.Contains(fmt.Sprint(last["evidence"]), "timed out") {
		t.Errorf("exit code %d after %s: expected %d and why\n%s%s", code, time.Since(begun), exit.Critical, p.out, p.err)
	}
	p = retrier(t, list, 0, "ping", "--retry", "1h", "--trace", "bootstrap=debug")
	p.await(p.err, "listening", 1)
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := p.over(); code != exit.Interrupted {
		t.Errorf("after Ctrl-C: exit code %d\n%s%s", code, p.out, p.err)
	}
	gone(t, list)
}

// What another ring would not mend is not tried again, and told once.
func TestRetryOfNothingThatItMends(t *testing.T) {
	t.Parallel()
	list := freshList(t, 2)
	for _, p := range retriers(t, list, "all-reduce --size 4K --check; expect wrong == 1", "--retry", "1h") {
		if code := p.over(); code != exit.Critical || strings.Contains(p.out.String(), "retry_s") {
			t.Errorf("exit code %d\n%s%s", code, p.out, p.err)
		}
	}
	for i, p := range retriers(t, freshList(t, 2), "ping", "--retry", "1h", "--device", "soft:nosuch") {
		if code := p.over(); code != exit.Usage {
			t.Errorf("rank %d: exit code %d\n%s%s", i, code, p.out, p.err)
		}
	}
}

// Followers with --retry wait for a leader that was killed; those without end with it.
func TestRetryOfFollowers(t *testing.T) {
	t.Parallel()
	list := freshList(t, 3)
	lead := func() *piped {
		return retrier(t, list, 0, "all-reduce --size 4K --check")
	}
	ranks := followers(t, list, "--retry", "1m")
	leader := retrier(t, list, 0, "all-reduce --size 4K --check; sleep 1h")
	leader.await(leader.out, `"command":"all-reduce"`, 1)
	if err := leader.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = leader.Wait() // killed
	if code := lead().over(); code != exit.OK {
		t.Errorf("the second leader: exit code %d", code)
	}
	for _, p := range ranks[1:] {
		if code := p.end(t, hung); code != exit.OK {
			t.Errorf("a follower: exit code %d\n%s", code, p.stderr.String())
		}
	}
	gone(t, list)
}
