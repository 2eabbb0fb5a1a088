package cli

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringcli/cli/exit"
	"ringcli/verbs/verbstest"
)

// led starts a shell that is to lead and its followers, of a few of the ranks of a list.
func led(t *testing.T, list []string, follow ...int) (leader *piped, followers []*piped) {
	t.Helper()
	flags := []string{"--list", strings.Join(list, ","), "--death", "2s", "--silence", "3s"}
	for _, rank := range follow {
		followers = append(followers, pipe(t, append([]string{"connect", "--follow", "--index", fmt.Sprint(rank)}, flags...)...))
	}
	return pipe(t, append([]string{"shell", "--index", "0"}, flags...)...), followers
}

func (p *piped) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// loseRank2 kills a rank that is no neighbour of the leader, and waits until the other
// followers of 4 ranks wait for the next ring.
func loseRank2(followers []*piped) {
	followers[1].signal(syscall.SIGKILL)
	for _, i := range []int{0, 2} {
		followers[i].await(followers[i].err, "waiting for the leader to connect again", 1)
	}
}

// Followers of a leader that is stopped end, whatever they wait for, and say so.
func TestFollowersOfALeaderThatIsStopped(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	for name, c := range map[string]struct {
		reach func(leader *piped, followers []*piped) // the wait
		want  string
	}{
		"for a command": {func(leader *piped, _ []*piped) {
			leader.await(leader.out, "3 ranks follow", 1)
		}, "is stopped: "},
		"for the one that runs": {func(leader *piped, _ []*piped) {
			leader.line("all-reduce --size 4K --check; all-reduce --size 64K --duration 1h")
			leader.await(leader.out, `(?m)^all-reduce +\S+ +4096`, 1)
		}, "is stopped: "},
		"for the next ring": {func(leader *piped, followers []*piped) {
			leader.await(leader.out, "3 ranks follow", 1)
			loseRank2(followers)
		}, "waiting for the leader to connect again: rank 0 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := freshList(t, 4)
			leader, followers := led(t, list, 1, 2, 3)
			leader.line("connect")
			c.reach(leader, followers)
			leader.signal(syscall.SIGSTOP)
			for i, p := range []*piped{followers[0], followers[2]} {
				if code := p.over(); code != exit.Critical || !strings.Contains(reportedIn(p.err.String()), c.want) || !strings.Contains(reportedIn(p.err.String()), "rank 0 ("+list[0]) {
					t.Errorf("rank %d: exit code %d: expected %d, and %q of rank 0 in\n%s", 2*i+1, code, exit.Critical, c.want, p.err)
				}
			}
		})
	}
}

// Before the first ring, too, a leader that stands still is not waited for without end, nor is
// one that was not started given up.
func TestFollowersOfALeaderThatIsStoppedBeforeTheFirstRing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes four times --silence")
	}
	list := freshList(t, 4)
	leader, followers := led(t, list, 1, 2) // rank 3 is awaited
	time.Sleep(2 * time.Second)             // nobody is at rank 0's address
	leader.line("connect")
	for {
		conn, err := net.Dial("tcp", list[0])
		if err == nil { // it listens
			_ = conn.Close()
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	leader.signal(syscall.SIGSTOP)
	for i, p := range followers {
		code, said := p.over(), reportedIn(p.err.String())
		if code != exit.Critical || !strings.HasPrefix(said, "ringcli: rank 0 ("+list[0]+") stands still") || !strings.Contains(said, "waiting for the leader to connect") {
			t.Errorf("rank %d: exit code %d: expected %d, and what it waited for in\n%s", i+1, code, exit.Critical, p.err)
		}
	}
}

// A leader that is idle is waited for, longer than --silence, also if it was stopped for less.
func TestFollowersWaitForALeaderThatLives(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	list := freshList(t, 4)
	leader, followers := led(t, list, 1, 2, 3)
	leader.line("connect")
	leader.await(leader.out, "3 ranks follow", 1)
	loseRank2(followers)
	leader.signal(syscall.SIGSTOP)
	time.Sleep(time.Second)
	leader.signal(syscall.SIGCONT)
	time.Sleep(4 * time.Second)
	leader.line("reconnect --without 2")
	leader.line("all-reduce --size 4K --check")
	leader.await(leader.out, `(?m)^all-reduce +\S+ +4096`, 1)
	leader.line("quit")
	for i, p := range []*piped{leader, followers[0], followers[2]} {
		if code := p.over(); code != exit.OK {
			t.Errorf("rank %d: exit code %d\n%s%s", i, code, p.out, p.err)
		}
	}
}
