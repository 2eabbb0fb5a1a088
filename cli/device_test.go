package cli

import (
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
