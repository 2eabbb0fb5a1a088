package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/collective/plan"
	"ringcli/verbs/verbstest"
)

// seconds is a time in us, before a bandwidth, that only a starved machine takes, and no column
// is made for.
var seconds = regexp.MustCompile(` \d{7,} +\d+\.`)

func TestLocalProvesEveryCollectiveInEveryWay(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	protocols := []string{"eager", "rendezvous-write", "rendezvous-read"}
	algorithms := []string{"recursive-doubling", "tree", "inbox"}
	rings := map[int][]string{
		1: protocols, 2: slices.Concat(protocols, algorithms), 4: slices.Concat(protocols, algorithms),
	}
	if verbstest.Full() {
		rings[9] = slices.Concat(protocols, algorithms[:2])
	}
	for n, variants := range rings {
		code, stdout, stderr := finish(t, "local", "-n", fmt.Sprint(n), "--device", "soft:lo")
		if code != exit.OK || stderr != "" {
			t.Fatalf("%d ranks: exit code %d\n%s%s", n, code, stdout, stderr)
		}
		for _, op := range render.Words(plan.Operations()) {
			all := variants
			if op == "all-reduce" {
				all = append(variants[:len(variants):len(variants)], "receiver-initiated")
			}
			for _, protocol := range all {
				row := regexp.MustCompile(`(?m)^` + op + ` +` + protocol + ` +1048576 .* 0$`)
				if !row.MatchString(stdout) {
					t.Errorf("%d ranks: no row of %s under %s with 0 wrong in\n%s", n, op, protocol, stdout)
				}
			}
		}
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^# OK: %d ranks of soft:lo, %d checks, 0 wrong elements \(float32, int32\), [\d.]+ s\n$`, n, len(plan.Operations())*len(variants)+1)).MatchString(stdout) {
			t.Errorf("no verdict in\n%s", stdout)
		}
		for line := range strings.Lines(stdout) {
			if len(line) > 81 && !seconds.MatchString(line) {
				t.Errorf("wider than 80 columns: %q", line)
			}
		}
	}
}

