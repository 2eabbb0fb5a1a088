package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ringcli/cli/exit"
	"ringcli/verbs/verbstest"
)

// childWith returns the child that was given an argument.
func childWith(t *testing.T, p *piped, argument string) int {
	t.Helper()
	for _, pid := range childrenOf(t, p.Process.Pid, 3) {
		if slices.Contains(strings.Fields(cmdline(pid)), argument) {
			return pid
		}
	}
	t.Fatalf("no child with %s", argument)
	return 0
}

// reconnected checks the n-th `reconnect` that a shell has printed, from 0, and returns it.
func reconnected(t *testing.T, p *piped, n, ranks int, old ...float64) map[string]any {
	t.Helper()
	p.await(p.out, `"command":"reconnect"`, n+1)
	r := of(objects(t, p.out.String()), "reconnect")[n]
	var was []float64
	if list, ok := r["old"].([]any); ok {
		for _, o := range list {
			was = append(was, o.(float64))
		}
	}
	if r["ok"] != true || r["ranks"] != float64(ranks) || r["epoch"] == 0.0 || !slices.Equal(was, old) {
		t.Errorf("%v: expected %d ranks that were %v", r, ranks, old)
	}
	return r
}

// computes has all ranks compute, and the n-th result, from 0, be right and of so many.
func computes(t *testing.T, p *piped, n, ranks int) {
	t.Helper()
	p.line("all-reduce --size 64K --iters 5 --check")
	p.await(p.out, `"command":"all-reduce"`, n+1)
	p.line("version") // the line before has ended then, on all ranks
	p.await(p.out, `"command":"version"`, n+1)
	r := of(objects(t, p.out.String()), "all-reduce")[n]
	if r["ok"] != true || r["wrong"] != 0.0 || r["ranks"] != float64(ranks) {
		t.Errorf("%v: expected %d ranks and nothing wrong", r, ranks)
	}
}

// A healthy ring is rebuilt, one whose rank was killed, and one without ranks; connect takes
// all back. Each has an epoch of its own.
func TestReconnectOfLocalRanks(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	for _, device := range []string{"soft:lo", "shm"} {
		t.Run(device, func(t *testing.T) {
			t.Parallel()
			p := pipe(t, "local", "-n", "4", "--shell", "--device", device, "--output", "json")
			children := childrenOf(t, p.Process.Pid, 3)
			computes(t, p, 0, 4)
			p.line("reconnect")
			first := reconnected(t, p, 0, 4, 0, 1, 2, 3)
			computes(t, p, 1, 4)
			victims := []string{"2"}
			if !testing.Short() {
				victims = []string{"1", "2", "3"}
			}
			n, ran := 1, 2
			for _, victim := range victims {
				kill(t, childWith(t, p, "--index="+victim))
				p.await(p.err, "killed by signal 9", n)
				p.line("reconnect")
				if r := reconnected(t, p, n, 4, 0, 1, 2, 3); r["epoch"] != first["epoch"].(float64)+float64(n) {
					t.Errorf("epochs %v and %v: expected them to grow", first["epoch"], r["epoch"])
				}
				computes(t, p, ran, 4)
				n, ran = n+1, ran+1
			}
			kill(t, childWith(t, p, "--index=1"))
			p.await(p.err, "killed by signal 9", n)
			p.line("reconnect --without 1")
			reconnected(t, p, n, 3, 0, 2, 3)
			computes(t, p, ran, 3)
			p.line("reconnect --without 1") // which was rank 2 and lives
			if r := reconnected(t, p, n+1, 2, 0, 2); len(r["without"].([]any)) != 2 {
				t.Errorf("%v: expected two nodes that are left out", r)
			}
			computes(t, p, ran+1, 2)
			p.line("connect")
			computes(t, p, ran+2, 4)
			children = append(children, childrenOf(t, p.Process.Pid, 3)...)
			p.line("quit")
			if code := p.over(); code != exit.OK {
				t.Errorf("exit code %d: expected 0, as all ranks that were killed were started again or left out\n%s%s", code, p.out, p.err)
			}
			expectGone(t, children)
		})
	}
}

