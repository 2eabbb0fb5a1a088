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

// printedBy is what a script's JSON says, in its order: a result by its command, bytes and job, an
// event by the job and its state.
func printedBy(t *testing.T, stdout string) string {
	t.Helper()
	var list []string
	for _, o := range objects(t, stdout) {
		switch o["command"] {
		case "job":
			list = append(list, fmt.Sprintf("%v:%v", o["job"], o["state"]))
		case "jobs":
			list = append(list, fmt.Sprintf("jobs(%v %v)", o["job"], o["state"]))
		default:
			text := o["command"].(string)
			if o["error"] != nil {
				text += "!"
			}
			if o["bytes"] != nil {
				text += fmt.Sprintf("/%v", o["bytes"])
			}
			if o["job"] != nil {
				text += fmt.Sprintf("[%v]", o["job"])
			}
			list = append(list, text)
		}
	}
	return strings.Join(list, " ")
}

// Commands in the background run in the order of their begins, and what comes after them
// in front waits for them, on all ranks; each result says whose it is. The first of them goes on
// until the lines after it are read, also on a busy machine.
func TestJobsOfAScript(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	for name, c := range map[string]struct {
		script, want string
		code         int
	}{
		"order":   {"all-reduce --size 64K --duration 2s --check & all-gather --size 4K --iters 3 & jobs; all-reduce --size 1K --iters 3; jobs", "1:started 2:started jobs(1 runs) jobs(2 waits) all-reduce/65536[1] 1:done all-gather/4096[2] 2:done all-reduce/1024", exit.OK},
		"the end": {"all-reduce --size 4K --iters 3 & sleep 1ms & all-gather --size 8K --iters 3 & quit", `1:started 2:started (2:done )?3:started (2:done )?all-reduce/4096\[1\] (2:done )?1:done (2:done )?all-gather/8192\[3\] (2:done )?3:done( 2:done)?`, exit.OK},
		"wait":    {"all-reduce --size 4K --iters 3 & all-gather --size 8K --iters 3 & wait 1; expect bytes == 4K; wait; expect bytes == 8K; wait 1; expect bytes == 4K", "", exit.OK},
		"failure": {"all-reduce --size 4K --iters 3 --floor 1e9 & ping; wait; all-gather --size 4K --iters 3", "1:started all-reduce/4096[1] all-reduce![1] ping/128 ping/128 all-gather/4096", exit.Warning},
		"nobody":  {"all-reduce --size 4K --iters 3 --floor 1e9 &", "1:started all-reduce/4096[1] all-reduce![1]", exit.Warning},
		"no job":  {"all-reduce --size 4K --iters 3 & wait; wait 2", "", exit.Usage},
		"stop":    {"all-reduce --size 4K --duration 1h & sleep 200ms; stop 1; wait 1; all-gather --size 4K --iters 3 --check", `1:started( all-reduce/4096\[1\])? 1:stopped all-gather/4096`, exit.OK},
		"cut":     {"all-reduce --size 4K --duration 1h & all-gather --size 4K & sleep 200ms; expect wrong == 0", "", exit.Usage},
		"close":   {"all-reduce --size 4K --iters 3 & close; connect; all-gather --size 4K --iters 3 & wait 2", "1:started all-reduce/4096[1] 1:done connect connect connect connect 2:started all-gather/4096[2] 2:done", exit.OK},
		"cancel":  {"all-reduce --size 4K --duration 1h & all-gather --size 4K & sleep 200ms; cancel 1; wait; reconnect; all-gather --size 4K --iters 3 --check", "", exit.OK},
		"waits":   {"all-reduce --size 4K --duration 1h & all-gather --size 4K & sleep 200ms; cancel 2; wait 2; reconnect; all-gather --size 4K --iters 3 --check", "", exit.OK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"local", "-n", "2", "--output", "json", "-c", c.script}
			if name == "cancel" || name == "waits" {
				args = append(args, "--keep-going") // of jobs that failed with the ring
			}
			code, stdout, stderr := finish(t, args...)
			got := printedBy(t, stdout)
			if name == "cancel" || name == "waits" {
				if !strings.Contains(got, " reconnect all-gather/4096") || !strings.Contains(got, ":stopped") || strings.Contains(stderr+stdout, "must run the same") {
					t.Errorf("it says %s\n%s%s", got, stdout, stderr)
				}
				return // its exit code is that of what failed with the ring
			}
			if code != c.code {
				t.Errorf("exit code %d: expected %d\n%s%s", code, c.code, stdout, stderr)
			}
			if same := got == c.want; c.want != "" && !same && !regexp.MustCompile("^"+c.want+"$").MatchString(got) {
				t.Errorf("it says\n%s: expected\n%s\n%s", got, c.want, stderr)
			}
		})
	}
}

// A leader's jobs run on its followers in their order, and all before the leader's end.
func TestALeadersJobs(t *testing.T) {
	t.Parallel()
	list := freshList(t, 3)
	ranks := followers(t, list, "--print", "all", "--output", "json")
	ranks[0] = launch(t, "connect", "--index", "0", "--list", strings.Join(list, ","), "--output", "json",
		"-c", "all-reduce --size 64K --duration 2s & all-gather --size 4K --iters 3 & reduce-scatter --size 8K --iters 3 & cancel 3; all-gather --size 16K --iters 3; wait; all-reduce --size 1K --iters 3 --check &")
	for rank, p := range ranks {
		code := p.end(t, hung)
		got := printedBy(t, p.stdout.String())
		want := "all-reduce/65536 all-gather/4096 all-gather/16384 all-reduce/1024"
		if rank == 0 {
			want = "1:started 2:started 3:started 3:stopped all-reduce/65536[1] 1:done all-gather/4096[2] 2:done all-gather/16384 4:started all-reduce/1024[4] 4:done"
		}
		if code != exit.OK || got != want {
			t.Errorf("rank %d: exit code %d: it says\n%s: expected\n%s\n%s", rank, code, got, want, p.stderr.String())
		}
	}
}

