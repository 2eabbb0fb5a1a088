package cli

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"ringcli/cli/exit"
	"ringcli/verbs/verbstest"
)

// of returns the results of a command, in their order.
func of(all []map[string]any, command string) (list []map[string]any) {
	for _, o := range all {
		if o["command"] == command {
			list = append(list, o)
		}
	}
	return list
}

// One shell, whose operations run on all ranks.
func TestALeaderRunsOperationsOnAllRanks(t *testing.T) {
	t.Parallel()
	p := pipe(t, "local", "-n", "4", "--shell", "--output", "json")
	children := childrenOf(t, p.Process.Pid, 3)
	for _, line := range []string{
		"all-reduce --size 64K --check",
		"trace show",
		"set protocol rendezvous-read",
		"all-gather --size 64K --check",
		"status",
		"connect",
		"all-reduce --size 4K --check --iters 3 --protocol eager; expect wrong == 0",
		"source /dev/null",
		"trace collective=warn --all",
		"quit",
	} {
		p.line(line)
	}
	if code := p.over(); code != exit.OK {
		t.Fatalf("exit code %d\n%s%s", code, p.out, p.err)
	}
	expectGone(t, children)
	all := objects(t, p.out.String())
	var got []string
	for _, o := range all {
		if per, _ := o["per_rank"].([]any); len(per) == 4 && o["command"] != "trace" {
			got = append(got, fmt.Sprint(o["command"], " ", o["protocol"], " ", o["wrong"]))
		}
	}
	if want := "all-reduce receiver-initiated 0, all-gather rendezvous-read 0, all-reduce eager 0"; strings.Join(got, ", ") != want {
		t.Errorf("of 4 ranks: got %s, want %s\n%s", strings.Join(got, ", "), want, p.out)
	}
	shown := map[any]bool{}
	for _, o := range of(all, "trace") {
		ranks, _ := o["per_rank"].([]any)
		for _, r := range ranks {
			shown[r.(map[string]any)["rank"]] = true
		}
	}
	if len(shown) != 4 {
		t.Errorf("trace show has ranks %v: expected 0 to 3\n%s", shown, p.out)
	}
}

func TestAKilledFollowerIsNamed(t *testing.T) {
	t.Parallel()
	p := pipe(t, "local", "-n", "4", "--shell")
	children := childrenOf(t, p.Process.Pid, 3)
	p.line("all-reduce --size 64K --check")
	p.await(p.out, `(?m)^all-reduce +\S+ +65536`, 1)
	p.line("all-reduce --size 64K --duration 1h")
	victim := -1
	for _, pid := range children {
		if strings.Contains(cmdline(pid), "--index=2") {
			victim = pid
		}
	}
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	code := p.over()
	if want := fmt.Sprintf("rank 2 (pid %d) was killed by signal 9", victim); code != exit.Critical || !strings.Contains(p.err.String(), want) {
		t.Errorf("exit code %d: expected %d, and %q in\n%s%s", code, exit.Critical, want, p.out, p.err)
	}
	expectGone(t, children)
}

// followers starts the ranks from 1 to n-1 with --follow.
func followers(t *testing.T, list []string, args ...string) []*process {
	t.Helper()
	ranks := []*process{nil}
	for rank := 1; rank < len(list); rank++ {
		ranks = append(ranks, launch(t, append([]string{"connect", "--follow", "--index", fmt.Sprint(rank), "--list", strings.Join(list, ",")}, args...)...))
	}
	return ranks
}

func TestFollowersTakeALeadersScript(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	list := freshList(t, 3)
	// A rank may have to wait long for a CPU.
	ranks := followers(t, list, "--print", "all", "--qp-timeout", "18")
	ranks[0] = launch(t, "connect", "--index", "0", "--list", strings.Join(list, ","), "--output", "json", "--protocol", "rendezvous-write", "--qp-timeout", "18",
		"-c", "all-reduce --size 64K --check; set protocol eager; all-gather --size 12K --check; ping; self-check")
	for rank, p := range ranks {
		if code := p.end(t, hung); code != exit.OK || reported(p) != "" {
			t.Fatalf("rank %d: exit code %d\n%s%s", rank, code, p.stdout.String(), p.stderr.String())
		}
	}
	all := objects(t, ranks[0].stdout.String())
	for command, protocol := range map[string]string{"all-reduce": "rendezvous-write", "all-gather": "eager"} {
		got := of(all, command)[0]
		per, _ := got["per_rank"].([]any)
		if got["protocol"] != protocol || got["wrong"] != 0.0 || len(per) != 3 {
			t.Errorf("%v: expected %s of 3 ranks", got, protocol)
		}
	}
	// A follower prints what its leader does, in the format of its own.
	if out := ranks[1].stdout.String(); !regexp.MustCompile(`(?m)^all-reduce +rendezvous-write +65536`).MatchString(out) {
		t.Errorf("a follower prints\n%s", out)
	}
	gone(t, list)
}