// Rings that come and go leave nothing behind in the processes of the ranks.
func TestReconnectLeavesNothing(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	many := 60
	if testing.Short() {
		many = 5 // a sample
	}
	for _, device := range []string{"soft:lo", "shm"} {
		t.Run(device, func(t *testing.T) {
			t.Parallel()
			p := pipe(t, "local", "-n", "4", "--shell", "--device", device, "--output", "json")
			children := childrenOf(t, p.Process.Pid, 3)
			descriptors := func() (each []int) {
				for _, pid := range children {
					all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
					if err != nil {
						t.Fatal(err)
					}
					each = append(each, len(all))
				}
				return each
			}
			again := func(n int) {
				for range n {
					p.line("reconnect; all-reduce --size 64K --iters 2 --warmup 0 --check; expect wrong == 0")
				}
				p.line("version") // which comes last
			}
			again(3)
			p.await(p.out, `"command":"version"`, 1)
			before := descriptors()
			again(many)
			p.await(p.out, `"command":"version"`, 2)
			after := descriptors()
			epochs := map[any]bool{}
			for _, r := range of(objects(t, p.out.String()), "reconnect") {
				epochs[r["epoch"]] = true
			}
			if len(epochs) != many+3 {
				t.Errorf("%d epochs: expected %d", len(epochs), many+3)
			}
			for i := range before {
				if after[i] > before[i]+4 { // one or two may be on their way
					t.Errorf("%v descriptors after %d more rings: expected %v", after, many, before)
				}
			}
			p.line("quit")
			if code := p.over(); code != exit.OK {
				t.Errorf("exit code %d\n%s", code, p.err)
			}
			expectGone(t, children)
		})
	}
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// walkers starts shells of their own on all ranks, and connects them.
func walkers(t *testing.T, n int) (shells []*piped, list []string) {
	t.Helper()
	list = freshList(t, n)
	for rank := range n {
		shells = append(shells, pipe(t, "shell", "--index", fmt.Sprint(rank), "--list", strings.Join(list, ","), "--output", "json", "--timeout", "10s"))
	}
	for _, p := range shells {
		p.line("connect")
	}
	for _, p := range shells {
		p.await(p.out, `"command":"connect"`, 4)
	}
	return shells, list
}

// Where nobody leads, each operator says who is left out: rank 0, too.
func TestReconnectWithoutALeader(t *testing.T) {
	t.Parallel()
	shells, list := walkers(t, 4)
	kill(t, shells[0].Process.Pid)
	for _, p := range shells[1:] {
		p.line("reconnect --without " + list[0])
	}
	for i, p := range shells[1:] {
		if r := reconnected(t, p, 0, 3, 1, 2, 3); r["rank"] != float64(i) || r["was"] != float64(i+1) {
			t.Errorf("%v: expected rank %d, which was %d", r, i, i+1)
		}
		p.line("all-reduce --size 64K --iters 5 --check")
	}
	for _, p := range shells[1:] {
		p.await(p.out, `"command":"all-reduce".*"wrong":0`, 1)
	}
	for _, p := range shells[1:] {
		if code := p.over(); code != exit.OK {
			t.Errorf("exit code %d\n%s%s", code, p.out, p.err)
		}
	}
}

// Operators who leave out different ranks are told who leaves out whom.
func TestReconnectWithoutDifferentRanks(t *testing.T) {
	t.Parallel()
	shells, list := walkers(t, 4)
	kill(t, shells[3].Process.Pid)
	shells[0].line("reconnect --without 3")
	shells[1].line("reconnect --without 3")
	shells[2].line("reconnect --without 0")
	text := ""
	for _, p := range shells[:3] {
		if code := p.over(); code < exit.Critical {
			t.Errorf("exit code %d: expected a failure\n%s%s", code, p.out, p.err)
		}
		text += p.err.String() + p.out.String()
	}
	for _, want := range []string{"without entry 3 (" + list[3], "without entry 0 (" + list[0], "give all nodes the same --without"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestReconnectMistakes(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"reconnect":                        "there was no ring",
		"connect; reconnect --without 0":   "that is this rank itself",
		"connect; reconnect --without 7":   "expected 0 to 0, or a node",
		"connect; reconnect --without far": "no node of the last ring",
	} {
		code, _, stderr := finish(t, "shell", "--index", "0", "--list", freshList(t, 1)[0], "-c", line)
		if code != exit.Usage || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s: expected %q", line, code, stderr, want)
		}
	}
}

// A follower that its leader goes on without has done as it was told: its exit code is 0
// where the ring was well, and where it had failed.
func TestFollowersThatAreLeftOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lost          bool // rank 2
		left          []int
		first, second float64
	}{
		"by order":                  {false, []int{2, 3}, 0, 1},
		"after a failure":           {true, []int{2, 3}, 0, 1},
		"which call one that ended": {true, []int{1, 2}, 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := freshList(t, 4)
			rank := func(index int, args ...string) *piped {
				return pipe(t, append(args, "--index", fmt.Sprint(index), "--list", strings.Join(list, ","))...)
			}
			ranks := []*piped{rank(0, "shell", "--output", "json")}
			for i := 1; i < 4; i++ {
				ranks = append(ranks, rank(i, "connect", "--follow"))
			}
			ranks[0].line("connect")
			ranks[0].await(ranks[0].out, `"command":"connect"`, 4)
			if c.lost {
				kill(t, ranks[2].Process.Pid)
				_ = ranks[2].Wait() // killed
			}
			ranks[0].line(fmt.Sprintf("reconnect --without %d,%d", c.left[0], c.left[1]))
			reconnected(t, ranks[0], 0, 2, c.first, c.second)
			for _, i := range c.left {
				if p := ranks[i]; p.ProcessState == nil {
					if code := p.over(); code != exit.OK || !strings.Contains(p.out.String(), "the ring goes on without this rank") {
						t.Errorf("rank %d: exit code %d\n%s%s", i, code, p.out, p.err)
					}
				}
			}
			for _, i := range []int{int(c.first), int(c.second)} {
				if code := ranks[i].over(); code != exit.OK {
					t.Errorf("rank %d: exit code %d\n%s%s", i, code, ranks[i].out, ranks[i].err)
				}
			}
		})
	}
}
