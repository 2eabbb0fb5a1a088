package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ringcli/cli/exit"
	"ringcli/verbs/verbstest"
)

// trio is a leader's shell and a follower, rank 1, of a ring of three.
func trio(t *testing.T) (leader, follower *piped, list []string) {
	t.Helper()
	list = freshList(t, 3)
	leader = pipe(t, "shell", "--index", "0", "--list", strings.Join(list, ","), "--output", "json")
	follower = pipe(t, "connect", "--follow", "--index", "1", "--list", strings.Join(list, ","), "--trace", "bootstrap=debug,ring=debug")
	return leader, follower, list
}

// walk has rank 2 walk so many steps of a bring-up by hand, together with the others, whose
// bring-up then waits for its next.
func walk(t *testing.T, list []string, steps ...string) *piped {
	t.Helper()
	p := pipe(t, "shell", "--index", "2", "--list", strings.Join(list, ","), "--output", "json")
	for _, step := range slices.Concat(steps, []string{"version"}) { // which a step that fails keeps from running
		p.line(step)
	}
	p.await(p.out, `"command":"version"`, 1)
	return p
}

var steps = []string{"open", "init", "exchange", "rtr", "rts", "ping --all --iters 1"}

// A follower ends with its leader, whatever had come of the first ring when that was killed,
// or ended since another was: a ring that failed before it was ready was one.
func TestFollowersEndWithALeaderOfARingThatWasNeverReady(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	for n := 3; n <= len(steps); n++ { // before, the follower waits for another leader
		for _, victim := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s, rank %d", steps[n-1], victim), func(t *testing.T) {
				if testing.Short() && n != len(steps) {
					t.Skip("a sample of the steps is enough")
				}
				t.Parallel()
				leader, follower, list := trio(t)
				leader.line("connect")
				walker := walk(t, list, steps[:n]...)
				follower.await(follower.err, "exchanged with neighbour", 2)
				if victim == 0 {
					kill(t, leader.Process.Pid)
				} else {
					kill(t, walker.Process.Pid)
					if code := leader.over(); code != exit.Critical {
						t.Errorf("the leader: exit code %d\n%s%s", code, leader.out, leader.err)
					}
				}
				if code := follower.over(); code != exit.Critical || !regexp.MustCompile(fmt.Sprintf(`(?m)^ringcli: .*rank %d \(`, victim)).MatchString(follower.err.String()) {
					t.Errorf("exit code %d: expected %d, and rank %d\n%s%s", code, exit.Critical, victim, follower.out, follower.err)
				}
			})
		}
	}
}

// So it does at each step of the next bring-up.
func TestFollowersEndWithALeaderThatRegroups(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	for n := range len(steps) + 1 {
		t.Run(strings.Join(append([]string{"begun"}, steps[:n]...), ", "), func(t *testing.T) {
			if testing.Short() && n != 1 {
				t.Skip("a sample of the steps is enough")
			}
			t.Parallel()
			leader, follower, list := trio(t)
			lost := pipe(t, "connect", "--follow", "--index", "2", "--list", strings.Join(list, ","))
			leader.line("connect")
			leader.await(leader.out, `"command":"connect"`, 4)
			kill(t, lost.Process.Pid)
			follower.await(follower.err, "the ring failed", 1)
			leader.line("reconnect --timeout 1m")
			follower.await(follower.err, "listening", 2)
			if n > 0 {
				walk(t, list, steps[:n]...)
			}
			kill(t, leader.Process.Pid)
			if code := follower.over(); code != exit.Critical || !strings.Contains(follower.err.String(), "ringcli: rank ") {
				t.Errorf("exit code %d: expected %d\n%s%s", code, exit.Critical, follower.out, follower.err)
			}
		})
	}
}

// A shell that nobody types into ends with the verdict on a ring that has failed while no
// line ran, unless a line has mended it.
func TestAPipedShellEndsWithItsRing(t *testing.T) {
	t.Parallel()
	for _, last := range []string{"", "quit", "version", "reconnect"} {
		t.Run(last, func(t *testing.T) {
			t.Parallel()
			list := freshList(t, 2)
			var ranks []*piped
			for rank := range list {
				ranks = append(ranks, pipe(t, "shell", "--index", fmt.Sprint(rank), "--list", strings.Join(list, ","), "--output", "json", "--trace", "ring=debug"))
				ranks[rank].line("connect")
			}
			for _, p := range ranks {
				p.await(p.out, `"command":"connect"`, 4)
			}
			kill(t, ranks[1].Process.Pid)
			p, want, said := ranks[0], exit.Critical, 1
			p.await(p.err, "the ring failed", 1)
			if last == "reconnect" {
				again := pipe(t, "shell", "--index", "1", "--list", strings.Join(list, ","))
				again.line("connect")
				p.line(last)
				reconnected(t, p, 0, 2, 0, 1)
				want, said = exit.OK, 0
			} else if last != "" {
				p.line(last)
			}
			if code := p.over(); code != want || strings.Count(p.out.String(), `"error":"rank 1 `) != said {
				t.Errorf("exit code %d: expected %d, and rank 1 %d times\n%s%s", code, want, said, p.out, p.err)
			}
		})
	}
}

// With --keep-going a script goes on after a ring that has failed, and its `reconnect` makes
// the next one. The failure remains the exit code, and is none of that ring's.
func TestKeepGoingOutlivesARing(t *testing.T) {
	t.Parallel()
	list := freshList(t, 3)
	var ranks []*piped
	for rank := range list {
		ranks = append(ranks, pipe(t, "connect", "--index", fmt.Sprint(rank), "--list", strings.Join(list, ","), "--print", "all", "--output", "json", "--keep-going",
			"-c", "all-reduce --size 4K --check; sleep 1h; all-reduce --size 8K; version; reconnect --without 2; all-reduce --size 16K --check; sleep 100ms; all-gather --size 4K --check"))
	}
	for _, p := range ranks {
		p.await(p.out, `"command":"all-reduce"`, 1)
	}
	kill(t, ranks[2].Process.Pid)
	for rank, p := range ranks[:2] {
		code := p.over()
		var got []string
		for _, o := range objects(t, p.out.String()) {
			text, _ := o["error"].(string)
			got = append(got, fmt.Sprint(o["command"], " ", o["ok"], " ", strings.Contains(text, "rank 2 "), " ", strings.HasPrefix(text, "the ring is over")))
		}
		want := "all-reduce true false false, sleep false true false, all-reduce false true true, version true false false, " +
			"reconnect true false false, all-reduce true false false, all-gather true false false"
		if text := strings.Join(got, ", "); code != exit.Critical || text != want {
			t.Errorf("rank %d: exit code %d, %s: expected %d, %s\n%s%s", rank, code, text, exit.Critical, want, p.out, p.err)
		}
	}
}