// A rank is killed while another one has three jobs: each of them ends, on every rank that
// is left, with what has happened.
func TestAKilledRankEndsAllJobs(t *testing.T) {
	t.Parallel()
	for name, follow := range map[string]bool{"a script each": false, "a leader": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const script = "all-reduce --size 4K --duration 1h & all-gather --size 4K & bench all-reduce -b 4K -e 8K & sleep 1h"
			const victim = 2
			list := freshList(t, 3)
			var ranks []*piped
			for rank := range list {
				args := []string{"connect", "--index", fmt.Sprint(rank), "--list", strings.Join(list, ","), "--output", "json"}
				if follow && rank > 0 {
					args = append(args, "--follow")
				} else {
					args = append(args, "-c", script, "--print", "all")
				}
				ranks = append(ranks, pipe(t, args...))
			}
			for rank, p := range ranks[:victim] {
				if rank == 0 || !follow { // a follower has no jobs of its own
					p.await(p.out, `"job":3,"state":"started"`, 1)
				}
			}
			if err := syscall.Kill(ranks[victim].Process.Pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			for rank, p := range ranks[:victim] {
				code := p.end(t, hung)
				if code != exit.Critical {
					t.Errorf("rank %d: exit code %d\n%s%s", rank, code, p.out, p.err)
				}
				if follow && rank > 0 {
					continue // which has had no more than one order
				}
				ended := map[any]bool{}
				for _, o := range objects(t, p.out.String()) {
					if o["error"] == nil || o["job"] == nil {
						continue
					}
					ended[o["job"]] = true
					if text := o["error"].(string); !strings.Contains(text, "rank 2 ") || o["code"] != "lost" || o["exit_code"] != 2.0 {
						t.Errorf("rank %d, job %v: %q: expected that rank 2 was lost", rank, o["job"], text)
					}
				}
				if len(ended) != 3 {
					t.Errorf("rank %d: jobs %v have ended in a failure: expected 3\n%s", rank, ended, p.out)
				}
			}
		})
	}
}

// A shell that reads a pipe waits for its jobs at the end, whose failure is its own.
func TestJobsOfAShellInAPipe(t *testing.T) {
	t.Parallel()
	list := freshList(t, 1)
	code, stdout, stderr := typed(t, plainEnv(t.TempDir()), "connect\nall-reduce --size 4K --duration 2s &\nall-gather --size 8K --iters 3 --floor 1e9 &", "shell", "--index", "0", "--list", list[0], "--output", "json")
	if got := printedBy(t, stdout); code != exit.Warning || stderr != "" || !strings.HasSuffix(got, "1:started 2:started all-reduce/4096[1] 1:done all-gather/8192[2] all-gather![2]") {
		t.Errorf("exit code %d: it says %s\n%s", code, got, stderr)
	}
}

// What a job prints comes above a line that is being typed, and leaves it whole; two shells
// without a leader have the same order, and a lost rank ends the jobs of the other.
func TestJobsInTwoTerminals(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	m := newTmux(t)
	list := freshList(t, 2)
	var panes []*pane
	for rank := range list {
		panes = append(panes, m.open(t, "connect", "--index", fmt.Sprint(rank), "--list", strings.Join(list, ",")))
	}
	zero, one := panes[0], panes[1]
	for _, p := range panes {
		p.prompt("ring ")
	}
	runAll(panes, "all-reduce --size 64K --duration 2s &", `\[1\] started`)
	runAll(panes, "all-gather --size 4K --iters 3 --check &", `\[2\] started`)
	zero.text("half a li")
	zero.await("the ends above half a line", func(screen string) bool {
		at := strings.Index(screen, "[1] done: all-reduce")
		return at >= 0 && strings.Contains(screen[at:], "[2] done: all-gather") && strings.HasSuffix(screen, "> half a li")
	})
	zero.keys("C-u")
	runAll(panes, "wait 2; expect wrong == 0", `wrong == 0 holds`)
	// One stops it, for both.
	runAll(panes, "all-reduce --size 4K --duration 1h &", `\[3\] started`)
	zero.run("close &", `close cannot run in the background`)
	zero.run("stop 3; wait")
	one.run("wait 3")
	for _, p := range panes {
		p.await("the end of job 3", func(screen string) bool { return strings.Contains(screen, "[3] stopped: all-reduce") })
	}
	// close comes in its turn.
	runAll(panes, "all-gather --size 16K --iters 3 &", `\[4\] started`)
	runAll(panes, "close", `has left the ring`)
	for rank, p := range panes {
		if screen := p.screen(); !strings.Contains(screen[:strings.LastIndex(screen, "has left the ring")], "[4] done: all-gather") {
			t.Errorf("rank %d has left the ring before its job has ended:\n%s", rank, screen)
		}
	}
	runAll(panes, "connect", `(?m)^left +own +[01] RTS`)
	runAll(panes, "all-reduce --size 4K --duration 1h &", `\[5\] started`)
	runAll(panes, "all-gather --size 4K &", `\[6\] started`)
	if err := syscall.Kill(one.child(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	zero.await("the end of both jobs", func(screen string) bool {
		text := strings.Join(strings.Fields(screen), " ")
		return regexp.MustCompile(`ringcli: rank 1 .*it ended \[5\] all-reduce .*it ended \[6\] all-gather `).MatchString(text)
	})
	zero.run("jobs", `nothing runs in the background`)
	zero.keys("C-d")
	if code := zero.left(); code != "0" {
		t.Errorf("exit code %s\n%s", code, zero.screen())
	}
}
