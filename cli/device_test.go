package cli

import (
	"slices"
	"strings"
	"testing"

	"ringcli/cli/exit"
	"ringcli/verbs/verbstest"
)

// Without a device being named, ranks of this machine share memory, and status says
// so of every edge, with the reason.
func TestAutoTakesSharedMemory(t *testing.T) {
	p := launch(t, "local", "-n", "3", "--device", "auto", "--output", "json", "-c", "status; all-reduce --size 64K --check; counters")
	if code := p.end(t, hung); code != exit.OK {
		t.Fatalf("exit code %d\n%s", code, p.stderr.String())
	}
	edges, counted := 0, false
	for _, o := range objects(t, p.stdout.String()) {
		switch {
		case o["command"] == "status" && o["qp_state"] != nil:
			edges++
			if why, _ := o["device_why"].(string); o["device"] != "shm:0" || !strings.Contains(why, "processes of one host") {
				t.Errorf("an edge is on %v, since %q: expected shm:0, and the reason", o["device"], why)
			}
		case o["command"] == "counters" && o["provider"] != nil:
			counted = true
			if o["provider"] != "shm" {
				t.Errorf("provider %v has counted: expected shm alone", o["provider"])
			}
		}
	}
	if edges < 6 || !counted {
		t.Errorf("%d edges, counters of devices: %v: expected 6 or more, and some\n%s", edges, counted, p.stdout.String())
	}
}

// What is injected is said wherever it may be taken for a fault, on all ranks.
func TestInjectedFaultsAreTold(t *testing.T) {
	t.Parallel()
	const faults = "soft: down at 0s for 1m to 1 on 0"
	code, stdout, stderr := finish(t, "local", "-n", "2", "--device", "soft", "--output", "json",
		"-c", "inject 'soft: delay 1ms'; status; inject off; status; inject '"+faults+"'; all-reduce")
	if code != exit.Critical {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	var told []any
	for _, o := range of(objects(t, stdout), "status") {
		if o["side"] == "left" {
			told = append(told, o["injected"])
		}
	}
	if want := []any{"soft: delay 1ms", "soft: delay 1ms", nil, nil}; !slices.Equal(told, want) {
		t.Errorf("status tells %v: expected %v", told, want)
	}
	failed := of(objects(t, stdout), "all-reduce")
	if len(failed) == 0 || slices.ContainsFunc(failed, func(o map[string]any) bool { return o["injected"] != faults }) {
		t.Errorf("%v: expected failures that tell of %q", failed, faults)
	}
	for _, args := range [][]string{
		{"--device", "shm", "--inject", "soft: loss 1%"}, {"--inject", "soft: lose 1%"}, {"--inject", "soft: loss 1% to 2"},
		{"--device", "shm", "-c", "inject 'soft: loss 1%'"}, {"-c", "inject 'soft: loss'"},
	} {
		if code, stdout, stderr := finish(t, append([]string{"local", "-n", "2"}, args...)...); code != exit.Usage {
			t.Errorf("%q: exit code %d: %s%s", args, code, stdout, stderr)
		}
	}
}

// Ranks are killed, stopped and late when a script says so, and when a leader does; each
// failure tells that it is on purpose.
func TestRanksAreHarmedOnPurpose(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	fails := func(t *testing.T, code int, stdout, stderr, injected, kind string, rank float64) {
		t.Helper()
		if code != exit.Critical {
			t.Errorf("exit code %d: %s%s", code, stdout, stderr)
		}
		for _, o := range objects(t, stdout) {
			if v, ok := o["verdict"].(map[string]any); ok {
				if v["kind"] != kind || v["rank"] != rank || o["injected"] != injected {
					t.Errorf("%v: expected rank %v to be %s and to be told that it was on purpose", o, rank, kind)
				}
				return
			}
		}
		t.Errorf("no verdict: %s%s", stdout, stderr)
	}
	t.Run("kill", func(t *testing.T) {
		t.Parallel()
		code, stdout, stderr := finish(t, "local", "-n", "3", "--output", "json", "-c", "inject kill 2; sleep 1h")
		fails(t, code, stdout, stderr, "kill rank 2", "lost", 2)
	})
	t.Run("stop", func(t *testing.T) {
		t.Parallel()
		code, stdout, stderr := finish(t, "local", "-n", "3", "--death", "1s", "--silence", "2s", "--device", "shm", "--output", "json", "-c", "inject stop 1 8s; sleep 1h")
		fails(t, code, stdout, stderr, "stop rank 1 for 8s", "stopped", 1)
	})
	t.Run("goes on", func(t *testing.T) {
		t.Parallel()
		code, stdout, stderr := finish(t, "local", "-n", "2", "--output", "json", "-c",
			"inject stop 1 100ms --after 0s; inject cut 0 50ms; inject delay 1 30ms; all-reduce --size 4 --iters 3 --warmup 1; inject off; status")
		if code != exit.OK {
			t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
		}
		result := of(objects(t, stdout), "all-reduce")[0]
		if fastest := result["time_us"].(map[string]any)["min"].(float64); fastest < 30000 {
			t.Errorf("the fastest all-reduce took %v us, though a rank is late by 30 ms", fastest)
		}
		if told := of(objects(t, stdout), "status")[0]["injected"]; told != nil {
			t.Errorf("status tells of %v", told)
		}
	})
	t.Run("led", func(t *testing.T) {
		t.Parallel()
		list := freshList(t, 3)
		ranks := followers(t, list)
		code, stdout, stderr := finish(t, "connect", "--index", "0", "--list", strings.Join(list, ","), "--output", "json", "-c", "inject kill 1; all-reduce --duration 1h")
		fails(t, code, stdout, stderr, "kill rank 1", "lost", 1)
		_ = ranks[1].Wait() // killed
		if code, said := ranks[2].end(t, hung), reported(ranks[2]); code != exit.Critical || !strings.Contains(said, "on purpose: kill rank 1") {
			t.Errorf("the follower: exit code %d\n%s", code, ranks[2].stderr.String())
		}
		gone(t, list)
	})
	if code, stdout, stderr := finish(t, "local", "-n", "2", "--device", "shm", "-c", "inject cut 1 1s"); code != exit.Usage {
		t.Errorf("cut of what has no packets: exit code %d: %s%s", code, stdout, stderr)
	}
}