func TestLocalInJSON(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := finish(t, "local", "-n", "3", "--output", "json")
	if code != exit.OK || stderr != "" {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	count := map[string]int{}
	for _, o := range objects(t, stdout) {
		count[o["command"].(string)]++
		if o["ok"] != true {
			t.Errorf("not ok: %v", o)
		}
		if per, found := o["per_rank"]; found && (o["wrong"] != 0.0 || len(per.([]any)) != 3) {
			t.Errorf("wrong or per_rank is not right: %v", o)
		}
	}
	want := map[string]int{"ping": 3, "reduce-scatter": 6, "all-gather": 6, "all-reduce": 7, "broadcast": 6, "reduce": 6, "self-check": 1} // three protocols of the ring, and a fourth of all-reduce; three other algorithms
	if fmt.Sprint(count) != fmt.Sprint(want) {
		t.Errorf("got objects %v, want %v", count, want)
	}
}

// A check that cannot fail proves nothing.
func TestTheCheckFindsCorruption(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	for _, fault := range []string{"flip@1", "swap@2"} {
		for _, op := range []string{"all-reduce", "all-gather", "broadcast"} { // in a reduce nothing comes to rank 1
			for _, protocol := range []string{"eager", "rendezvous-write", "rendezvous-read"} {
				code, stdout, stderr := finishCorrupted(t, fault, "local", "-n", "3", "--output", "json",
					"-c", op+" --size 96K --check --iters 2 --protocol "+protocol)
				all := objects(t, stdout)
				if code != exit.Critical || len(all) != 2 {
					t.Fatalf("%s of %s, %s: exit code %d\n%s%s", fault, op, protocol, code, stdout, stderr)
				}
				wrong, _ := all[0]["wrong"].(float64)
				first, _ := all[0]["first_wrong"].(map[string]any)
				if wrong < 1 || first == nil || all[0]["ok"] != false {
					t.Errorf("%s of %s, %s: result is %v", fault, op, protocol, all[0])
				}
				corruption, _ := all[0]["corruption"].(map[string]any)
				entered, _ := corruption["entered"].([]any)
				if len(entered) == 0 {
					t.Errorf("%s of %s, %s: %v does not say where it came from", fault, op, protocol, all[0])
				} else if e, to := entered[0].(map[string]any), float64(fault[len(fault)-1]-'0'); e["to"] != to || e["from"] != to-1 || e["confidence"] != "certain" {
					t.Errorf("%s of %s, %s: entered %v", fault, op, protocol, e)
				}
				if fault == "flip@1" && op == "all-gather" && (first["rank"] != 1.0 || wrong != 2) {
					t.Errorf("one element flipped on arrival at rank 1, which sends it on to rank 2: got %v wrong, the first %v", wrong, first)
				}
				message, _ := all[1]["error"].(string)
				if all[1]["exit_code"] != 2.0 || !regexp.MustCompile(`rank \d, element \d+: got .*, want .*; rank \d has \d+: \d+.* changed between rank \d and rank \d \(certain\): (reduce-scatter|all-gather|broadcast), segment \d`).MatchString(message) {
					t.Errorf("%s of %s, %s: error is %v", fault, op, protocol, all[1])
				}
			}
		}
	}
}

// With checksums the edge is named at once, and nothing is computed with what is damaged.
func TestVerifiedSegmentsNameTheEdge(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := finishCorrupted(t, "flip@2", "local", "-n", "3", "--device", "soft:lo", "--output", "json", "-c", "all-reduce --size 96K --verify-segments --iters 2")
	all := objects(t, stdout)
	const want = "data changed between rank 1 and rank 2 (certain)"
	if code != exit.Critical || len(all) == 0 {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	verdict, _ := all[0]["verdict"].(map[string]any)
	if edge := fmt.Sprint(verdict["edge"]); !strings.Contains(fmt.Sprint(all[0]["error"]), want) || verdict["kind"] != "corrupt" || edge != "map[from:1 to:2]" {
		t.Errorf("%v", all[0])
	}
	code, stdout, stderr = finish(t, "local", "-n", "2", "-c", "all-reduce --verify-segments --protocol direct")
	if code != exit.Usage || !strings.Contains(stdout+stderr, "--verify-segments with --protocol direct: none is sent") {
		t.Errorf("by direct: exit code %d\n%s%s", code, stdout, stderr)
	}
}

// startRanks starts the ranks of a list in an order, with a pause between.
func startRanks(t *testing.T, list []string, order []int, pause time.Duration, args ...string) []*process {
	t.Helper()
	ranks := make([]*process, len(list))
	for i, rank := range order {
		if i > 0 {
			time.Sleep(pause)
		}
		ranks[rank] = launch(t, append([]string{"connect", "--index", fmt.Sprint(rank), "--list", strings.Join(list, ",")}, args...)...)
	}
	return ranks
}

func TestRanksConnectInAnyOrder(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	orders := [][]int{{3, 2, 1, 0}, {0, 1, 2, 3}, {1, 3, 0, 2}}
	if testing.Short() {
		orders = orders[:1] // a sample
	}
	for _, order := range orders {
		list := freshList(t, 4)
		for rank, p := range startRanks(t, list, order, 200*time.Millisecond, "--check") {
			if code := p.end(t, hung); code != exit.OK || !strings.Contains(p.stdout.String(), "# OK: 4 ranks") {
				t.Errorf("order %v, rank %d: exit code %d\n%s%s", order, rank, code, p.stdout.String(), p.stderr.String())
			}
		}
		gone(t, list)
	}
}

// What all ranks do together is rank 0's to print, if the others were not asked to;
// what is about a rank alone, and what fails, is printed there.
func TestResultsAreRankZerosUnlessAllAreAsked(t *testing.T) {
	t.Parallel()
	const all = "all-reduce counters ping all-reduce"
	for print, ofOne := range map[string]string{"0": "ping", "all": all} {
		args := []string{"--print", print, "--output", "json", "-c", "all-reduce --size 4K; expect bytes == 4096; counters --all; ping left; all-reduce --size 4K --floor 100000"}
		for rank, p := range startRanks(t, freshList(t, 2), []int{0, 1}, 0, args...) {
			if code := p.end(t, hung); code != exit.Warning {
				t.Errorf("rank %d: exit code %d\n%s%s", rank, code, p.stdout.String(), p.stderr.String())
			}
			var printed []string
			failed := ""
			for _, o := range objects(t, p.stdout.String()) {
				if name := o["command"].(string); o["error"] != nil {
					failed = name
				} else if len(printed) == 0 || printed[len(printed)-1] != name {
					printed = append(printed, name)
				}
			}
			want := []string{all, ofOne}[rank]
			if got := strings.Join(printed, " "); got != want || failed != "all-reduce" {
				t.Errorf("--print %s: rank %d prints the results of %q, expected %q, and the failure of %q", print, rank, got, want, failed)
			}
		}
	}
}

func TestTheCProgramsSpelling(t *testing.T) {
	t.Parallel()
	list := strings.Join(freshList(t, 2), ",")
	zero := launch(t, "-myindex", "0", "-list", list)
	one := launch(t, "connect", "-myindex", "1", "-list", list)
	for _, p := range []*process{zero, one} {
		if code := p.end(t, hung); code != exit.OK {
			t.Errorf("exit code %d\n%s", code, p.stderr.String())
		}
	}
}

func TestSixRanksOnOneAddress(t *testing.T) {
	t.Parallel()
	host, _, _ := strings.Cut(freshList(t, 1)[0], ":")
	list := strings.Fields(strings.Repeat(host+" ", 6))
	for rank, p := range startRanks(t, list, []int{5, 0, 1, 2, 3, 4}, 0, "-c", "all-reduce --size 64K --check; ar --count 7 --check") {
		if code := p.end(t, hung); code != exit.OK {
			t.Errorf("rank %d: exit code %d\n%s", rank, code, p.stderr.String())
		}
	}
}

func TestAMissingRankIsNamed(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	list := freshList(t, 4)
	// The last has to have started when the first gives up, or more are missing.
	ranks := startRanks(t, list, []int{0, 1, 3}, 0, "--check", "--timeout", "10s")
	for _, rank := range []int{0, 1, 3} {
		p := ranks[rank]
		code := p.end(t, hung)
		if message := reported(p); code != exit.Critical || !regexp.MustCompile(`^ringcli: rank 2 \(\S+\) is not running .*\nringcli:   fix: .*\n(ringcli:   evidence: .*\n)+$`).MatchString(message) {
			t.Errorf("rank %d: exit code %d, and says %q: expected rank 2 first, then what to do and what was seen", rank, code, message)
		}
	}
	gone(t, list)
}

// working starts a `local` of n ranks and returns when they work: they have pinged each
// other, and run a script without an end.
func working(t *testing.T, n int, env []string, script string, args ...string) (p *piped, ranks []int) {
	t.Helper()
	p = pipeWith(t, env, append([]string{"local", "-n", fmt.Sprint(n), "-c", "ping; " + script}, args...)...)
	p.await(p.out, `\n`, 1)
	return p, childrenOf(t, p.Process.Pid, n)
}

// rankOf picks a rank among the processes of a `local`.
func rankOf(t *testing.T, processes []int, rank int) int {
	t.Helper()
	i := slices.IndexFunc(processes, func(pid int) bool { return strings.Contains(cmdline(pid), fmt.Sprintf("--index=%d", rank)) })
	if i < 0 {
		t.Fatalf("no rank %d among %v", rank, processes)
	}
	return processes[i]
}

// atOnce bounds what waits for nobody: it is far below every deadline of a ring, and bears
// a machine that does a lot besides.
const atOnce = 10 * time.Second

func TestCtrlCEndsEveryRank(t *testing.T) {
	t.Parallel()
	p, children := working(t, 3, nil, "all-reduce --size 4M --duration 1h")
	time.Sleep(300 * time.Millisecond)
	begun := time.Now()
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	code := p.end(t, 20*time.Second)
	if took := time.Since(begun); code != exit.Interrupted || took > atOnce {
		t.Errorf("exit code %d after %s, stderr %q", code, took, p.err)
	}
	if got := p.err.String(); got != "ringcli: interrupted\n" {
		t.Errorf("stderr is %q", got)
	}
	expectGone(t, children)
}

// earlyRank names the environment variable that has a test binary which is ringcli hold
// up all ranks but this one before they take note of their parent's end.
const earlyRank = "RINGTEST_EARLY_RANK"

// heldUp is session.Options.ParentEnded; nil where no rank is to be held up.
func heldUp() func(rank int) {
	early := os.Getenv(earlyRank)
	if early == "" {
		return nil
	}
	return func(rank int) {
		if early != fmt.Sprint(rank) {
			time.Sleep(time.Second)
		}
	}
}

// A rank that ends before the others have heard of Ctrl-C is no failure of theirs.
func TestCtrlCIsNoRanksFailure(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	const script = "all-reduce --size 4M --duration 1h"
	for _, c := range []struct {
		early, device string
		after         time.Duration
	}{
		{"0", "soft", 300 * time.Millisecond},
		{"2", "soft", 300 * time.Millisecond},
		{"1", "shm", 300 * time.Millisecond},
		{"1", "soft", 0},
		{"1", "soft", -1}, // on the way there
	} {
		t.Run(fmt.Sprintf("%s, rank %s first, after %s", c.device, c.early, c.after), func(t *testing.T) {
			t.Parallel()
			env := []string{earlyRank + "=" + c.early}
			var p *piped
			var children []int
			if c.after < 0 {
				p = pipeWith(t, env, "local", "-n", "3", "--device", c.device, "-c", script)
				children = childrenOf(t, p.Process.Pid, 3)
			} else {
				p, children = working(t, 3, env, script, "--device", c.device)
				time.Sleep(c.after)
			}
			if err := p.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			code, said := p.end(t, hung), p.err.String()
			if c.after < 0 { // who hangs up before it has said who it is may be anybody
				said = strangerLine.ReplaceAllString(said, "")
			}
			if code != exit.Interrupted || said != "ringcli: interrupted\n" {
				t.Errorf("exit code %d, stderr %q", code, said)
			}
			expectGone(t, children)
		})
	}
}

// strangerLine is the line of a trace that tells of a call of somebody unknown.
var strangerLine = regexp.MustCompile(`(?m)^\{.*"msg":"stranger at .*connection reset by peer".*\}\n`)

// Ctrl-C in a terminal goes to all processes of the group, in any order: whichever of them
// acts on it first, the parent speaks.
func TestCtrlCInATerminalIsNoRanksFailure(t *testing.T) {
	t.Parallel()
	p, children := working(t, 3, nil, "all-reduce --size 4M --duration 1h")
	send := func(pid int, sig syscall.Signal) {
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	send(p.Process.Pid, syscall.SIGSTOP)
	for _, pid := range children {
		send(pid, syscall.SIGINT)
	}
	expectGone(t, children)
	send(p.Process.Pid, syscall.SIGINT)
	send(p.Process.Pid, syscall.SIGCONT)
	if code := p.end(t, hung); code != exit.Interrupted || p.err.String() != "ringcli: interrupted\n" {
		t.Errorf("exit code %d, stderr %q", code, p.err)
	}
}

// One rank that is interrupted is named.
func TestAnInterruptedRankIsNamed(t *testing.T) {
	t.Parallel()
	p, children := working(t, 3, nil, "all-reduce --size 4M --duration 1h")
	if err := syscall.Kill(rankOf(t, children, 1), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	code, message := p.end(t, hung), p.err.String()
	if code != exit.Critical || !regexp.MustCompile(`(?m)^ringcli: rank 1 \(\S+\) was interrupted$`).MatchString(message) ||
		!regexp.MustCompile(`(?m)^ringcli: rank 1 \(pid \d+\) was interrupted; the other ranks were ended$`).MatchString(message) {
		t.Errorf("exit code %d, stderr %q", code, message)
	}
	expectGone(t, children)
}

// On several hosts, where one operator presses Ctrl-C, or a scheduler ends one rank, the
// others hear which rank it was.
func TestAnInterruptedRankIsNamedToTheOtherHosts(t *testing.T) {
	t.Parallel()
	for sig, c := range map[syscall.Signal]struct {
		code             int
		itself, toOthers string
	}{
		syscall.SIGINT:  {exit.Interrupted, "interrupted", "interrupted"},
		syscall.SIGTERM: {exit.Terminated, "terminated", `terminated \(SIGTERM\)`},
	} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			endsByASignal(t, sig, c.code, c.itself, c.toOthers)
		})
	}
}

func endsByASignal(t *testing.T, sig syscall.Signal, own int, itself, toOthers string) {
	list := freshList(t, 3)
	var ranks []*piped
	for rank := range list {
		ranks = append(ranks, pipe(t, "connect", "--index", fmt.Sprint(rank), "--list", strings.Join(list, ","), "--print", "all", "-c", "ping; all-reduce --size 4M --duration 1h"))
	}
	for _, p := range ranks {
		p.await(p.out, `\n`, 1)
	}
	if err := ranks[1].Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	for rank, p := range ranks {
		code, message, want, says := p.end(t, hung), p.err.String(), own, "^ringcli: "+itself+"\n$"
		if rank != 1 {
			want, says = exit.Critical, `^ringcli: rank 1 \(\S+\) was `+toOthers+`\n$`
		}
		if code != want || !regexp.MustCompile(says).MatchString(message) {
			t.Errorf("rank %d: exit code %d, stderr %q", rank, code, message)
		}
	}
}

func TestCtrlCWhileConnecting(t *testing.T) {
	t.Parallel()
	list := freshList(t, 2)
	p := launch(t, "connect", "--index", "0", "--list", strings.Join(list, ","))
	_ = dialUntil(t, list[0]).Close() // it only shows that rank 0 is there
	begun := time.Now()
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t, 20*time.Second); code != exit.Interrupted || time.Since(begun) > atOnce {
		t.Errorf("exit code %d after %s, stderr %q", code, time.Since(begun), p.stderr.String())
	}
	gone(t, list)
}

