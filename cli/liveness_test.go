package cli

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringcli/cli/exit"
	"ringcli/verbs/verbstest"
)

// idle starts the ranks of a ring that does nothing, and waits until it does.
func idle(t *testing.T, list []string, args ...string) []*piped {
	t.Helper()
	ranks := make([]*piped, len(list))
	for rank := range ranks {
		ranks[rank] = pipe(t, append([]string{"connect", "--index", fmt.Sprint(rank), "--list", strings.Join(list, ","), "--print", "all", "--output", "json", "-c", "ping; sleep 1h"}, args...)...)
	}
	for _, p := range ranks {
		p.await(p.out, `"command":"ping"`, 1)
	}
	return ranks
}

// verdictOf waits for a rank's end and returns the verdict that it ends with.
func verdictOf(t *testing.T, rank int, p *piped) (verdict map[string]any, said string) {
	t.Helper()
	if code := p.over(); code != exit.Critical {
		t.Errorf("rank %d: exit code %d: expected %d\n%s%s", rank, code, exit.Critical, p.out, p.err)
	}
	for _, o := range objects(t, p.out.String()) {
		if v, ok := o["verdict"].(map[string]any); ok {
			verdict, said = v, fmt.Sprint(o["error"])
			if o["code"] != v["kind"] && o["code"] != v["code"] {
				t.Errorf("rank %d: the code is %v, and the verdict %v", rank, o["code"], v)
			}
		}
	}
	if verdict == nil {
		t.Fatalf("rank %d has no verdict\n%s%s", rank, p.out, p.err)
	}
	return verdict, said
}

// agreed checks that all survivors have one verdict, and what it says.
func agreed(t *testing.T, ranks []*piped, victim int, kind, confidence string) {
	t.Helper()
	var first map[string]any
	for rank, p := range ranks {
		if rank == victim {
			continue
		}
		v, _ := verdictOf(t, rank, p)
		if first == nil {
			first = v
		}
		want := map[string]any{"kind": kind, "rank": float64(victim), "pid": float64(ranks[victim].Process.Pid), "confidence": confidence}
		for key, value := range want {
			if v[key] != value {
				t.Errorf("rank %d: %s is %v: expected %v", rank, key, v[key], value)
			}
		}
		if !reflect.DeepEqual(v, first) {
			a, _ := json.Marshal(v)
			b, _ := json.Marshal(first)
			t.Errorf("rank %d has another verdict than the first survivor:\n%s\n%s", rank, a, b)
		}
	}
}

// Survivors of an idle ring name the process that was killed, all alike, and do not end as
// if nothing had happened.
func TestARankKilledWhileTheRingIsIdle(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	for _, n := range []int{2, 3, 4, 8} {
		if testing.Short() && n != 3 {
			continue // a sample
		}
		list, victim := freshList(t, n), n-1
		ranks := idle(t, list)
		if err := ranks[victim].Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = ranks[victim].Wait() // killed
		agreed(t, ranks, victim, "lost", "certain")
		gone(t, list)
	}
}

// Survivors name the process that is stopped, for certain where they share its host, and it
// blames nobody when it goes on. One that goes on in time is no news.
func TestARankStoppedWhileTheRingIsIdle(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	for _, n := range []int{2, 3, 4} {
		if testing.Short() && n != 3 {
			continue // a sample
		}
		const victim = 1
		list := freshList(t, n)
		ranks := idle(t, list, "--death", "2s", "--silence", "3s")
		signal := func(s syscall.Signal) {
			if err := ranks[victim].Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
		signal(syscall.SIGSTOP)
		time.Sleep(400 * time.Millisecond)
		signal(syscall.SIGCONT)
		time.Sleep(200 * time.Millisecond)
		for rank, p := range ranks {
			if strings.Contains(p.out.String(), "verdict") {
				t.Fatalf("rank %d of %d: it was stopped for 0.4 s of 3: %s", rank, n, p.out)
			}
		}
		signal(syscall.SIGSTOP)
		agreed(t, ranks, victim, "stopped", "certain")
		signal(syscall.SIGCONT)
		v, said := verdictOf(t, victim, ranks[victim])
		if v["rank"] != float64(victim) || !strings.HasPrefix(said, "this rank stood still for ") {
			t.Errorf("the stopped rank says %q, %v", said, v)
		}
		gone(t, list)
	}
}

// Whose ping fails since its neighbour is stopped has the verdict that all have.
func TestARankStoppedInAPing(t *testing.T) {
	t.Parallel()
	const victim = 1
	list := freshList(t, 3)
	ranks := make([]*piped, len(list))
	for rank := range ranks {
		ranks[rank] = pipe(t, "connect", "--index", fmt.Sprint(rank), "--list", strings.Join(list, ","), "--print", "all", "--output", "json",
			"--device", "soft:lo", "-c", "ping; ping --iters 10000000") // retries run out before the time of silence
	}
	for _, p := range ranks {
		p.await(p.out, `"command":"ping"`, 1)
	}
	time.Sleep(50 * time.Millisecond)
	if err := ranks[victim].Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	agreed(t, ranks, victim, "stopped", "certain")
}

// A leader whose last command only tells that the ring has failed has failed, and its
// followers end with the verdict instead of waiting for a leader that has ended.
func TestFollowersEndWithTheirLeader(t *testing.T) {
	t.Parallel()
	list := freshList(t, 3)
	ranks := followers(t, list)
	leader := pipe(t, "connect", "--index", "0", "--list", strings.Join(list, ","), "-c", "all-reduce --size 4K --check; sleep 1h")
	leader.await(leader.out, `(?m)^all-reduce +\S+ +4096`, 1)
	if err := ranks[1].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = ranks[1].Wait() // killed
	if code := leader.over(); code != exit.Critical || !strings.Contains(leader.err.String(), "rank 1 ") {
		t.Errorf("the leader: exit code %d\n%s", code, leader.err)
	}
	if code, said := ranks[2].end(t, hung), reported(ranks[2]); code != exit.Critical || !strings.Contains(said, "rank 1 ") {
		t.Errorf("the follower: exit code %d\n%s", code, ranks[2].stderr.String())
	}
	gone(t, list)
}
