//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// script is a contender whose one process runs a script in the folder of its FIFOs. It
// introduces itself, and what comes next is the test's matter.
func script(text string) contender {
	return contender{name: "script", role: roleLimit, start: func(s site) []job {
		return []job{{args: []string{"sh", "-c", "cd $0; exec 3<0.orders 4>0.answers; echo $$ 0,1 a script >&4; " + text, s.dir}}}
	}}
}

func startScript(t *testing.T, text string) *team {
	t.Helper()
	got, err := startTeam(t.Context(), script(text), site{ranks: 1, dir: filepath.Join(t.TempDir(), "team")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(got.stop)
	if len(got.about) != 1 || !strings.HasSuffix(got.about[0], " 0,1 a script") {
		t.Errorf("about: %q", got.about)
	}
	return got
}

var aCell = cell{ranks: 1, bytes: 8}

func TestTeamAnswers(t *testing.T) {
	team := startScript(t, `while read what op count place iters warmup <&3; do echo $((count * iters)) >&4; done; echo over >over`)
	for range 3 {
		if us, err := team.measure(t.Context(), aCell, false, 7000, 1); err != nil || us != 2e-3 {
			t.Errorf("%g, %v", us, err)
		}
	}
	family := team.family()
	if len(family) == 0 {
		t.Error("the team has no processes")
	}
	team.stop()
	for _, pid := range family {
		if alive(pid) {
			t.Errorf("process %d is still there", pid)
		}
	}
	if _, err := os.Stat(team.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

// A process that ends is noticed at once, and what it said is told.
func TestTeamDies(t *testing.T) {
	team := startScript(t, `read line <&3; echo no more of this >&2; exit 1`)
	team.limit = time.Minute
	_, err := team.measure(t.Context(), aCell, false, 1, 1)
	if err == nil || !strings.Contains(err.Error(), "has ended") || !strings.Contains(err.Error(), "no more of this") {
		t.Error(err)
	}
	if _, err := team.measure(t.Context(), aCell, false, 1, 1); err == nil {
		t.Error("a team that has ended answers")
	}
}

// What hangs is ended, with its descendants, also if it does not want to.
func TestTeamHangs(t *testing.T) {
	for what, ctx := range map[string]func() (context.Context, context.CancelFunc){
		"deadline": func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) },
		"cancelled": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 50*time.Millisecond)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			team := startScript(t, `trap '' TERM; sleep 1000 & read line <&3; while :; do sleep 1000; done`)
			if what == "deadline" {
				team.limit = 50 * time.Millisecond
			}
			ctx, cancel := ctx()
			defer cancel()
			_, err := team.measure(ctx, aCell, false, 1, 1)
			if what == "deadline" && (err == nil || !strings.Contains(err.Error(), "no answer of rank 0 after 50ms")) {
				t.Error(err)
			}
			if what == "cancelled" && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			family := team.family()
			for deadline := time.Now().Add(20 * time.Second); len(family) < 2 && time.Now().Before(deadline); family = team.family() {
				time.Sleep(time.Millisecond) // the script begins late, on a busy machine
			}
			if len(family) < 2 {
				t.Errorf("processes: %v, expected the script and what it waits for", family)
			}
			team.stop()
			for _, pid := range family {
				if alive(pid) {
					t.Errorf("process %d is still there", pid)
				}
			}
		})
	}
}

func TestTeamFails(t *testing.T) {
	team := startScript(t, `read line <&3; echo error out of memory >&4; read line <&3`)
	if _, err := team.measure(t.Context(), aCell, false, 1, 1); err == nil || !strings.Contains(err.Error(), "rank 0: out of memory") {
		t.Error(err)
	}
	_, err := startTeam(t.Context(), contender{name: "nobody", start: func(site) []job { return []job{{args: []string{"no-such-program"}}} }},
		site{ranks: 1, dir: filepath.Join(t.TempDir(), "team")})
	if err == nil || !strings.Contains(err.Error(), "nobody does not start") {
		t.Error(err)
	}
}

func TestProcLines(t *testing.T) {
	s, ok := parseStatus("42 (a) b (c) S 17 42 42 0 -1 4194560 1 0 0 0 150 25 0 0 20 0 1 0 1 1 1")
	if !ok || s.parent != 17 || s.ticks != 175 {
		t.Errorf("%+v, %t", s, ok)
	}
	for _, bad := range []string{"", "42", "42 (a)", "42 (a) S x 1 1 1 1 1 1 1 1 1 1 1 1"} {
		if _, ok := parseStatus(bad); ok {
			t.Errorf("%q is taken", bad)
		}
	}
	l := parseLoad("cpu  100 10 20 5000 300 1 2 40 7 0")
	if l.busy != 1300*time.Millisecond || l.steal != 400*time.Millisecond {
		t.Errorf("%+v", l)
	}
	if s, ok := statusOf(os.Getpid()); !ok || s.parent != os.Getppid() {
		t.Errorf("%+v, %t", s, ok)
	}
	if cpuTime([]int{os.Getpid()}) < 0 || parseLoad(firstLine("/proc/stat")).busy <= 0 {
		t.Error("no time is used")
	}
}

func TestLoopback(t *testing.T) {
	claim, list, err := claimLoopback(3)
	if err != nil {
		t.Fatal(err)
	}
	if err := claim.Close(); err != nil || len(strings.Split(list, ",")) != 3 || !strings.HasPrefix(list, "127.") {
		t.Errorf("%q, %v", list, err)
	}
}