func TestChildrenEndWithTheirParent(t *testing.T) {
	t.Parallel()
	p, children := working(t, 3, nil, "all-reduce --size 1M --duration 1h")
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // killed
	expectGone(t, children)
}

// A rank that is killed is named and ends the others, over packets and over shared
// memory.
func TestAKilledRankIsNamedAndEndsTheOthers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ device, script string }{
		{"soft", "all-reduce --size 1M --duration 1h"},
		{"shm", "all-reduce --size 1M --duration 1h"},
		{"shm", "all-reduce --size 8 --duration 1h"},
		{"shm", "all-gather --size 4M --protocol rendezvous --duration 1h"},
		{"auto", "all-reduce --size 1M --duration 1h --check"},
	} {
		t.Run(test.device+", "+test.script, func(t *testing.T) {
			p, children := working(t, 4, nil, test.script, "--device", test.device)
			time.Sleep(300 * time.Millisecond)
			victim := rankOf(t, children, 2)
			if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			code := p.end(t, 30*time.Second)
			if took := time.Since(begun); code != exit.Critical || took > 10*time.Second {
				t.Errorf("exit code %d after %s", code, took)
			}
			want := fmt.Sprintf("ringcli: rank 2 (pid %d) was killed by signal 9", victim)
			if !strings.Contains(p.err.String(), want) {
				t.Errorf("no %q in\n%s", want, p.err)
			}
			expectGone(t, children)
		})
	}
}

