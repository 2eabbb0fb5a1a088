package cli

import (
	"slices"
	"strings"
	"testing"

	"ringcli/cli/exit"
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
	code, stdout, stderr := finish(t, "local", "-n", "2", "--device", "soft", "--qp-timeout", "10", "--output", "json",
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
