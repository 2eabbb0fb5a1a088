package cli

import (
	"testing"

	"ringcli/cli/exit"
)

// Eight operations are in flight on each rank: their results are those of one at a time, in
// order, on every provider.
func TestOverlap(t *testing.T) {
	t.Parallel()
	for _, device := range []string{"soft:lo", "shm:0"} {
		code, stdout, stderr := finish(t, "local", "-n", "2", "--device", device, "--output", "json",
			"-c", "overlap --size 4K --in-flight 8 --iters 3 --compute 100us; overlap rs --size 10K --type int8 --op max --iters 1")
		if code != exit.OK {
			t.Fatalf("%s: exit code %d\n%s", device, code, stderr)
		}
		list := of(objects(t, stdout), "overlap")
		if len(list) != 2 {
			t.Fatalf("%s: %d results: expected 2\n%s", device, len(list), stdout)
		}
		for i, o := range list {
			operation, inFlight := [...]string{"all-reduce", "reduce-scatter"}[i], [...]float64{8, 1}[i]
			if o["operation"] != operation || o["in_flight"] != inFlight || o["wrong"] != 0.0 || o["ok"] != true || o["overlapped_us"].(float64) <= 0 {
				t.Errorf("%s: %v: expected %v right results of %s in flight", device, o, inFlight, operation)
			}
		}
	}
}