// Ranks that nobody has started together find out by themselves.
func TestSurvivorsNameAKilledRank(t *testing.T) {
	t.Parallel()
	const victim = 1
	list := freshList(t, 3)
	ranks := make([]*piped, len(list))
	for rank := range ranks {
		ranks[rank] = pipe(t, "connect", "--index", fmt.Sprint(rank), "--list", strings.Join(list, ","), "--device", "shm", "--print", "all",
			"-c", "all-reduce --size 64K --check; all-reduce --size 256K --duration 1h")
	}
	for _, p := range ranks {
		p.await(p.out, `(?m)^all-reduce +\S+ +65536`, 1)
	}
	if err := ranks[victim].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = ranks[victim].Wait() // killed
	for rank, p := range ranks {
		if rank == victim {
			continue
		}
		begun := time.Now()
		code, took := p.over(), time.Since(begun)
		if message := p.err.String(); code != exit.Critical || !strings.Contains(message, "rank 1") || took > 10*time.Second {
			t.Errorf("rank %d: exit code %d after %s, and says %q: expected rank 1 to be named", rank, code, took, message)
		}
	}
	gone(t, list)
}

func cmdline(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(string(text), "\x00", " ")
}

// startedBy lists the children of a process.
func startedBy(t *testing.T, parent int) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		// pid (comm) state ppid: proc(5); the name may have blanks.
		fields := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// childrenOf waits until a process has so many children, and each is a rank.