func TestEitherAllFollowOrNone(t *testing.T) {
	t.Parallel()
	list := freshList(t, 3)
	flags := []string{"--list", strings.Join(list, ","), "--timeout", "20s"}
	ranks := []*process{
		launch(t, append([]string{"connect", "-c", "ping", "--index", "0"}, flags...)...),
		launch(t, append([]string{"connect", "-c", "ping", "--index", "1"}, flags...)...),
		launch(t, append([]string{"connect", "--follow", "--index", "2"}, flags...)...),
	}
	for rank, p := range ranks {
		if code := p.end(t, hung); code != exit.Usage || !strings.Contains(reported(p), "1 of 3 ranks follow: expected all but rank 0, or none") {
			t.Errorf("rank %d: exit code %d\n%s", rank, code, p.stderr.String())
		}
	}
	code, _, stderr := here(t, "connect", "--follow", "--index", "0", "--list", strings.Join(list, ","))
	if code != exit.Usage || !strings.Contains(stderr, "rank 0 leads") {
		t.Errorf("rank 0 follows: exit code %d, %s", code, stderr)
	}
	code, _, stderr = here(t, "connect", "--follow", "--index", "1", "--list", strings.Join(list, ","), "-c", "ping")
	if code != exit.Usage || !strings.Contains(stderr, "--follow with -c") {
		t.Errorf("--follow with -c: exit code %d, %s", code, stderr)
	}
}

func TestFollowersOfALeaderThatIsKilled(t *testing.T) {
	t.Parallel()
	list := freshList(t, 3)
	ranks := followers(t, list)
	leader := pipe(t, "connect", "--index", "0", "--list", strings.Join(list, ","), "-c", "all-reduce --size 4K --check; all-reduce --size 64K --duration 1h")
	leader.await(leader.out, `(?m)^all-reduce +\S+ +4096`, 1)
	if err := leader.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for rank, p := range ranks[1:] {
		code, said := p.end(t, hung), reported(p)
		if code != exit.Critical || !strings.Contains(said, "rank 0") {
			t.Errorf("rank %d: exit code %d: expected %d, and rank 0 in\n%s", rank+1, code, exit.Critical, p.stderr.String())
		}
	}
	gone(t, list[1:])
}

func TestRanksThatRunDifferentCommandsAreToldSo(t *testing.T) {
	t.Parallel()
	list := freshList(t, 2)
	zero := launch(t, "connect", "--index", "0", "--list", strings.Join(list, ","), "-c", "all-reduce --size 4K")
	one := launch(t, "connect", "--index", "1", "--list", strings.Join(list, ","), "-c", "all-gather --size 4K")
	for rank, p := range []*process{zero, one} {
		code, said := p.end(t, hung), reported(p)
		if code != exit.Usage || !strings.Contains(said, "rank 0 runs all-reduce; rank 1 runs all-gather") {
			t.Errorf("rank %d: exit code %d\n%s", rank, code, p.stderr.String())
		}
	}
	// The same command with other values.
	list = freshList(t, 2)
	zero = launch(t, "connect", "--index", "0", "--list", strings.Join(list, ","), "-c", "all-reduce --size 4K")
	one = launch(t, "connect", "--index", "1", "--list", strings.Join(list, ","), "-c", "all-reduce --size 8K")
	for rank, p := range []*process{zero, one} {
		if code, said := p.end(t, hung), reported(p); code == exit.OK || !strings.Contains(said, "rank ") {
			t.Errorf("rank %d: exit code %d\n%s", rank, code, p.stderr.String())
		}
	}
}

// A person at one terminal leads three followers: what runs in the background,
// and what Ctrl-C does to them all.
func TestALeaderAtATerminal(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	p := newTmux(t).open(t, "local", "-n", "4", "--shell")
	p.prompt("ring 0/4 ready soft:lo>")
	children := childrenOf(t, p.child(), 3)
	p.run("all-reduce --size 64K --check", `(?m)^all-reduce +receiver-initiated +65536 .* 0$`)

	p.run("bench all-reduce -b 4K -e 64K --iters 1000000 &", `\[1\] started: bench`)
	p.run("trace ring=debug,collective=info", `(?m)^ring +debug`)
	p.run("all-gather --size 8K --check &", `\[2\] started: all-gather`)
	p.run("jobs", `(?m)^ +1 runs +\d+\.\d bench all-reduce.*\n +2 waits +\d+\.\d all-gather`)
	p.run("rtr &", `rtr cannot run in the background: it changes the ring`)
	for _, line := range []string{"all-reduce --size 4K", "rtr", "ping left", "wait 2"} { // Ctrl-C ends the wait alone
		begun := p.begin(line)
		p.running()
		p.keys("C-c")
		p.finish(line, begun, `interrupted`)
	}
	p.run("status", `(?ms)of rank 0 alone, since all ranks are busy with bench.*^left +own +0 RTS`)
	p.run("counters", `(?ms)of rank 0 alone.*^collective +operations`)
	p.run("stop 7", `job 7`)
	p.run("stop 2", `\[2\] stopped: all-gather`)
	p.run("trace warn", `(?m)^ring +warn`)
	p.run("all-reduce --size 8K --check &", `\[3\] started`)
	p.run("stop 1", `stops at its next boundary`)
	p.run("all-reduce --size 16K --check", `(?m)^all-reduce +\S+ +16384 .* 0$`)
	if screen := p.screen(); !regexp.MustCompile(`(?s) 8192 .*\[3\] done: all-reduce.* 16384 `).MatchString(screen) {
		t.Errorf("the commands have not run in their order:\n%s", screen)
	}
	p.run("wait 3; expect bytes == 8K", `holds`)
	p.run("jobs", `nothing runs in the background`)
	p.run("all-reduce --size 4K --check", `(?m)^all-reduce +\S+ +4096 .* 0$`)

	// Once: all ranks stop at the same iteration.
	const long = "bench all-reduce -b 64K -e 64K --iters 10000000"
	begun := p.begin(long)
	p.await("the bench", func(s string) bool {
		at := strings.LastIndex(s, long)
		return at >= 0 && strings.Contains(s[at:], "#")
	})
	p.running()
	p.keys("C-c")
	p.finish(long, begun, `the ring is usable`)
	p.run("all-reduce --size 8K --check", `(?m)^all-reduce +\S+ +8192 .* 0$`)
	p.run("trace show", `reduce-scatter`)
	p.run("connect", `3 ranks follow`)
	p.run("all-reduce --size 16K --check", `(?m)^all-reduce +\S+ +16384 .* 0$`)
	p.keys("C-d")
	if code := p.left(); code != "0" {
		t.Errorf("exit code %s\n%s", code, p.screen())
	}
	expectGone(t, children)
}

// Who leaves while a line in the background uses the ring need not wait for more than its
// next boundary. A rank that was killed is told of once, and started again.
func TestLeavingALeader(t *testing.T) {
	t.Parallel()
	m := newTmux(t)
	p := m.open(t, "local", "-n", "3", "--shell")
	p.prompt("ring 0/3 ready ")
	p.run("all-reduce --size 64K --duration 1h --check &", `\[1\] started`)
	p.keys("C-d")
	if code := p.left(); code != "0" || !strings.Contains(p.screen(), "the ring is usable") {
		t.Errorf("exit code %s\n%s", code, p.screen())
	}
	if testing.Short() {
		return // the others of a rank that was killed are given a second
	}
	p = m.open(t, "local", "-n", "3", "--shell")
	p.prompt("ring 0/3 ready ")
	if err := syscall.Kill(childrenOf(t, p.child(), 2)[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.await("what has happened", func(s string) bool {
		return strings.Contains(strings.Join(strings.Fields(s), " "), "`reconnect` starts it again")
	})
	// A call that the rank had begun as it died comes from a stranger.
	if screen := p.screen(); strings.Contains(strings.ReplaceAll(screen, "WARN  rank=0 bootstrap: stranger", ""), "WARN") || strings.Contains(screen, "rebuilds it") {
		t.Errorf("expected the death alone to be told:\n%s", screen)
	}
	p.run("reconnect", `(?m)^ *\d+ +3 +0 +0 `)
	p.keys("C-d")
	_ = p.left()
}

// A shell whose prompt waits for a line says at once that a rank has gone.
func TestThePromptKnowsThatARankHasGone(t *testing.T) {
	t.Parallel()
	list := freshList(t, 2)
	other := launch(t, "connect", "--index", "1", "--list", strings.Join(list, ","), "-c", "sleep 1h")
	p := newTmux(t).open(t, "connect", "--index", "0", "--list", strings.Join(list, ","))
	p.prompt("ring 0/2 ready ")
	p.keys("st")
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.await("the new prompt", func(s string) bool {
		return regexp.MustCompile(`ringcli: rank 1 .* the ring is over: .reconnect. rebuilds it ring 0/2 failed \S+> st$`).MatchString(strings.Join(strings.Fields(s), " "))
	})
	p.keys("C-u", "C-d")
	_ = p.left()
}