func childrenOf(t *testing.T, parent, n int) []int {
	t.Helper()
	begins := func(pid int) bool { return !strings.Contains(cmdline(pid), "--index=") } // it was not executed yet
	for begun := time.Now(); time.Since(begun) < screenDeadline; time.Sleep(50 * time.Millisecond) {
		if pids := startedBy(t, parent); len(pids) == n && !slices.ContainsFunc(pids, begins) {
			return pids
		}
	}
	t.Fatalf("process %d has not %d children", parent, n)
	return nil
}

// expectGone waits a moment for processes to end.
func expectGone(t *testing.T, pids []int) {
	t.Helper()
	deadline := time.Now().Add(atOnce)
	for _, pid := range pids {
		for strings.Contains(cmdline(pid), "--index=") {
			if time.Now().After(deadline) {
				t.Errorf("process %d is still there: %s", pid, cmdline(pid))
				_ = syscall.Kill(pid, syscall.SIGKILL)
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

func TestEveryRanksErrorIsAnObjectInJSON(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := finish(t, "local", "-n", "3", "--output", "json", "--gid-index", "200")
	all := objects(t, stdout)
	if code != exit.Usage || stderr != "" || len(all) != 3 {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	ranks := map[any]bool{}
	for _, o := range all {
		ranks[o["rank"]] = true
		if o["ok"] != false || o["exit_code"] != 3.0 || o["command"] != "connect" || !strings.Contains(o["error"].(string), "gid-index 200") {
			t.Errorf("%v", o)
		}
	}
	if !ranks[nil] || !ranks[1.0] || !ranks[2.0] {
		t.Errorf("errors of ranks %v: expected the leader's, 1 and 2", ranks)
	}
}

func TestBench(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := finish(t, "bench", "ar", "-n", "2", "-b", "1K", "-e", "16K", "-f", "4", "--iters", "3")
	rows := regexp.MustCompile(`(?m)^ +\d+ +\d+( +[\d.]+ +-( +[\d.]+){2} +0){2}$`).FindAllString(stdout, -1)
	if code != exit.OK || len(rows) != 3 || !strings.Contains(stdout, "# Out of bounds values : 0 OK") {
		t.Errorf("exit code %d, %d rows\n%s%s", code, len(rows), stdout, stderr)
	}
	code, stdout, _ = finish(t, "bench", "all-gather", "-n", "2", "-b", "1K", "-e", "1K", "--floor", "1e6", "--output", "json")
	all := objects(t, stdout)
	if code != exit.Warning || len(all) != 4 || all[0]["in_place"] != false || all[1]["in_place"] != true || all[3]["exit_code"] != 1.0 {
		t.Errorf("below the floor: exit code %d\n%s", code, stdout)
	}
}

func TestBenchP2P(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := finish(t, "bench", "p2p", "-n", "3", "-b", "64", "-e", "1M", "-f", "128", "--iters", "20", "--output", "json")
	if code != exit.OK {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	seen := map[string]int{}
	for _, o := range objects(t, stdout) {
		times := o["time_us"].(map[string]any)
		if o["bw_GBps"].(float64) <= 0 || times["p50"].(float64) <= 0 || times["p99_9"].(float64) < times["min"].(float64) || o["iters"] != 20.0 {
			t.Errorf("%v", o)
		}
		seen[o["op"].(string)]++
	}
	// 64 bytes, 8 KiB and 1 MiB.
	if want := map[string]int{"WRITE": 3, "READ": 3, "SEND": 3}; fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", seen, want)
	}
}

func TestScriptStopsAtTheFirstFailure(t *testing.T) {
	t.Parallel()
	code, stdout, _ := finishCorrupted(t, "flip@0", "local", "-n", "2", "--output", "json",
		"-c", "all-reduce --size 4K --floor 1e6; all-gather --size 4K --check; ping")
	var got []string
	for _, o := range objects(t, stdout) {
		got = append(got, o["command"].(string))
	}
	// The warning lets the script go on, the wrong data does not.
	if code != exit.Critical || strings.Join(got, " ") != "all-reduce all-gather all-gather" {
		t.Errorf("exit code %d, objects %q", code, got)
	}
}
